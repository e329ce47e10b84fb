//! Formats values as Python does, because ADK puts them into prompts with `str()`, `repr()` and
//! `json.dumps()`.
//!
//! Models tuned on ADK's prompts, and providers that cache prompts, then receive the same bytes.
//! The output is that of Python 3.11 for the parsed JSON value.

mod unprintable;

use std::fmt::Write as _;

use unprintable::UNPRINTABLE;

use crate::{DEPTH_MAX, Json, JsonMap, Number};

/// Formats like `str(value)`: a string unchanged, any other value as [`python_repr`].
///
/// ```
/// use retain_core::Json;
/// use retain_core::python_text::python_str;
/// let value = Json::parse(r#"{"name": "O'Neil", "tags": [true, null, 1e16]}"#).unwrap();
/// assert_eq!(python_str(&value), r#"{'name': "O'Neil", 'tags': [True, None, 1e+16]}"#);
/// assert_eq!(python_str(&"as it is".into()), "as it is");
/// ```
pub fn python_str(value: &Json) -> String {
    match value {
        Json::String(text) => text.to_string(),
        other => python_repr(other),
    }
}

/// Formats like `repr(value)`.
pub fn python_repr(value: &Json) -> String {
    let mut out = String::new();
    push_value(&mut out, value, &REPR, 0);
    out
}

/// Formats a dict of these entries like `repr()`.
pub fn python_repr_map(map: &JsonMap) -> String {
    let mut out = String::new();
    push_entries(&mut out, map.iter(), &REPR, 0);
    out
}

/// Like [`python_repr_map`], with the top-level keys sorted.
pub fn python_repr_sorted(map: &JsonMap) -> String {
    let mut entries: Vec<(&str, &Json)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    let mut out = String::new();
    push_entries(&mut out, entries.into_iter(), &REPR, 0);
    out
}

/// Formats a dict of these entries like `json.dumps(value, ensure_ascii=False)`.
pub fn python_json_map(map: &JsonMap) -> String {
    let mut out = String::new();
    push_entries(&mut out, map.iter(), &JSON, 0);
    out
}

/// Formats like `json.dumps(map, ensure_ascii=False, sort_keys=True)`.
pub fn python_json_sorted(map: &JsonMap) -> String {
    fn sorted(value: &Json) -> Json {
        match value {
            Json::Object(map) => sorted_map(map).into(),
            Json::Array(items) => items.iter().map(sorted).collect::<Vec<_>>().into(),
            value => value.clone(),
        }
    }
    fn sorted_map(map: &JsonMap) -> JsonMap {
        let mut entries: Vec<(&str, &Json)> = map.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        let entries = entries.into_iter();
        entries.map(|(key, value)| (key, sorted(value))).collect()
    }
    python_json_map(&sorted_map(map))
}

/// Formats like `json.dumps(value, ensure_ascii=False)`.
pub fn python_json(value: &Json) -> String {
    let mut out = String::new();
    push_value(&mut out, value, &JSON, 0);
    out
}

/// Formats like `json.dumps(value)`, which escapes non-ASCII characters.
///
/// ```
/// use retain_core::python_text::python_json_ascii;
/// assert_eq!(python_json_ascii(&"é \u{1f600}".into()), r#""\u00e9 \ud83d\ude00""#);
/// ```
pub fn python_json_ascii(value: &Json) -> String {
    let mut out = String::new();
    for c in python_json(value).chars() {
        match c {
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}

/// Trims the characters that Python treats as whitespace.
pub fn python_strip(text: &str) -> &str {
    text.trim_matches(is_python_space)
}

/// Whether Python treats the character as whitespace. Unlike Unicode and Rust, it includes the four
/// ASCII separators.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The tokens that `repr` and JSON spell differently.
struct Notation {
    null: &'static str,
    truth: [&'static str; 2],
    infinity: &'static str,
    not_a_number: &'static str,
    push_text: fn(&mut String, &str),
}

static REPR: Notation = Notation {
    null: "None",
    truth: ["False", "True"],
    infinity: "inf",
    not_a_number: "nan",
    push_text: push_repr_text,
};

static JSON: Notation = Notation {
    null: "null",
    truth: ["false", "true"],
    infinity: "Infinity",
    not_a_number: "NaN",
    push_text: push_json_text,
};

/// Appends a value. Stored values are at most [`DEPTH_MAX`] levels deep; a deeper one is printed as
/// Python prints a cycle.
fn push_value(out: &mut String, value: &Json, notation: &Notation, depth: usize) {
    match value {
        Json::Null => out.push_str(notation.null),
        Json::Bool(value) => out.push_str(notation.truth[usize::from(*value)]),
        Json::Number(number) => push_number(out, number, notation),
        Json::String(text) => (notation.push_text)(out, text),
        Json::Array(items) => push_items(out, items, notation, depth),
        Json::Object(map) => push_entries(out, map.iter(), notation, depth),
    }
}

fn push_items(out: &mut String, items: &[Json], notation: &Notation, depth: usize) {
    if depth >= DEPTH_MAX {
        return out.push_str("[...]");
    }
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_value(out, item, notation, depth + 1);
    }
    out.push(']');
}

fn push_entries<'a>(
    out: &mut String,
    entries: impl Iterator<Item = (&'a str, &'a Json)>,
    notation: &Notation,
    depth: usize,
) {
    if depth >= DEPTH_MAX {
        return out.push_str("{...}");
    }
    out.push('{');
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        (notation.push_text)(out, key);
        out.push_str(": ");
        push_value(out, value, notation, depth + 1);
    }
    out.push('}');
}

