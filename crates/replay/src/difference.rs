//! Finds the differences between two values and formats them for people.

use std::fmt;

use retain_core::Json;

/// A deviation from the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The request, call or event that differs.
    location: String,
    /// The JSON path of the difference.
    path: String,
    expected: String,
    found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.location, self.path)?;
        writeln!(f, "  expected: {}", self.expected)?;
        write!(f, "  found:    {}", self.found)
    }
}

impl Difference {
    /// Creates a difference that is described in words instead of by a JSON path.
    pub fn in_words(
        location: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Difference {
        Difference {
            location: location.into(),
            path: "as a whole".to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// Returns the differences between two values. `location` names the request, call or event.
pub fn differences(location: &str, expected: &Json, found: &Json) -> Vec<Difference> {
    let mut all = Vec::new();
    walk(expected, found, "$", &mut |path, expected, found| {
        let (expected, found) = excerpts(expected, found);
        all.push(Difference {
            location: location.to_owned(),
            path: path.to_owned(),
            expected,
            found,
        });
    });
    all
}

type Report<'a> = &'a mut dyn FnMut(&str, Option<&Json>, Option<&Json>);

fn walk(expected: &Json, found: &Json, path: &str, report: Report<'_>) {
    match (expected, found) {
        (Json::Object(expected), Json::Object(found)) => {
            for (key, value) in expected.iter() {
                let path = format!("{path}.{key}");
                match found.get(key) {
                    Some(other) => walk(value, other, &path, report),
                    None => report(&path, Some(value), None),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(key)) {
                report(&format!("{path}.{key}"), None, Some(value));
            }
        }
        (Json::Array(expected), Json::Array(found)) => {
            for at in 0..expected.len().max(found.len()) {
                let path = format!("{path}[{at}]");
                match (expected.get(at), found.get(at)) {
                    (Some(value), Some(other)) => walk(value, other, &path, report),
                    (value, other) => report(&path, value, other),
                }
            }
        }
        (expected, found) if expected == found => {}
        (expected, found) => report(path, Some(expected), Some(found)),
    }
}

/// Formats both values, starting shortly before the first differing character.
fn excerpts(expected: Option<&Json>, found: Option<&Json>) -> (String, String) {
    let text = |value: Option<&Json>| value.map_or("nothing".to_owned(), Json::to_string);
    let (expected, found) = (text(expected), text(found));
    let pairs = expected.chars().zip(found.chars());
    let common = pairs.take_while(|(a, b)| a == b).count();
    let excerpt = |text: String| -> String {
        let from = if common > 80 { common - 40 } else { 0 };
        let lead = if from > 0 { "…" } else { "" };
        let shown: String = text.chars().skip(from).take(300).collect();
        format!("{lead}{shown}")
    };
    (excerpt(expected), excerpt(found))
}
