//! The plain field types: strings, numbers, bytes, sets, lists and arbitrary JSON.

use std::{collections::HashSet, fmt, sync::Arc};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{ValueType, Wire};
use crate::json::{Json, JsonError, JsonMap, Number, Reader, Writer};

impl Wire for bool {
    const TYPE: &'static ValueType = &ValueType::Bool;

    fn read(reader: &mut Reader<'_>) -> Result<bool, JsonError> {
        reader.read_bool()
    }

    fn write(&self, writer: &mut Writer) {
        writer.bool(*self);
    }
}

impl Wire for i64 {
    const TYPE: &'static ValueType = &ValueType::Int;

    fn read(reader: &mut Reader<'_>) -> Result<i64, JsonError> {
        reader.read_i64()
    }

    fn write(&self, writer: &mut Writer) {
        writer.number(&Number::from(*self));
    }
}

impl Wire for u64 {
    const TYPE: &'static ValueType = &ValueType::Int;

    fn read(reader: &mut Reader<'_>) -> Result<u64, JsonError> {
        let error = reader.unexpected("a non-negative integer");
        u64::try_from(reader.read_i64()?).map_err(|_| error)
    }

    fn write(&self, writer: &mut Writer) {
        writer.number(&Number::from(*self));
    }
}

impl Wire for f64 {
    const TYPE: &'static ValueType = &ValueType::Float;

    fn read(reader: &mut Reader<'_>) -> Result<f64, JsonError> {
        reader.read_f64()
    }

    fn write(&self, writer: &mut Writer) {
        writer.number(&Number::from(*self));
    }
}

impl Wire for String {
    const TYPE: &'static ValueType = &ValueType::Text;

    fn read(reader: &mut Reader<'_>) -> Result<String, JsonError> {
        reader.read_str().map(Into::into)
    }

    fn write(&self, writer: &mut Writer) {
        writer.str(self);
    }
}

impl Wire for Json {
    const TYPE: &'static ValueType = &ValueType::Any;

    fn read(reader: &mut Reader<'_>) -> Result<Json, JsonError> {
        reader.read_json()
    }

    fn write(&self, writer: &mut Writer) {
        writer.json(self);
    }

    /// A `null` that was set in Rust is omitted like one that was read.
    fn is_absent(&self) -> bool {
        self.is_null()
    }
}

impl Wire for JsonMap {
    const TYPE: &'static ValueType = &ValueType::Dict;

    /// A `null` does not arrive here: the reader of the enclosing object sets the default, an empty
    /// map.
    fn read(reader: &mut Reader<'_>) -> Result<JsonMap, JsonError> {
        reader.read_map()
    }

    fn write(&self, writer: &mut Writer) {
        writer.map(self);
    }
}

impl<T: Wire> Wire for Option<T> {
    const TYPE: &'static ValueType = T::TYPE;

    fn read(reader: &mut Reader<'_>) -> Result<Option<T>, JsonError> {
        if reader.take_null() {
            return Ok(None);
        }
        T::read(reader).map(Some)
    }

    fn read_into(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        if reader.take_null() {
            return Ok(());
        }
        self.insert(T::default()).read_into(reader)
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Some(value) => value.write(writer),
            None => writer.null(),
        }
    }

    fn is_absent(&self) -> bool {
        self.as_ref().is_none_or(T::is_absent)
    }
}

impl<T: Wire> Wire for Vec<T> {
    const TYPE: &'static ValueType = &ValueType::List(T::TYPE);

    fn read(reader: &mut Reader<'_>) -> Result<Vec<T>, JsonError> {
        reader.begin_array()?;
        let (mut items, mut first) = (Vec::new(), true);
        while reader.next_element(&mut first)? {
            let index = items.len();
            if index == 0 {
                // Most lists have one item; `push` alone would allocate four.
                items.reserve_exact(1);
            }
            items.push(T::default());
            let read = items[index].read_into(reader);
            read.map_err(|e| e.inside(&index.to_string()))?;
        }
        Ok(items)
    }

