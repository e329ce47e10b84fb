//! Estimates how much memory decoded JSON takes.

use crate::event::Event;

/// Memory per structural character: the value that follows it, its allocation, and the spare room
/// of the list or map that holds it.
const COMMA: usize = 64;
const COLON: usize = 128;
const LIST: usize = 160;
const OBJECT: usize = 256;

/// Texts up to this size cost a fixed multiple, because scanning them takes longer than it helps.
const SMALL: usize = 512;
const SMALL_MULTIPLE: usize = 8;

/// Estimates the memory of a value that is decoded from this JSON text: the text's own bytes, and
/// a fixed amount for each value in it.
pub fn json_cost(text: &[u8]) -> usize {
    if text.len() <= SMALL {
        return text.len() * SMALL_MULTIPLE;
    }
    let (mut cost, mut at) = (text.len(), 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b',' => cost += COMMA,
            b':' => cost += COLON,
            b'[' => cost += LIST,
            b'{' => cost += OBJECT,
            b'"' => at = string_end(text, at),
            _ => {}
        }
    }
    cost
}

/// Estimates the memory that a request takes in addition to this body: the parsed value, the
/// validated or typed one, and the records that are made of it and stored.
pub fn parsed_body_cost(body: &[u8]) -> usize {
    3 * json_cost(body)
}

/// Returns the index after the string that begins before `at`.
fn string_end(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Estimates the memory of an event that is decoded from this text and written into a response.
pub fn event_cost(text: &[u8]) -> usize {
    size_of::<Event>() + json_cost(text) + text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    #[test]
    fn json_cost_of_text_is_its_length_and_of_values_a_multiple() {
        let text = format!("\"{}\"", "a,[{:\\\"".repeat(1000));
        assert_eq!(json_cost(text.as_bytes()), text.len());
        for (element, least) in [("[],", 60), ("{},", 80), ("1,", 24), ("{\"\":1},", 250)] {
            let text = format!("[{}1]", element.repeat(1000));
            Json::parse(&text).unwrap();
            assert!(json_cost(text.as_bytes()) >= 1000 * least, "{element}");
        }
    }

    #[test]
    fn json_cost_survives_unfinished_strings() {
        for end in ["\"", "\\", "\"\\", "\"x\\\\"] {
            let text = format!("{}{end}", " ".repeat(SMALL));
            assert_eq!(json_cost(text.as_bytes()), text.len());
        }
    }
}
