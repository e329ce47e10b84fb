//! Exact JSON: the value type of state, arguments, responses and unknown fields.
//!
//! `serde_json::Value` rounds integers above 64 bits and does not keep the text of a number. Its
//! feature `arbitrary_precision` changes serde for the whole program and still rewrites `1e5` as
//! `1e+5`. [`Json`] keeps the text of numbers and the order of keys, and is cheap to clone.

mod convert;
mod map;
mod number;
mod read;
mod write;

use std::{fmt, sync::Arc};

pub(crate) use convert::{deserialize_text, serialize_text};
pub use map::JsonMap;
pub use number::Number;
pub use read::JsonError;
pub(crate) use read::Reader;
pub(crate) use write::{Spelling, Writer};

/// Returns the index of the first quote, backslash or control character. Scans eight bytes at a
/// time.
pub(crate) fn find_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Sets the high bit of each zero byte. Bits after the first zero byte may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let quote = zero(word ^ (ONES * b'"' as u64));
        let backslash = zero(word ^ (ONES * b'\\' as u64));
        let found = control | quote | backslash;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes[at..].iter();
    let rest = rest
        .clone()
        .position(|&b| b == b'"' || b == b'\\' || b < 0x20);
    rest.map(|rest| at + rest)
}

/// Maximum nesting depth of arrays and objects in JSON that is read or written.
pub const DEPTH_MAX: usize = 128;

/// Maximum nesting depth in a stored event or state.
pub(crate) const STORED_DEPTH_MAX: usize = 120;

/// A lossless JSON value; a clone increments a reference count.
///
/// Comparisons ignore the order of keys. `1.50` equals `1.5`, but `1` does not equal `1.0`.
///
/// ```
/// use retain_core::Json;
/// let value = Json::parse(r#"{"n": 123456789012345678901234567890, "f": 1.0}"#).unwrap();
/// assert_eq!(value["n"].to_string(), "123456789012345678901234567890");
/// assert_eq!(value["f"].as_f64(), Some(1.0));
/// assert_eq!(Json::from(serde_json::json!({"a": [1, "two"]}))["a"][1], "two");
/// ```
#[derive(Clone, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(Number),
    /// A string.
    String(Arc<str>),
    /// An array.
    Array(Arc<Vec<Json>>),
    /// An object, with its keys in insertion order.
    Object(Arc<JsonMap>),
}

static NULL: Json = Json::Null;

impl Json {
    /// Reads a complete JSON text. `NaN`, `Infinity` and lone surrogates are errors.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        let mut reader = Reader::new(text);
        let value = reader.read_json()?;
        reader.end()?;
        Ok(value)
    }

    /// Writes compact JSON. Fails only for values made in Rust that could not be read back: a
    /// non-finite float, or more than [`DEPTH_MAX`] levels.
    pub fn to_json(&self) -> Result<String, JsonError> {
        let mut writer = Writer::camel();
        writer.json(self);
        writer.finish()
    }

    /// Appends `text` to `out` as a JSON string.
    ///
    /// ```
    /// let mut out = String::from("[");
    /// retain_core::Json::append_str(&mut out, "a\"b");
    /// assert_eq!(out, r#"["a\"b""#);
    /// ```
    pub fn append_str(out: &mut String, text: &str) {
        let mut writer = Writer::onto(std::mem::take(out));
        writer.str(text);
        (*out, _) = writer.into_parts();
    }

    /// Appends `float` to `out`. Fails and appends nothing if it is not finite.
    pub fn append_float(out: &mut String, float: f64) -> Result<(), JsonError> {
        let mut writer = Writer::camel();
        if !float.is_finite() {
            writer.float(float);
            return writer.finish().map(drop);
        }
        number::push_float(out, float);
        Ok(())
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    /// Returns the boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the number as `i64`, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// Returns the number as `u64`, if it is an integer that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Json::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Returns the number as the nearest `f64`, if it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Returns the string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the array, if this is one.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the array, mutable, if this is one. Copies a shared array first.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Json>> {
        match self {
            Json::Array(items) => Some(Arc::make_mut(items)),
            _ => None,
        }
    }

    /// Returns the object, if this is one.
    pub fn as_object(&self) -> Option<&JsonMap> {
        match self {
            Json::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the object, mutable, if this is one. Copies a shared object first.
    pub fn as_object_mut(&mut self) -> Option<&mut JsonMap> {
        match self {
            Json::Object(map) => Some(Arc::make_mut(map)),
            _ => None,
        }
    }

    /// Returns the value under `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.as_object()?.get(key)
    }
}

impl std::ops::Index<&str> for Json {
    type Output = Json;

    /// Returns the value under `key`; `null` if the key is missing, as with `serde_json::Value`.
    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or(&NULL)
    }
}

impl std::ops::Index<usize> for Json {
    type Output = Json;

    /// Returns the item at `index`; `null` if the array is shorter, as with `serde_json::Value`.
    fn index(&self, index: usize) -> &Json {
        self.as_array()
            .and_then(|items| items.get(index))
            .unwrap_or(&NULL)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = Writer::camel();
        writer.json(self);
        f.write_str(&writer.finish_lossy())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