fn push_number(out: &mut String, number: &Number, notation: &Notation) {
    let text = number.to_string();
    if number.is_integer() {
        // Python integers have no negative zero.
        return out.push_str(if text == "-0" { "0" } else { &text });
    }
    match text.parse::<f64>() {
        Ok(float) => push_float(out, float, notation),
        Err(_) => out.push_str(&text),
    }
}

fn push_float(out: &mut String, float: f64, notation: &Notation) {
    if float.is_nan() {
        return out.push_str(notation.not_a_number);
    }
    if float.is_infinite() {
        out.push_str(if float < 0.0 { "-" } else { "" });
        return out.push_str(notation.infinity);
    }
    let scientific = shortest(float);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a `String` never fails.
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    out.push_str(if float.is_sign_negative() { "-" } else { "" });
    let digits = mantissa.replace(['-', '.'], "");
    let (whole, fraction) = match usize::try_from(exponent) {
        Ok(exponent) if exponent + 1 < digits.len() => digits.split_at(exponent + 1),
        Ok(exponent) => (&*format!("{digits:0<width$}", width = exponent + 1), "0"),
        Err(_) => (
            "0",
            &*format!(
                "{digits:0>width$}",
                width = digits.len() + exponent.unsigned_abs() as usize - 1
            ),
        ),
    };
    let _ = write!(out, "{whole}.{fraction}");
}

/// Returns the shortest decimal that parses to the same float, such as `1.5e-7`.
///
/// If two decimals of that length are equally near, Python chooses the even one and Rust the upper.
fn shortest(float: f64) -> String {
    let shortest = format!("{float:e}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let nearest = format!("{float:.precision$e}", precision = digits.saturating_sub(1));
    match nearest.parse() == Ok(float) {
        true => nearest,
        false => shortest,
    }
}

/// Writes a quoted string: in single quotes, unless only double quotes avoid an escape.
fn push_repr_text(out: &mut String, text: &str) {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if is_printable(c) => out.push(c),
            c => push_code(out, c),
        }
    }
    out.push(quote);
}

fn push_code(out: &mut String, c: char) {
    let code = c as u32;
    // Writing to a `String` never fails.
    let _ = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Whether Python's `str.isprintable` accepts the character.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let code = c as u32;
    let index = UNPRINTABLE.partition_point(|(first, _)| *first <= code);
    let run = index
        .checked_sub(1)
        .and_then(|index| UNPRINTABLE.get(index));
    run.is_none_or(|(_, last)| code > *last)
}

fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            // Writing to a `String` never fails.
            '\0'..='\u{1f}' => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repr(json: &str) -> String {
        python_repr(&Json::parse(json).unwrap())
    }

    #[test]
    fn floats_are_printed_as_in_python() {
        for (json, printed) in [
            ("1.0", "1.0"),
            ("1.50", "1.5"),
            ("1e2", "100.0"),
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("1.25e22", "1.25e+22"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.5e-7", "1.5e-07"),
            ("5e-324", "5e-324"),
            ("0.00123", "0.00123"),
            ("-123.5", "-123.5"),
            ("742883043651717.25", "742883043651717.2"),
            ("-0.0", "-0.0"),
            ("1e400", "inf"),
            ("-1e400", "-inf"),
        ] {
            assert_eq!(repr(json), printed, "{json}");
        }
        assert_eq!(python_repr(&Number::from(f64::NAN).into()), "nan");
    }

    #[test]
    fn integers_are_printed_exactly() {
        assert_eq!(repr("-0"), "0");
        let long = "123456789012345678901234567890";
        assert_eq!(repr(long), long);
    }

    #[test]
    fn string_quotes_are_chosen_as_in_python() {
        assert_eq!(python_repr(&"it's".into()), r#""it's""#);
        assert_eq!(python_repr(&r#"say "hi""#.into()), r#"'say "hi"'"#);
        assert_eq!(python_repr(&r#"it's "x""#.into()), r#"'it\'s "x"'"#);
    }

    #[test]
    fn non_printable_characters_are_escaped_as_in_python() {
        let text = "a\0\t\u{7f}\u{a0}\u{ad}é\u{200b}\u{1F600}\u{e0001}\u{10ffff}";
        let printed = r"'a\x00\t\x7f\xa0\xadé\u200b😀\U000e0001\U0010ffff'";
        assert_eq!(python_repr(&text.into()), printed);
    }

    #[test]
    fn sorted_repr_sorts_only_the_outer_keys() {
        let value = Json::parse(r#"{"b": {"z": 1, "a": 2}, "a": []}"#).unwrap();
        let map = value.as_object().unwrap();
        assert_eq!(python_repr_sorted(map), "{'a': [], 'b': {'z': 1, 'a': 2}}");
        assert_eq!(python_repr_map(map), "{'b': {'z': 1, 'a': 2}, 'a': []}");
    }

    #[test]
    fn json_has_the_spaces_and_escapes_of_python() {
        let value = Json::parse(r#"{"a": [1, null, "\u0001\b\u007fé\"\\"], "b": 1e400}"#).unwrap();
        let printed = "{\"a\": [1, null, \"\\u0001\\b\u{7f}é\\\"\\\\\"], \"b\": Infinity}";
        assert_eq!(python_json_map(value.as_object().unwrap()), printed);
    }

    #[test]
    fn repr_abbreviates_a_value_that_is_too_deep() {
        let deep = (0..100_000).fold(Json::Null, |inner, _| vec![inner].into());
        assert!(python_repr(&deep).contains("[[...]]"));
        // Dropping such a deep value recursively would overflow the stack.
        std::mem::forget(deep);
    }

    #[test]
    fn strip_removes_the_white_space_that_python_removes() {
        assert_eq!(python_strip("\u{1c}\u{3000} a b\u{85}\u{1f}"), "a b");
        assert_eq!(python_strip("\u{200b}"), "\u{200b}");
    }
}
