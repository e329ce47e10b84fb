//! The types of the generated table that describes ADK's objects.

use std::fmt;

/// One of ADK's objects: a pydantic model.
pub struct ObjectSchema {
    /// The name of its Python class.
    pub name: &'static str,
    /// What ADK does with unknown fields.
    pub unknown: UnknownFields,
    /// The fields, in the order in which ADK writes them.
    pub fields: &'static [FieldSchema],
}

/// What ADK does with a field that an object does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownFields {
    /// It drops the field.
    Ignore,
    /// It keeps the field unchanged.
    Keep,
    /// It rejects the object.
    Reject,
}

/// One field of an object.
#[derive(Debug)]
pub struct FieldSchema {
    /// The name in ADK's databases and YAML files.
    pub snake: &'static str,
    /// The name over HTTP.
    pub camel: &'static str,
    /// The type of its value.
    pub value: ValueType,
    /// Whether it may be missing or null.
    pub presence: Presence,
}

/// Whether a field may be missing or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must be there, and not null.
    Required,
    /// It has a default, and must not be null.
    Optional,
    /// It may be missing or null.
    Nullable,
}

/// The type of a value.
#[derive(Debug)]
pub enum ValueType {
    /// Any JSON value; nothing in it is renamed.
    Any,
    /// A map with any keys and values; nothing in it is renamed.
    Dict,
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// Base64, of either alphabet when read.
    Bytes,
    /// A string out of a list that newer versions may extend.
    Enum(&'static EnumSchema),
    /// A string out of a closed list.
    Literal(&'static [&'static str]),
    /// A list of strings whose order has no meaning.
    TextSet,
    /// A list.
    List(&'static ValueType),
    /// A map with arbitrary keys and values of one type.
    Map(&'static ValueType),
    /// One of ADK's objects.
    Object(&'static ObjectSchema),
    /// One of several types.
    Union(&'static [ValueType]),
    /// Declared in Python as the first type; the values are of the second.
    Declared(&'static ValueType, &'static ValueType),
}

/// The known values of an enum.
#[derive(Debug)]
pub struct EnumSchema {
    /// The name of its Python class.
    pub name: &'static str,
    /// The values, as they are written.
    pub values: &'static [&'static str],
}

pub(super) const fn required(
    snake: &'static str,
    camel: &'static str,
    value: ValueType,
) -> FieldSchema {
    field(snake, camel, value, Presence::Required)
}

pub(super) const fn optional(
    snake: &'static str,
    camel: &'static str,
    value: ValueType,
) -> FieldSchema {
    field(snake, camel, value, Presence::Optional)
}

pub(super) const fn nullable(
    snake: &'static str,
    camel: &'static str,
    value: ValueType,
) -> FieldSchema {
    field(snake, camel, value, Presence::Nullable)
}

const fn field(
    snake: &'static str,
    camel: &'static str,
    value: ValueType,
    presence: Presence,
) -> FieldSchema {
    FieldSchema {
        snake,
        camel,
        value,
        presence,
    }
}

impl ObjectSchema {
    /// The field that `key` names, in either spelling.
    pub fn field(&self, key: &str) -> Option<&'static FieldSchema> {
        self.fields.iter().find(|field| field.is_named(key))
    }

    /// The names of the fields in YAML files.
    pub fn snake_names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.snake)
    }
}

impl fmt::Debug for ObjectSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FieldSchema {
    /// Whether `key` is the field's name, in either spelling.
    pub fn is_named(&self, key: &str) -> bool {
        self.camel == key || self.snake == key
    }
}

impl ValueType {
    /// The objects that the value can be.
    pub fn objects(&self) -> Vec<&'static ObjectSchema> {
        match self {
            ValueType::Object(object) => vec![object],
            ValueType::Union(members) => members.iter().flat_map(ValueType::objects).collect(),
            ValueType::Declared(_, real) => real.objects(),
            _ => Vec::new(),
        }
    }
}

/// Fails to compile unless a struct has exactly the fields of its table, in the same order. The
/// error names the first field that differs.
pub(crate) const fn assert_same_fields(table: &[FieldSchema], names: &[&str]) {
    // The reader marks the fields it has seen in the bits of a `u64`.
    assert!(names.len() <= 64, "too many fields");
    let mut at = 0;
    while at < table.len() || at < names.len() {
        if at == names.len() || at < table.len() && !is_same(table[at].snake, names[at]) {
            panic!("{}", table[at].snake);
        }
        if at == table.len() {
            panic!("{}", names[at]);
        }
        at += 1;
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::table, *};

    #[test]
    fn field_names_are_unique_in_each_object() {
        for object in table::OBJECTS {
            let mut names = BTreeSet::new();
            for field in object.fields {
                let is_new = names.insert(field.snake);
                let is_new = (field.camel == field.snake || names.insert(field.camel)) && is_new;
                assert!(is_new, "{object:?}: {}", field.snake);
            }
        }
    }

    /// The field names of an object in a union are respelled without knowing which member it is.
    #[test]
    fn fields_with_the_same_name_agree_in_all_members_of_a_union() {
        for value in table::OBJECTS.iter().flat_map(|object| object.fields) {
            let members = value.value.objects();
            let stored = members.len() > 1 && value.snake == "auth_scheme";
            for field in members
                .iter()
                .flat_map(|object| object.fields)
                .filter(|_| stored)
            {
                let same = members
                    .iter()
                    .filter_map(|object| object.field(field.snake));
                for other in same {
                    assert_eq!(other.camel, field.camel, "{}", field.snake);
                    let (one, other) = (other.value.objects(), field.value.objects());
                    let names =
                        |it: &[&ObjectSchema]| -> Vec<_> { it.iter().map(|o| o.name).collect() };
                    assert_eq!(names(&one), names(&other), "{}", field.snake);
                }
            }
        }
    }
}
