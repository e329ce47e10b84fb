//! Conversions between [`Json`], Rust's own types and serde.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

use super::{Json, JsonMap, Number};

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

macro_rules! from_integers {
    ($($signed:ty),* ; $($unsigned:ty),*) => {
        $(impl From<$signed> for Json {
            fn from(value: $signed) -> Json { Json::Number(Number::from(value as i64)) }
        })*
        $(impl From<$unsigned> for Json {
            fn from(value: $unsigned) -> Json { Json::Number(Number::from(value as u64)) }
        })*
    };
}
from_integers!(i8, i16, i32, i64, isize; u8, u16, u32, u64, usize);

impl From<f64> for Json {
    /// Accepts a `NaN` or infinity too; writing the value then fails and names its path.
    fn from(value: f64) -> Json {
        Json::Number(Number::from(value))
    }
}

impl From<Number> for Json {
    fn from(value: Number) -> Json {
        Json::Number(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Json {
        Json::String(value.into())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Json {
        Json::String(value.into())
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::Array(Arc::new(items))
    }
}

impl From<JsonMap> for Json {
    fn from(map: JsonMap) -> Json {
        Json::Object(Arc::new(map))
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Json {
        use serde_json::Value;
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Number(number) => Json::Number(Number::from_json_text(&number.to_string())),
            Value::String(text) => Json::String(text.into()),
            Value::Array(items) => items.into_iter().map(Json::from).collect::<Vec<_>>().into(),
            Value::Object(map) => map.into_iter().collect::<JsonMap>().into(),
        }
    }
}

impl From<&Json> for serde_json::Value {
    /// Converts a number that `serde_json` cannot hold to the nearest float, or to a string if no
    /// float is large enough.
    fn from(value: &Json) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => serde_json::from_str(&number.to_string())
                .unwrap_or_else(|_| Value::String(number.to_string())),
            Json::String(text) => Value::String(text.to_string()),
            Json::Array(items) => items.iter().map(Value::from).collect(),
            Json::Object(map) => map
                .iter()
                .map(|(key, value)| (key.to_owned(), Value::from(value)))
                .collect(),
        }
    }
}

impl From<Json> for serde_json::Value {
    fn from(value: Json) -> serde_json::Value {
        serde_json::Value::from(&value)
    }
}

impl PartialEq<str> for Json {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Json {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

impl PartialEq<i64> for Json {
    fn eq(&self, other: &i64) -> bool {
        self.as_i64() == Some(*other)
    }
}

impl PartialEq<bool> for Json {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl PartialEq<serde_json::Value> for Json {
    fn eq(&self, other: &serde_json::Value) -> bool {
        let other = Json::from(other.clone());
        *self == other
    }
}

/// Passes the text of a JSON object to serde as a map of raw values, so that it can be flattened
/// into another object. Only `serde_json` supports raw values.
pub(crate) fn serialize_text<S: Serializer>(
    text: Result<String, super::JsonError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = text.map_err(ser::Error::custom)?;
    let fields: RawFields<'_> = serde_json::from_str(&text).map_err(ser::Error::custom)?;
    serializer.collect_map(fields.0)
}

/// The fields of a JSON object with their raw values.
struct RawFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawFields<'a>, D::Error> {
        deserializer.deserialize_map(RawFields(Vec::new()))
    }
}

impl<'de: 'a, 'a> de::Visitor<'de> for RawFields<'a> {
    type Value = RawFields<'a>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: de::MapAccess<'de>>(mut self, mut map: M) -> Result<RawFields<'a>, M::Error> {
        while let Some(field) = map.next_entry()? {
            self.0.push(field);
        }
        Ok(self)
    }
}

/// Takes the raw JSON text from serde, so that the lossless reader sees every byte of it.
pub(crate) fn deserialize_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, super::JsonError>,
) -> Result<T, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    read(raw.get()).map_err(de::Error::custom)
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.as_object().is_some() {
            return serialize_text(self.to_json(), serializer);
        }
        let raw = RawValue::from_string(self.to_json().map_err(ser::Error::custom)?);
        raw.map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserialize_text(deserializer, Json::parse)
    }
}

impl Serialize for JsonMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_text(Json::from(self.clone()).to_json(), serializer)
    }
}

impl<'de> Deserialize<'de> for JsonMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonMap, D::Error> {
        deserialize_text(deserializer, |text| {
            let mut reader = super::Reader::new(text);
            let map = reader.read_map()?;
            reader.end()?;
            Ok(map)
        })
    }
}
