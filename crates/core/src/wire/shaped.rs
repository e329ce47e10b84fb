//! Objects that are passed on: kept as JSON, re-cased by the table of their fields.

use std::{fmt, marker::PhantomData, ops::Deref};

use super::{Bytes, Wire};
use crate::json::{Form, Json, JsonError, JsonMap, Reader, Writer};

/// What stands in a field, as far as spelling is concerned.
#[allow(
    dead_code,
    reason = "the generated table does not use every kind in every version"
)]
pub enum Kind {
    /// Free JSON of the user: never touched.
    Any,
    /// Base64, of either alphabet when read.
    Bytes,
    /// A text, number or boolean.
    Scalar,
    /// A list of texts whose order says nothing.
    Set,
    /// An object of ADK's with known fields.
    Model(&'static Shape),
    /// A list of such.
    List(&'static Kind),
    /// A map with the user's keys and values of one kind.
    Map(&'static Kind),
}

/// The fields of one of ADK's objects.
pub struct Shape {
    pub name: &'static str,
    pub fields: &'static [Field],
}

/// One field of a [`Shape`].
pub struct Field {
    pub snake: &'static str,
    pub camel: &'static str,
    pub kind: Kind,
}

mod sealed {
    pub trait Sealed {
        #[doc(hidden)]
        fn kind() -> &'static super::Kind
        where
            Self: Sized;
    }
}
pub(crate) use sealed::Sealed;

/// Names the table of fields that a [`Shaped`] object follows. Implemented by markers of this
/// crate only.
#[allow(private_bounds)]
pub trait ShapeOf: Sealed {}

/// An ADK object that Retain stores and passes on but does not look into.
///
/// It reads like a [`Json`] with camelCase names and is written in the spelling of the text it
/// stands in.
pub struct Shaped<S>(
    /// `None` for an empty object.
    Option<Json>,
    PhantomData<fn() -> S>,
);

/// What a [`Shaped`] of nothing reads like.
static EMPTY: std::sync::LazyLock<Json> = std::sync::LazyLock::new(|| JsonMap::new().into());

impl<S: ShapeOf> Shaped<S> {
    /// Takes a JSON value in either spelling.
    pub fn new(value: impl Into<Json>) -> Shaped<S> {
        Shaped(
            Some(respell(&value.into(), S::kind(), Form::Camel)),
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
    /// An empty object.
    fn default() -> Shaped<S> {
        Shaped(None, PhantomData)
    }
}

impl<S: ShapeOf> Wire for Shaped<S> {
    fn read(reader: &mut Reader<'_>) -> Result<Shaped<S>, JsonError> {
        let next = reader.peek();
        match S::kind() {
            Kind::Model(_) | Kind::Map(_) if next != Some(b'{') => {
                return Err(reader.unexpected("an object"));
            }
            Kind::List(_) | Kind::Set if next != Some(b'[') => {
                return Err(reader.unexpected("a list"));
            }
            // Most are empty, and nothing need be kept of those.
            Kind::Model(_) | Kind::Map(_) if reader.take_empty_object() => {
                return Ok(Shaped::default());
            }
            _ => {}
        }
        Ok(Shaped::new(reader.read_json()?))
    }

    fn write(&self, writer: &mut Writer) {
        match writer.form() {
            Form::Camel => writer.json(self),
            Form::Snake => writer.json(&respell(self, S::kind(), Form::Snake)),
        }
    }
}

/// The value with every known field name in `form`, known fields without a value left out, and
/// everything unknown or free as it was.
fn respell(value: &Json, kind: &Kind, form: Form) -> Json {
    match (kind, value) {
        (Kind::Model(shape), Json::Object(map)) => respell_object(map, shape, form).into(),
        (Kind::Map(kind), Json::Object(map)) => map
            .iter()
            .map(|(key, value)| (key, respell(value, kind, form)))
            .collect::<JsonMap>()
            .into(),
        (Kind::List(kind), Json::Array(items)) => items
            .iter()
            .map(|item| respell(item, kind, form))
            .collect::<Vec<_>>()
            .into(),
        (Kind::Bytes, Json::String(text)) => match Bytes::from_base64(text) {
            Some(bytes) => bytes.to_base64().into(),
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

fn respell_object(map: &JsonMap, shape: &Shape, form: Form) -> JsonMap {
    let mut out = JsonMap::new();
    for (key, value) in map {
        let field = shape
            .fields
            .iter()
            .find(|field| field.camel == key || field.snake == key);
        match field {
            None => drop(out.insert(key, value.clone())),
            Some(_) if value.is_null() => {}
            Some(field) => {
                let (name, other) = match form {
                    Form::Camel => (field.camel, field.snake),
                    Form::Snake => (field.snake, field.camel),
                };
                // Both spellings of one field in one object: the second takes the other one, so
                // that nothing is lost, there and back.
                let name = if out.contains_key(name) { other } else { name };
                out.insert(name, respell(value, &field.kind, form));
            }
        }
    }
    out
}