    fn write(&self, writer: &mut Writer) {
        writer.begin_array();
        self.iter().for_each(|item| item.write(writer));
        writer.end_array();
    }
}

impl<T: Wire> Wire for Box<T> {
    const TYPE: &'static ValueType = T::TYPE;

    fn read(reader: &mut Reader<'_>) -> Result<Box<T>, JsonError> {
        T::read(reader).map(Box::new)
    }

    fn write(&self, writer: &mut Writer) {
        T::write(self, writer);
    }
}

/// Bytes, written as base64 text. The reader accepts both alphabets, with or without padding; the
/// writer uses the URL-safe one with padding, as ADK does.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Bytes(Arc<[u8]>);

/// Accepts base64 with or without padding. Stray bits after the last byte are an error, as in ADK.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

impl Bytes {
    /// Decodes base64 of either alphabet; `None` if it is not base64.
    pub fn from_base64(text: &str) -> Option<Bytes> {
        let engine = match text.contains(['+', '/']) {
            true => &STANDARD,
            false => &URL_SAFE,
        };
        engine.decode(text).ok().map(Bytes::from)
    }

    /// Returns the URL-safe base64 text with padding.
    pub fn to_base64(&self) -> String {
        URL_SAFE.encode(&self.0)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(bytes.into())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(bytes.into())
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Wire for Bytes {
    const TYPE: &'static ValueType = &ValueType::Bytes;

    fn read(reader: &mut Reader<'_>) -> Result<Bytes, JsonError> {
        let error = reader.unexpected("base64");
        Bytes::from_base64(&reader.read_str()?).ok_or(error)
    }

    fn write(&self, writer: &mut Writer) {
        writer.str(&self.to_base64());
    }
}

/// A set of ids in insertion order. Comparisons ignore the order.
#[derive(Debug, Clone, Default)]
pub struct IdSet(Vec<String>);

impl IdSet {
    /// Whether `id` is in the set.
    pub fn contains(&self, id: &str) -> bool {
        self.0.iter().any(|it| it == id)
    }

    /// Adds `id`. Returns false if the set already has it.
    pub fn insert(&mut self, id: impl Into<String>) -> bool {
        let id = id.into();
        let is_new = !self.contains(&id);
        if is_new {
            self.0.push(id);
        }
        is_new
    }

    /// Iterates over the ids in insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl PartialEq for IdSet {
    fn eq(&self, other: &IdSet) -> bool {
        let ids: HashSet<&str> = self.iter().collect();
        self.len() == other.len() && other.iter().all(|id| ids.contains(id))
    }
}

impl<T: Into<String>> FromIterator<T> for IdSet {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> IdSet {
        let ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        let mut seen = HashSet::with_capacity(ids.len());
        let is_new: Vec<bool> = ids.iter().map(|id| seen.insert(id.as_str())).collect();
        let unique = ids.into_iter().zip(is_new).filter(|(_, is_new)| *is_new);
        IdSet(unique.map(|(id, _)| id).collect())
    }
}

impl Wire for IdSet {
    const TYPE: &'static ValueType = &ValueType::TextSet;

    fn read(reader: &mut Reader<'_>) -> Result<IdSet, JsonError> {
        Ok(Vec::<String>::read(reader)?.into_iter().collect())
    }

    fn write(&self, writer: &mut Writer) {
        self.0.write(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn base64_is_read_in_both_alphabets_with_any_padding() {
        let bytes = Bytes::from(vec![0xfb, 0xff, 0xfe, 0x01]);
        for text in ["-__-AQ==", "-__-AQ", "+//+AQ==", "+//+AQ"] {
            assert_eq!(Bytes::from_base64(text), Some(bytes.clone()), "{text}");
        }
        assert_eq!(bytes.to_base64(), "-__-AQ==");
        for text in ["not base64!", "one", "A", "AQ===", "+_"] {
            assert_eq!(Bytes::from_base64(text), None, "{text}");
        }
    }
}
