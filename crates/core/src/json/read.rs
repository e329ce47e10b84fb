//! The JSON reader: reads typed objects and arbitrary values, or skips a value, in one pass over
//! the text.
//!
//! It is as strict as RFC 8259. An error names the expected value, the found one and the path.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{DEPTH_MAX, Json, JsonMap, Number};

/// A JSON read or write error, with the path of the value that caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    message: String,
    /// The path of the value, outermost key first, e.g. `actions.stateDelta`.
    path: String,
    offset: usize,
}

impl JsonError {
    pub(crate) fn new(message: impl Into<String>, offset: usize) -> JsonError {
        JsonError {
            message: message.into(),
            path: String::new(),
            offset,
        }
    }

    pub(crate) fn too_deep(depth_max: usize, offset: usize) -> JsonError {
        JsonError::new(format!("nested deeper than {depth_max} levels"), offset)
    }

    /// Copies the path of `other`, if both errors are at the same byte.
    pub(crate) fn with_path_of(mut self, other: JsonError) -> JsonError {
        if other.offset == self.offset {
            self.path = other.path;
        }
        self
    }

    /// Adds the enclosing key to the path.
    pub(crate) fn inside(mut self, key: &str) -> JsonError {
        self.path = match self.path.as_str() {
            "" => key.to_owned(),
            rest => format!("{key}.{rest}"),
        };
        self
    }

    /// Returns the path of the value at which reading failed, from the outermost key inwards; empty
    /// for the outermost value.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what is wrong, without the path.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the byte offset at which reading failed.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} (byte {})", self.message, self.offset)
    }
}

impl std::error::Error for JsonError {}

type Result<T> = std::result::Result<T, JsonError>;

