//! Reads and writes ADK's typed objects.
//!
//! ADK spells a field `stateDelta` over HTTP and `state_delta` in its databases. The reader accepts
//! both at every level; the writer writes the requested one. Unknown fields stay unchanged
//! ([`Extra`]). Objects that Retain only passes on have no struct, and the table renames their
//! fields ([`Shaped`]). Maps with arbitrary keys are never changed.

mod object;
mod scalar;
mod schema;
mod shaped;
#[rustfmt::skip]
#[allow(missing_docs, reason = "the name of each static is that of ADK's class")]
pub mod table;

pub use object::Extra;
pub(crate) use object::{find_field, wire_object};
pub use scalar::{Bytes, IdSet};
pub use schema::{EnumSchema, FieldSchema, ObjectSchema, Presence, UnknownFields, ValueType};
pub(crate) use schema::{assert_fields_at, assert_same_fields};
pub(crate) use shaped::Sealed;
pub use shaped::{ShapeOf, Shaped};

use crate::json::{JsonError, Reader, Spelling, Writer};

/// A value of ADK's wire format.
pub(crate) trait Wire: Default {
    /// The type that the table must have for a field with this Rust type.
    const TYPE: &'static ValueType;

    fn read(reader: &mut Reader<'_>) -> Result<Self, JsonError>;

    /// Reads into a default value, so that large objects are not moved.
    fn read_into(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        *self = Self::read(reader)?;
        Ok(())
    }

    fn write(&self, writer: &mut Writer);

    /// Whether the writer omits a field with this value.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Reads a complete JSON text as `T`, in either spelling.
pub(crate) fn from_text<T: Wire>(text: &str) -> Result<T, JsonError> {
    let mut reader = Reader::new(text);
    let mut value = T::default();
    value.read_into(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Writes `value` with field names in `spelling`.
pub(crate) fn to_text<T: Wire>(value: &T, spelling: Spelling) -> Result<String, JsonError> {
    let mut writer = Writer::new(spelling);
    value.write(&mut writer);
    writer.finish()
}

/// Writes `value` for storage: in camelCase, with a depth limit that leaves room to nest the text
/// in others.
pub(crate) fn to_stored_text<T: Wire>(value: &T) -> Result<String, JsonError> {
    let mut writer = Writer::stored();
    value.write(&mut writer);
    writer.finish()
}

/// Implements the public reader and writers of a wire type, and serde on top of them.
macro_rules! wire_text {
    ($($type:ty),* $(,)?) => { $(
        impl $type {
            /// Reads the JSON text in either spelling of the field names.
            pub fn from_json(text: &str) -> Result<Self, $crate::json::JsonError> {
                $crate::wire::from_text(text)
            }

            /// Writes ADK's HTTP form: camelCase, without absent fields.
            pub fn to_json(&self) -> Result<String, $crate::json::JsonError> {
                $crate::wire::to_text(self, $crate::json::Spelling::Camel)
            }

            /// Writes ADK's storage form: snake_case, without absent fields.
            pub fn to_snake_json(&self) -> Result<String, $crate::json::JsonError> {
                $crate::wire::to_text(self, $crate::json::Spelling::Snake)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::json::serialize_text(self.to_json(), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::json::deserialize_text(deserializer, Self::from_json)
            }
        }
    )* };
}
pub(crate) use wire_text;
