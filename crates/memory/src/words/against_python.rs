//! Compares the Unicode data of Rust and of the tables with Python, for every code point.
//!
//! With Python 3.11, all code points that Unicode 14 assigns must agree, except [`SIGMA_DIFFERS`].
//! With a later Python, which has more code points, those that form words in Unicode 14 must agree.

use std::collections::HashMap;

use retain_core::Json;
use retain_testkit::oracle::{Oracle, Reference};

use super::*;

const TABLES: &str = include_str!("tables.rs");

/// Code points of Unicode 14 whose casing changed later. Next to them, Rust and Python may
/// lower-case a capital sigma differently, depending on the Unicode version of the compiler.
const SIGMA_DIFFERS: [char; 2] = ['\u{295}', '\u{1171e}'];

/// Returns what `code_points.py` prints for this argument; `None` if ADK is not installed.
fn python_output(argument: &str) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/code_points.py");
    let script = Oracle::start_with(Reference::Adk, "code points", script, |command| {
        command.arg(argument);
    });
    Some(script?.stop().join("\n") + "\n")
}

/// The output of `code_points.py facts`.
struct CharacterFacts(Json);

impl CharacterFacts {
    fn ranges(&self, name: &str) -> Vec<(u32, u32)> {
        let bound = |pair: &Json, at: usize| pair[at].as_u64().unwrap() as u32;
        let pairs = self.0[name].as_array().unwrap().iter();
        pairs.map(|pair| (bound(pair, 0), bound(pair, 1))).collect()
    }

    fn changes(&self, name: &str) -> HashMap<char, String> {
        let object = self.0[name].as_object().unwrap();
        let changes = object.iter().map(|(from, to)| {
            let to = to.as_str().unwrap().to_owned();
            (from.chars().next().unwrap(), to)
        });
        changes.collect()
    }

    /// Returns the code points for which `holds` differs from Python's list `name`.
    fn differing(&self, name: &str, holds: impl Fn(char) -> bool) -> Vec<char> {
        let ranges = self.ranges(name);
        let differs = |c: &char| holds(*c) != is_in(&ranges, *c);
        ('\0'..=char::MAX).filter(differs).collect()
    }

    /// Returns the code points for which `change` gives a different text than Python.
    fn differing_in_text(&self, name: &str, change: impl Fn(char) -> String) -> Vec<char> {
        let changes = self.changes(name);
        let differs = |c: &char| match changes.get(c) {
            Some(changed) => change(*c) != *changed,
            None => change(*c) != String::from(*c),
        };
        ('\0'..=char::MAX).filter(differs).collect()
    }
}

/// Whether the text ends with a final sigma in lower case.
fn ends_with_final_sigma(text: String) -> bool {
    text.to_lowercase().ends_with('ς')
}

#[test]
fn character_class_of_every_code_point_matches_python() {
    let Some(facts) = python_output("facts") else {
        return;
    };
    let facts = CharacterFacts(Json::parse(&facts).unwrap());
    let lower = |c: char| c.to_string().to_lowercase();
    let differing = [
        (
            "word",
            facts.differing("word", |c| {
                words(&composed(&format!("\0{c}"))).next().is_some()
            }),
        ),
        ("latin", facts.differing("latin", is_latin)),
        ("lower", facts.differing_in_text("lower", lower)),
        (
            "nfc",
            facts.differing_in_text("nfc", |c| composed(&c.to_string()).into_owned()),
        ),
        (
            "behind",
            facts.differing("sigma_final_behind", |c| {
                ends_with_final_sigma(format!("{c}Σ"))
            }),
        ),
        (
            "before",
            facts.differing("sigma_final_before", |c| {
                format!("AΣ{c}").to_lowercase().starts_with("aς")
            }),
        ),
        (
            "across",
            facts.differing("sigma_final_across", |c| {
                ends_with_final_sigma(format!("A{c}Σ"))
            }),
        ),
    ];
    let assigned = facts.ranges("assigned");
    let is_14 = facts.0["unicode"] == "14.0.0";
    let must_agree = |c: &char| is_word(*c) || (is_14 && is_in(&assigned, *c));
    for (name, differing) in differing {
        let different: Vec<char> = differing.into_iter().filter(must_agree).collect();
        let known: &[char] = match name {
            "behind" | "before" => &SIGMA_DIFFERS[..1],
            "across" => &SIGMA_DIFFERS,
            _ => &[],
        };
        let unexpected = |c: &&char| !known.contains(c);
        assert_eq!(different.iter().find(unexpected), None, "{name}");
    }
}

#[test]
fn committed_character_tables_equal_the_output_of_the_script() {
    let Some(version) = python_output("version") else {
        return;
    };
    // A Python with another Unicode version prints other tables; the other test still compares
    // every code point with that Python.
    if version.trim() == "14.0.0" {
        assert_eq!(python_output("tables").as_deref(), Some(TABLES));
    }
}
