//! Objects that Retain passes on: stored as JSON. The table of their fields gives both spellings of
//! the names.

use std::{fmt, marker::PhantomData, ops::Deref};

use super::{Bytes, ObjectSchema, ValueType, Wire};
use crate::json::{Json, JsonError, JsonMap, Reader, Spelling, Writer};

mod sealed {
    pub trait Sealed {
        #[doc(hidden)]
        const TYPE: &'static super::super::ValueType;
    }
}
pub(crate) use sealed::Sealed;

/// Names the table of a [`Shaped`] object. Only markers of this crate implement it.
#[allow(private_bounds)]
pub trait ShapeOf: Sealed {}

/// An ADK object that Retain stores and passes on but does not read.
///
/// It reads like a [`Json`] with camelCase names and is written in the spelling of the text around
/// it.
pub struct Shaped<S>(
    /// `None` for an empty object.
    Option<Json>,
    PhantomData<fn() -> S>,
);

/// The value of an empty [`Shaped`].
static EMPTY: std::sync::LazyLock<Json> = std::sync::LazyLock::new(|| JsonMap::new().into());

impl<S: ShapeOf> Shaped<S> {
    /// Creates the object from a JSON value in either spelling.
    pub fn new(value: impl Into<Json>) -> Shaped<S> {
        Shaped(
            Some(respell(&value.into(), S::TYPE, Spelling::Camel)),
            PhantomData,
        )
    }
}

impl<S> Deref for Shaped<S> {
    type Target = Json;

    fn deref(&self) -> &Json {
        self.0.as_ref().unwrap_or(&EMPTY)
    }
}

impl<S> Clone for Shaped<S> {
    fn clone(&self) -> Shaped<S> {
        Shaped(self.0.clone(), PhantomData)
    }
}

impl<S> PartialEq for Shaped<S> {
    fn eq(&self, other: &Shaped<S>) -> bool {
        **self == **other
    }
}

impl<S> fmt::Debug for Shaped<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<S: ShapeOf> Default for Shaped<S> {
    /// Creates an empty object.
    fn default() -> Shaped<S> {
        Shaped(None, PhantomData)
    }
}

impl<S: ShapeOf> Wire for Shaped<S> {
    const TYPE: &'static ValueType = S::TYPE;

    fn read(reader: &mut Reader<'_>) -> Result<Shaped<S>, JsonError> {
        let next = reader.peek();
        match S::TYPE {
            ValueType::Object(_) | ValueType::Map(_) if next != Some(b'{') => {
                return Err(reader.unexpected("an object"));
            }
            ValueType::List(_) | ValueType::TextSet if next != Some(b'[') => {
                return Err(reader.unexpected("a list"));
            }
            // Most objects are empty; an empty object allocates nothing.
            ValueType::Object(_) | ValueType::Map(_) if reader.take_empty_object() => {
                return Ok(Shaped::default());
            }
            _ => {}
        }
        Ok(Shaped::new(reader.read_json()?))
    }

    fn write(&self, writer: &mut Writer) {
        match writer.spelling() {
            Spelling::Camel => writer.json(self),
            Spelling::Snake => writer.json(&respell(self, S::TYPE, Spelling::Snake)),
        }
    }
}

/// Returns the value with all known field names in `spelling` and without null fields. Unknown
/// fields and untyped values are unchanged.
fn respell(value: &Json, value_type: &ValueType, spelling: Spelling) -> Json {
    match (value_type, value) {
        (ValueType::Object(object), Json::Object(map)) => {
            respell_object(map, &[object], spelling).into()
        }
        (ValueType::Union(_), Json::Object(map)) => {
            respell_object(map, &value_type.objects(), spelling).into()
        }
        (ValueType::Declared(_, real), _) => respell(value, real, spelling),
        (ValueType::Map(inner), Json::Object(map)) => map
            .iter()
            .map(|(key, value)| (key, respell(value, inner, spelling)))
            .collect::<JsonMap>()
            .into(),
        (ValueType::List(inner), Json::Array(items)) => items
            .iter()
            .map(|item| respell(item, inner, spelling))
            .collect::<Vec<_>>()
            .into(),
        (ValueType::Bytes, Json::String(text)) => match Bytes::from_base64(text) {
            Some(bytes) => bytes.to_base64().into(),
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

/// Like `respell`, for a value that is one of `objects`. Fields with the same name have the same
/// type in all of them.
fn respell_object(map: &JsonMap, objects: &[&ObjectSchema], spelling: Spelling) -> JsonMap {
    let mut out = JsonMap::new();
    for (key, value) in map {
        let field = objects.iter().find_map(|object| object.field(key));
        match field {
            None => drop(out.insert(key, value.clone())),
            Some(_) if value.is_null() => {}
            Some(field) => {
                let (name, other) = match spelling {
                    Spelling::Camel => (field.camel, field.snake),
                    Spelling::Snake => (field.snake, field.camel),
                };
                // If an object has both spellings of a field, the second one gets the other
                // spelling, so that no value is lost.
                let name = if out.contains_key(name) { other } else { name };
                out.insert(name, respell(value, &field.value, spelling));
            }
        }
    }
    out
}