/// A cursor over a JSON text.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Reader<'a> {
        Reader {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Fails if anything but white space is left.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the text")),
        }
    }

    /// Consumes `null` if it comes next.
    pub(crate) fn take_null(&mut self) -> bool {
        let is_null = self.peek() == Some(b'n') && self.text[self.at..].starts_with("null");
        if is_null {
            self.at += 4;
        }
        is_null
    }

    /// Consumes `{}` if it comes next, without a space inside.
    pub(crate) fn take_empty_object(&mut self) -> bool {
        let is_empty = self.rest().starts_with("{}");
        if is_empty {
            self.at += 2;
        }
        is_empty
    }

    pub(crate) fn read_bool(&mut self) -> Result<bool> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => Err(self.unexpected("true or false")),
        }
    }

    pub(crate) fn read_number(&mut self) -> Result<Number> {
        self.number_text("a number").map(Number::from_json_text)
    }

    pub(crate) fn read_f64(&mut self) -> Result<f64> {
        let start = self.at;
        let text = self.number_text("a number")?;
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(float),
            _ => Err(JsonError::new(
                format!("{text} is too large for a float"),
                start,
            )),
        }
    }

    pub(crate) fn read_i64(&mut self) -> Result<i64> {
        let start = self.at;
        let text = self.number_text("an integer")?;
        text.parse()
            .map_err(|_| JsonError::new(format!("expected a 64-bit integer, found {text}"), start))
    }

    /// Reads a string; borrows it if it has no escapes.
    pub(crate) fn read_str(&mut self) -> Result<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a string"));
        }
        self.at += 1;
        let plain = self.plain_run()?;
        if self.text.as_bytes()[self.at] == b'"' {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        let mut owned = plain.to_owned();
        loop {
            // The next byte is a backslash.
            self.at += 1;
            self.unescape(&mut owned)?;
            owned.push_str(self.plain_run()?);
            if self.text.as_bytes()[self.at] == b'"' {
                self.at += 1;
                return Ok(Cow::Owned(owned));
            }
        }
    }

    pub(crate) fn begin_object(&mut self) -> Result<()> {
        if self.peek() != Some(b'{') {
            return Err(self.unexpected("an object"));
        }
        self.enter()
    }

    /// Reads the next key of the current object, or `None` after its end.
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>> {
        if !self.next_item(first, b'}', "`,` or `}`")? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key"));
        }
        let key = self.read_str()?;
        if self.peek() != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    pub(crate) fn begin_array(&mut self) -> Result<()> {
        if self.peek() != Some(b'[') {
            return Err(self.unexpected("a list"));
        }
        self.enter()
    }

    /// Whether another item of the current list follows.
    pub(crate) fn next_element(&mut self, first: &mut bool) -> Result<bool> {
        self.next_item(first, b']', "`,` or `]`")
    }

    pub(crate) fn read_json(&mut self) -> Result<Json> {
        match self.peek() {
            Some(b'"') => Ok(Json::String(match self.read_str()? {
                Cow::Borrowed(text) => text.into(),
                Cow::Owned(text) => text.into(),
            })),
            Some(b'{') => Ok(Json::Object(Arc::new(self.read_map()?))),
            Some(b'[') => {
                self.begin_array()?;
                let (mut items, mut first) = (Vec::new(), true);
                while self.next_element(&mut first)? {
                    let index = items.len();
                    let item = self.read_json();
                    items.push(item.map_err(|e| e.inside(&index.to_string()))?);
                }
                Ok(Json::Array(Arc::new(items)))
            }
            Some(b't' | b'f') => self.read_bool().map(Json::Bool),
            Some(b'n') => self.word("null").map(|()| Json::Null),
            Some(b'-' | b'0'..=b'9') => self.read_number().map(Json::Number),
            _ => Err(self.unexpected("a JSON value")),
        }
    }

    pub(crate) fn read_map(&mut self) -> Result<JsonMap> {
        self.begin_object()?;
        let (mut map, mut first) = (JsonMap::new(), true);
        while let Some(key) = self.next_key(&mut first)? {
            let value = self.read_json().map_err(|e| e.inside(&key))?;
            map.insert(key, value);
        }
        Ok(map)
    }

    /// Returns an error at the next value that names the `expected` and the found value.
    pub(crate) fn unexpected(&mut self, expected: &str) -> JsonError {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(b'"') => "a string".to_owned(),
            Some(b'{') => "an object".to_owned(),
            Some(b'[') => "a list".to_owned(),
            Some(b'-' | b'0'..=b'9') if !self.rest().starts_with("-I") => "a number".to_owned(),
            Some(_) => match self.bare_word() {
                word @ ("NaN" | "Infinity" | "-Infinity") => {
                    format!("{word}, which is not valid JSON (write null or a string instead)")
                }
                "" => format!("`{}`", self.rest().chars().next().unwrap_or(' ')),
                word => format!("`{word}`"),
            },
        };
        JsonError::new(format!("expected {expected}, found {found}"), self.at)
    }

    /// Returns an error at the next value, whose field has occurred before.
    pub(crate) fn duplicate_field(&mut self) -> JsonError {
        self.peek();
        JsonError::new("duplicate field; write each field once", self.at)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn bare_word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let word = &rest[..end.unwrap_or(rest.len())];
        &word[..word.len().min(20)]
    }

    /// Returns the next byte after white space, without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                _ => return Some(byte),
            }
        }
        None
    }

    fn enter(&mut self) -> Result<()> {
        if self.depth == DEPTH_MAX {
            return Err(JsonError::too_deep(DEPTH_MAX, self.at));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn next_item(&mut self, first: &mut bool, close: u8, expected: &str) -> Result<bool> {
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !*first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if *first => {
                *first = false;
                Ok(true)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if !self.rest().starts_with(word) {
            return Err(self.unexpected("a JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Returns the text of a JSON number: `-? int frac? exp?`.
    fn number_text(&mut self, expected: &str) -> Result<&'a str> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Err(self.unexpected(expected));
        }
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start + usize::from(bytes[start] == b'-');
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let whole_end = digits(at);
        let mut valid = whole_end > at && (bytes[at] != b'0' || whole_end == at + 1);
        at = whole_end;
        if bytes.get(at) == Some(&b'.') {
            let end = digits(at + 1);
            valid &= end > at + 1;
            at = end;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let end = digits(at + 1 + sign);
            valid &= end > at + 1 + sign;
            at = end;
        }
        if !valid {
            return Err(match self.rest().starts_with("-I") {
                true => self.unexpected(expected),
                false => {
                    let number = &self.text[start..at.min(start + 40)];
                    JsonError::new(format!("malformed number `{number}`"), start)
                }
            });
        }
        self.at = at;
        Ok(&self.text[start..at])
    }

    /// Consumes and returns the part of a string before the next quote or backslash.
    fn plain_run(&mut self) -> Result<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let Some(run) = super::find_special(&bytes[start..]) else {
            return Err(JsonError::new("unterminated string", start));
        };
        self.at = start + run;
        if bytes[self.at] < 0x20 {
            return Err(JsonError::new(
                "unescaped control character in a string; write it as a \\u escape",
                self.at,
            ));
        }
        Ok(&self.text[start..self.at])
    }

    fn unescape(&mut self, out: &mut String) -> Result<()> {
        let escape = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        out.push(match escape {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self.unicode_escape()?,
            _ => {
                let message = "unknown escape in a string; expected \\ and one of \"\\/bfnrtu";
                return Err(JsonError::new(message, self.at - 2));
            }
        });
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let start = self.at - 2;
        let mut code = self.four_hex()?;
        if (0xd800..0xdc00).contains(&code) && self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.four_hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(code).ok_or_else(|| {
            let message = "lone surrogate in a \\u escape; write surrogates in pairs";
            JsonError::new(message, start)
        })
    }

    fn four_hex(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0, |code, &digit| {
                Some(code * 16 + (digit as char).to_digit(16)?)
            })
        });
        let code = code.ok_or_else(|| {
            let message = "malformed \\u escape; expected four hexadecimal digits";
            JsonError::new(message, self.at)
        })?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(text: &str) -> String {
        Json::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn parse_error_names_the_expected_token_and_the_position() {
        assert_eq!(
            parse_error(r#"{"a": {"b": NaN}}"#),
            "a.b: expected a JSON value, found NaN, which is not valid JSON (write null or a string \
             instead) (byte 12)"
        );
        assert!(parse_error("[1, -Infinity]").contains("-Infinity, which is not valid JSON"));
        assert!(parse_error("[Infinity]").contains("Infinity, which is not valid JSON"));
        assert_eq!(
            parse_error("[1 2]"),
            "expected `,` or `]`, found a number (byte 3)"
        );
        assert_eq!(
            parse_error(r#"{"a" 1}"#),
            "expected `:`, found a number (byte 5)"
        );
        assert_eq!(parse_error("\"a"), "unterminated string (byte 1)");
        assert!(parse_error(r#""\ud800""#).contains("surrogate"));
        assert!(parse_error(r#""\ud800\u0041""#).contains("surrogate"));
    }

    #[test]
    fn malformed_json_is_rejected() {
        for text in [
            "",
            " ",
            "01",
            "1.",
            ".5",
            "1e",
            "-",
            "+1",
            "tru",
            "nul",
            "[1,]",
            "[,1]",
            "{,}",
            "{\"a\":1,}",
            "{1:2}",
            "[1",
            "{\"a\":",
            "\"\u{1}\"",
            "\"\\x\"",
            "\"\\u12\"",
            "1 1",
            "'a'",
            "[1}",
        ] {
            assert!(Json::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn escapes_and_surrogate_pairs_are_decoded() {
        let text = Json::parse(r#""\"\\\/\b\f\n\r\t\u0000\u00e9\ud83d\ude00é😀""#).unwrap();
        assert_eq!(text, "\"\\/\u{8}\u{c}\n\r\t\0é😀é😀");
    }

    #[test]
    fn deep_nesting_is_an_error_without_stack_overflow() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Json::parse(&deep(DEPTH_MAX)).is_ok());
        assert!(parse_error(&deep(DEPTH_MAX + 1)).contains("nested deeper"));
        assert!(Json::parse(&"[".repeat(1_000_000)).is_err());
    }
}
