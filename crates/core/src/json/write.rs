//! The JSON writer: compact text with ADK's field names in camelCase or snake_case.

use super::{DEPTH_MAX, Json, JsonError, JsonMap, Number, STORED_DEPTH_MAX, number::push_float};

const NOT_FINITE: &str =
    "NaN and infinity cannot be written as JSON; store null or a string instead";

/// The spelling of field names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    Camel,
    Snake,
}

/// Builds one JSON text and writes the commas.
pub(crate) struct Writer {
    out: String,
    spelling: Spelling,
    /// Whether a comma must precede the next key or item.
    comma: bool,
    depth: usize,
    depth_max: usize,
    /// The first error: JSON cannot represent a value, or a reader would reject it.
    error: Option<JsonError>,
}

impl Writer {
    pub(crate) fn camel() -> Writer {
        Writer::new(Spelling::Camel)
    }

    pub(crate) fn new(spelling: Spelling) -> Writer {
        Writer {
            spelling,
            ..Writer::onto(String::with_capacity(512))
        }
    }

    /// Creates a writer for stored values: its depth limit leaves room to nest them in a session or
    /// an export.
    pub(crate) fn stored() -> Writer {
        Writer {
            depth_max: STORED_DEPTH_MAX,
            ..Writer::camel()
        }
    }

    /// Creates a writer that appends to a text.
    pub(crate) fn onto(out: String) -> Writer {
        Writer {
            out,
            spelling: Spelling::Camel,
            comma: false,
            depth: 0,
            depth_max: DEPTH_MAX,
            error: None,
        }
    }

    /// Returns the text, and the first error if there is one.
    pub(crate) fn into_parts(self) -> (String, Option<JsonError>) {
        (self.out, self.error)
    }

    pub(crate) fn spelling(&self) -> Spelling {
        self.spelling
    }

    pub(crate) fn finish(self) -> Result<String, JsonError> {
        match self.error {
            None => Ok(self.out),
            // The reader fails at the same byte and knows the path to it.
            Some(error) => Err(match Json::parse(&self.out) {
                Err(found) => error.with_path_of(found),
                Ok(_) => error,
            }),
        }
    }

    /// Returns the text, even if it is invalid JSON. For printing only.
    pub(crate) fn finish_lossy(self) -> String {
        self.out
    }

    pub(crate) fn begin_object(&mut self) {
        self.open('{');
    }

    pub(crate) fn end_object(&mut self) {
        self.close('}');
    }

    pub(crate) fn begin_array(&mut self) {
        self.open('[');
    }

    pub(crate) fn end_array(&mut self) {
        self.close(']');
    }

    /// Writes a key that may contain any character.
    pub(crate) fn key(&mut self, key: &str) {
        self.item();
        self.quoted(key);
        self.out.push(':');
        self.comma = false;
    }

    /// Writes a key and its value, with a comma before them.
    pub(crate) fn member(&mut self, key: &str, value: &Json) {
        self.comma = true;
        self.key(key);
        self.json(value);
    }

    /// Writes a field name that needs no escaping.
    pub(crate) fn field(&mut self, camel: &str, snake: &str) {
        self.item();
        self.out.push('"');
        self.out.push_str(match self.spelling {
            Spelling::Camel => camel,
            Spelling::Snake => snake,
        });
        self.out.push_str("\":");
        self.comma = false;
    }

    pub(crate) fn null(&mut self) {
        self.bare("null");
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.bare(if value { "true" } else { "false" });
    }

    pub(crate) fn number(&mut self, number: &Number) {
        self.item();
        if !number.is_finite() {
            self.record_error(NOT_FINITE);
        }
        number.push_to(&mut self.out);
        self.comma = true;
    }

    pub(crate) fn float(&mut self, float: f64) {
        self.item();
        if !float.is_finite() {
            self.record_error(NOT_FINITE);
        }
        push_float(&mut self.out, float);
        self.comma = true;
    }

    pub(crate) fn str(&mut self, text: &str) {
        self.item();
        self.quoted(text);
        self.comma = true;
    }

    pub(crate) fn json(&mut self, value: &Json) {
        match value {
            Json::Null => self.null(),
            Json::Bool(value) => self.bool(*value),
            Json::Number(number) => self.number(number),
            Json::String(text) => self.str(text),
            Json::Array(items) => {
                self.begin_array();
                items.iter().for_each(|item| self.json(item));
                self.end_array();
            }
            Json::Object(map) => self.map(map),
        }
    }

    pub(crate) fn map(&mut self, map: &JsonMap) {
        self.begin_object();
        for (key, value) in map {
            self.key(key);
            self.json(value);
        }
        self.end_object();
    }

    /// Records an error at the next value.
    pub(crate) fn record_error(&mut self, message: impl Into<String>) {
        let error = JsonError::new(message, self.out.len());
        self.error.get_or_insert(error);
    }

    fn open(&mut self, bracket: char) {
        self.item();
        self.depth += 1;
        if self.depth > self.depth_max {
            let too_deep = JsonError::too_deep(self.depth_max, self.out.len());
            self.error.get_or_insert(too_deep);
        }
        self.out.push(bracket);
        self.comma = false;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        self.out.push(bracket);
        self.comma = true;
    }

    fn item(&mut self) {
        if self.comma {
            self.out.push(',');
        }
    }

    fn bare(&mut self, word: &str) {
        self.item();
        self.out.push_str(word);
        self.comma = true;
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        while let Some(at) = super::find_special(rest.as_bytes()) {
            self.out.push_str(&rest[..at]);
            self.escape(rest.as_bytes()[at]);
            rest = &rest[at + 1..];
        }
        self.out.push_str(rest);
        self.out.push('"');
    }

    fn escape(&mut self, byte: u8) {
        match byte {
            b'"' => self.out.push_str("\\\""),
            b'\\' => self.out.push_str("\\\\"),
            b'\n' => self.out.push_str("\\n"),
            b'\r' => self.out.push_str("\\r"),
            b'\t' => self.out.push_str("\\t"),
            8 => self.out.push_str("\\b"),
            12 => self.out.push_str("\\f"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                self.out.push_str("\\u00");
                self.out.push(HEX[usize::from(byte >> 4)] as char);
                self.out.push(HEX[usize::from(byte & 15)] as char);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_json_values_round_trip() {
        let text = r#"{"a":[1,1.0,[],{}],"é\"\\\n\u0001":null,"":true}"#;
        assert_eq!(Json::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn non_finite_number_is_rejected() {
        let value = Json::from(vec![Json::from(1), Json::from(f64::NAN)]);
        let message = value.to_json().unwrap_err().to_string();
        assert!(message.contains("NaN"), "{message}");
    }
}
