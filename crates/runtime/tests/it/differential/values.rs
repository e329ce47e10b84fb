//! Random JSON values and their printed form.

use retain_core::python_text::{
    python_json_map, python_repr, python_repr_map, python_repr_sorted, python_str,
};
use retain_core::{Json, JsonMap, Number};
use retain_testkit::random::Random;

use crate::differential::oracle::{Oracle, cases};

/// Characters of every kind that is printed in a special way.
const CHARS: [&str; 30] = [
    "a",
    "Z",
    "0",
    " ",
    "'",
    "\"",
    "\\",
    "\n",
    "\r",
    "\t",
    "\0",
    "\u{1b}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "é",
    "ß",
    "\u{300}",
    "\u{378}",
    "\u{200b}",
    "\u{2028}",
    "\u{3000}",
    "漢",
    "\u{e000}",
    "\u{feff}",
    "\u{fffd}",
    "😀",
    "\u{e0001}",
    "\u{10ffff}",
];

/// Generates a text of a few random characters.
pub(crate) fn text(random: &mut Random) -> String {
    let one = |random: &mut Random| match random.below(8) {
        0 => {
            let any = char::from_u32(random.below(0x11_0000) as u32);
            any.unwrap_or('x').to_string()
        }
        1..=3 => random
            .pick(&["plain", "it's", "words and words", "\"q\""])
            .to_owned(),
        _ => random.pick(&CHARS).to_owned(),
    };
    (0..random.below(6)).map(|_| one(random)).collect()
}

/// Generates a number as JSON. If `is_stored`, it is a number that ADK stores unchanged.
fn number(random: &mut Random, is_stored: bool) -> String {
    match random.below(7) {
        0 => random
            .pick(&["0", "1", "-17", "0.0", "-0.0", "1e5", "1.50"])
            .to_owned(),
        1 => (random.next_u64() as i64).to_string(),
        2 => format!("-{}{}", random.next_u64(), random.next_u64()),
        3 => format!("{}e{}", random.below(1000), random.below(40) as i64 - 20),
        4 => format!("{}.{}", random.below(100_000), random.below(100_000)),
        5 if !is_stored => random.pick(&["1e400", "-1e999", "-0"]).to_owned(),
        _ => {
            let float = f64::from_bits(random.next_u64());
            let float = if float.is_finite() { float } else { 0.1 };
            Number::from(float).to_string()
        }
    }
}

/// Generates a value of any type and limited size.
pub(crate) fn value(random: &mut Random, depth: u64, is_stored: bool) -> Json {
    let kinds = if depth == 0 { 4 } else { 6 };
    match random.below(kinds) {
        0 => random.pick(&[Json::Null, true.into(), false.into()]),
        1 => Json::parse(&number(random, is_stored)).expect("a number"),
        2 | 3 => text(random).into(),
        4 => {
            let items = (0..random.below(4)).map(|_| value(random, depth - 1, is_stored));
            items.collect::<Vec<_>>().into()
        }
        _ => map(random, depth - 1, is_stored).into(),
    }
}

/// Generates a map of random values.
pub(crate) fn map(random: &mut Random, depth: u64, is_stored: bool) -> JsonMap {
    let entries = (0..random.below(5)).map(|_| {
        let key = match random.chance(60) {
            true => random.pick(&["b", "a", "city", "Z", "é", "aa"]).to_owned(),
            false => text(random),
        };
        (key, value(random, depth, is_stored))
    });
    entries.collect()
}

fn print(value: &Json) -> Json {
    let mut answer = JsonMap::from([("str", python_str(value)), ("repr", python_repr(value))]);
    if let Some(map) = value.as_object() {
        assert_eq!(python_repr(value), python_repr_map(map));
        answer.insert("sorted", python_repr_sorted(map));
        answer.insert("json", python_json_map(map));
    }
    answer.into()
}

pub(crate) fn compare() {
    let seeds = cases(6000);
    let Some(mut oracle) = Oracle::start("values") else {
        return;
    };
    let mut kinds = [0; 4];
    for batch in seeds.batches(500) {
        let values = batch.clone().map(|seed| {
            let mut random = Random::new(seed);
            match random.chance(50) {
                true => map(&mut random, 3, false).into(),
                false => value(&mut random, 3, false),
            }
        });
        let values: Vec<Json> = values.collect();
        let texts = values.iter().map(|value| Json::from(value.to_string()));
        let answers = oracle.ask("values", texts);
        for ((seed, value), theirs) in batch.zip(&values).zip(&answers) {
            assert_eq!(print(value), *theirs, "RETAIN_SEED={seed}: {value}");
            let text = theirs["repr"].as_str().unwrap_or_default();
            let signs = ["\\U000", "\\x", "e+", "inf"];
            for (kind, sign) in kinds.iter_mut().zip(signs) {
                *kind += usize::from(text.contains(sign));
            }
        }
    }
    oracle.stop();
    if seeds.is_whole_run() {
        println!("{kinds:?}");
        assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
    }
}

pub(crate) fn compare_characters() {
    let Some(mut oracle) = Oracle::start("characters") else {
        return;
    };
    let answers = oracle.ask("printable", [Json::Null].into_iter());
    oracle.stop();
    let runs = answers[0].as_array().expect("a list of runs");
    let ends = |run: &Json| (run[0].as_u64(), run[1].as_u64());
    let mut runs = runs.iter().map(ends).peekable();
    for c in '\0'..=char::MAX {
        let code = Some(u64::from(c));
        while runs.next_if(|(_, last)| *last < code).is_some() {}
        let is_hidden = runs.peek().is_some_and(|(first, _)| *first <= code);
        let printed = python_repr(&c.to_string().into());
        let is_escaped = c != '\\' && printed.starts_with("'\\");
        assert_eq!(is_escaped, is_hidden, "{c:?} is printed as {printed}");
    }
}
