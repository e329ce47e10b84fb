//! The subset of JSONPath with which models address part of an argument.

use retain_core::{Json, JsonMap};

/// Maximum array index, so that a path cannot cause an allocation of gigabytes.
const INDEX_MAX: usize = 10_000;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Parses a path such as `$.a[0]['b c']`. Invalid parts are skipped.
pub(super) fn parse(path: &str) -> Vec<Step> {
    let path = path
        .strip_prefix("$.")
        .or_else(|| path.strip_prefix('$'))
        .unwrap_or(path);
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (step, len) = match rest.strip_prefix('[') {
            Some(inside) => match parse_bracketed(inside) {
                Some((step, len)) => (Some(step), len + 1),
                None => (None, 1),
            },
            None => parse_plain_key(rest),
        };
        steps.extend(step);
        rest = &rest[len..];
    }
    steps
}

/// Parses the step after an opening bracket. Returns it with its length, including the closing
/// bracket.
fn parse_bracketed(inside: &str) -> Option<(Step, usize)> {
    if let Some(quote) = inside.chars().next().filter(|c| *c == '\'' || *c == '"') {
        let (key, len) = unescape_until(&inside[1..], |c| c == quote)?;
        let close = 1 + len + 1;
        return inside[close..]
            .starts_with(']')
            .then(|| (Step::Key(key), close + 1));
    }
    let end = inside.find(']')?;
    let digits = inside[..end].trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| digits.parse().unwrap_or(usize::MAX));
    number.map(|number| (Step::Index(number), end + 1))
}

/// Parses a key up to the next dot or bracket. Returns it with its length.
fn parse_plain_key(text: &str) -> (Option<Step>, usize) {
    let dot = usize::from(text.starts_with('.'));
    let body = &text[dot..];
    let is_end = |c: char| matches!(c, '.' | '[' | ']');
    let (key, len) = unescape_until(body, is_end).unwrap_or_else(|| (unescape(body), body.len()));
    match len {
        0 => (None, text.chars().next().map_or(1, char::len_utf8)),
        _ => (Some(Step::Key(key)), dot + len),
    }
}

/// Returns the unescaped text before the first terminator, and its escaped length. `None` without a
/// terminator.
fn unescape_until(text: &str, is_end: impl Fn(char) -> bool) -> Option<(String, usize)> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if is_end(c) {
            return Some((unescape(&text[..at]), at));
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let hex = behind.strip_prefix('u').and_then(|hex| hex.get(..4));
        let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if let Some(code) = code {
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = &behind[5..];
            continue;
        }
        let Some(c) = behind.chars().next() else {
            out.push('\\');
            return out;
        };
        out.push(match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            c => c,
        });
        rest = &behind[c.len_utf8()..];
    }
    out.push_str(rest);
    out
}

/// Returns the value at a path.
pub(super) fn get<'a>(value: &'a Json, steps: &[Step]) -> Option<&'a Json> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.as_object()?.get(key),
        Step::Index(index) => value.as_array()?.get(*index),
    })
}

/// Sets the value at a path and creates missing containers. An empty path, or one that conflicts
/// with existing values, changes nothing.
pub(super) fn set(value: &mut Json, steps: &[Step], new: Json) {
    if !steps.is_empty() {
        put_value(value, steps, new);
    }
}

fn put_value(value: &mut Json, steps: &[Step], new: Json) {
    let Some((step, rest)) = steps.split_first() else {
        *value = new;
        return;
    };
    let missing = || match rest.first() {
        Some(Step::Index(_)) => Json::from(Vec::new()),
        _ => Json::from(JsonMap::default()),
    };
    match step {
        Step::Key(key) => {
            let Some(map) = value.as_object_mut() else {
                return;
            };
            if !map.contains_key(key) {
                let first = if rest.is_empty() {
                    Json::Null
                } else {
                    missing()
                };
                map.insert(key.as_str(), first);
            }
            if let Some(inside) = map.get_mut(key) {
                put_value(inside, rest, new);
            }
        }
        Step::Index(index) => {
            let Some(items) = value.as_array_mut().filter(|_| *index <= INDEX_MAX) else {
                return;
            };
            if items.len() <= *index {
                items.resize(index + 1, Json::Null);
            }
            if items[*index].is_null() && !rest.is_empty() {
                items[*index] = missing();
            }
            put_value(&mut items[*index], rest, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Step {
        Step::Key(text.to_owned())
    }

    #[test]
    fn path_parses_dots_brackets_quotes_and_escapes() {
        assert_eq!(parse("$.a.b"), [key("a"), key("b")]);
        assert_eq!(parse("a[3].b"), [key("a"), Step::Index(3), key("b")]);
        assert_eq!(parse(r"$['a b']['it\'s']"), [key("a b"), key("it's")]);
        assert_eq!(parse(r#"$["x.y"]"#), [key("x.y")]);
        assert_eq!(parse(r"$.a\.b"), [key("a.b")]);
        assert_eq!(parse(r"$['\u00e9\n']"), [key("é\n")]);
        assert_eq!(parse("$"), []);
    }

    #[test]
    fn missing_parents_of_a_path_are_created() {
        let mut value = Json::from(JsonMap::default());
        set(&mut value, &parse("$.a[1].b"), 5.into());
        assert_eq!(value.to_string(), r#"{"a":[null,{"b":5}]}"#);
        assert_eq!(get(&value, &parse("$.a[1].b")), Some(&Json::from(5)));
        set(&mut value, &parse("$.a.x"), 6.into());
        set(&mut value, &parse("$.a[20000]"), 7.into());
        assert_eq!(value.to_string(), r#"{"a":[null,{"b":5}]}"#);
    }
}
