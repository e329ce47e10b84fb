//! Compares two records field by field, so that an error can name the first difference without
//! revealing content.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::outcome::{Result, failed};
use crate::json::{Json, JsonMap};

/// One named field of a record, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordField {
    name: String,
    text: String,
    /// Whether errors may show the text. True only for numbers and times.
    is_plain: bool,
}

impl RecordField {
    /// Creates a field with private text, which no error shows.
    pub(super) fn new(name: impl Into<String>, text: impl Into<String>) -> RecordField {
        RecordField {
            name: name.into(),
            text: text.into(),
            is_plain: false,
        }
    }

    /// Creates a field with a number or a time, which errors may show.
    pub(super) fn plain(name: impl Into<String>, value: impl ToString) -> RecordField {
        RecordField {
            name: name.into(),
            text: value.to_string(),
            is_plain: true,
        }
    }

    /// Creates a field with the keys and values of a map, whose order does not matter.
    pub(super) fn of_keys(name: impl Into<String>, keys: &JsonMap) -> Result<RecordField> {
        let name = name.into();
        let mut sorted: Vec<_> = keys.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        let sorted: JsonMap = sorted.into_iter().map(|(k, v)| (k, v.clone())).collect();
        let text = json_text(&name, &sorted)?;
        Ok(RecordField::new(name, text))
    }

    /// Returns the approximate size of the field in memory.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// Encodes a map as JSON; `what` names it in errors.
pub(super) fn json_text(what: &str, map: &JsonMap) -> Result<String> {
    Json::from(map.clone()).to_json().map_err(failed(what))
}

/// The running hashes of the records compared so far, one per side.
#[derive(Debug, Default)]
pub(super) struct HashPair {
    from: Sha256,
    to: Sha256,
}

impl HashPair {
    /// Adds the fields of each side to its hash, and returns the first difference.
    pub(super) fn compare(&mut self, from: &[RecordField], to: &[RecordField]) -> Option<String> {
        from.iter()
            .for_each(|field| hash_field(&mut self.from, field));
        to.iter().for_each(|field| hash_field(&mut self.to, field));
        for (from, to) in from.iter().zip(to) {
            if from.name != to.name {
                return Some(format!(
                    "the source has {} where the target has {}",
                    from.name, to.name
                ));
            }
            if from.text != to.text {
                let name = &from.name;
                return Some(match from.is_plain {
                    true => format!(
                        "{name}: {} in the source, {} in the target",
                        from.text, to.text
                    ),
                    false => format!("{name} differs"),
                });
            }
        }
        let (first, side) = match (from.get(to.len()), to.get(from.len())) {
            (Some(field), _) => (field, "source"),
            (None, Some(field)) => (field, "target"),
            (None, None) => return None,
        };
        Some(format!("{} is in the {side} only", first.name))
    }

    /// Returns the hashes of source and target.
    pub(super) fn digests(self) -> (String, String) {
        (hex(&self.from.finalize()), hex(&self.to.finalize()))
    }
}

/// Adds a field to the hash, with its lengths, so that different lists never give the same bytes.
fn hash_field(hash: &mut Sha256, field: &RecordField) {
    for part in [&field.name, &field.text] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
}

/// Returns the hash of `bytes`, in hexadecimal.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(texts: &[(&str, &str)]) -> Vec<RecordField> {
        let fields = texts
            .iter()
            .map(|(name, text)| RecordField::new(*name, *text));
        fields.collect()
    }

    #[test]
    fn compare_names_the_first_difference_without_its_content() {
        let from = fields(&[("event 1", "secret"), ("event 2", "b"), ("event 3", "c")]);
        let mut other = from.clone();
        other[1].text = "x".to_owned();
        let differs = |to: &[RecordField]| HashPair::default().compare(&from, to);
        assert_eq!(differs(&from), None);
        assert_eq!(differs(&other).unwrap(), "event 2 differs");
        assert_eq!(
            differs(&from[..2]).unwrap(),
            "event 3 is in the source only"
        );
        let fewer = HashPair::default().compare(&from[..2], &from);
        assert_eq!(fewer.unwrap(), "event 3 is in the target only");
        assert!(
            differs(&from[1..])
                .unwrap()
                .starts_with("the source has event 1 where the target has")
        );
        let plain = |value| vec![RecordField::plain("its length", value)];
        let difference = HashPair::default().compare(&plain(1), &plain(2)).unwrap();
        assert_eq!(difference, "its length: 1 in the source, 2 in the target");
    }

    #[test]
    fn source_and_target_are_hashed_separately() {
        let (one, other) = (fields(&[("a", "bc")]), fields(&[("ab", "c")]));
        let mut both = HashPair::default();
        assert!(both.compare(&one, &other).is_some());
        let (from, to) = both.digests();
        assert_ne!(from, to);
        let mut both = HashPair::default();
        assert_eq!(both.compare(&one, &one), None);
        assert_eq!(both.digests(), (from.clone(), from));
    }

    #[test]
    fn record_comparison_ignores_the_order_of_state_keys() {
        let of = |text: &str| {
            let map = Json::parse(text).unwrap().as_object().cloned().unwrap();
            RecordField::of_keys("state", &map).unwrap()
        };
        assert_eq!(of(r#"{"a":1,"b":2}"#), of(r#"{"b":2,"a":1}"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":1.0}"#));
    }
}
