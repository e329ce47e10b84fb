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
    /// ADK drops the field.
    Ignore,
    /// ADK keeps the field unchanged.
    Keep,
    /// ADK rejects the object.
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
    /// The field must be present and not null.
    Required,
    /// The field has a default and must not be null.
    Optional,
    /// The field may be missing or null.
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
    /// One of a list of strings that newer versions may extend.
    Enum(&'static EnumSchema),
    /// One of a closed list of strings.
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
    /// Python declares the first type, but the values have the second.
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
    /// Returns the field that `key` names, in either spelling.
    pub fn field(&self, key: &str) -> Option<&'static FieldSchema> {
        self.fields.iter().find(|field| field.is_named(key))
    }

    /// Returns the names of the fields in YAML files.
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
    /// Returns the objects that the value can be.
    pub fn objects(&self) -> Vec<&'static ObjectSchema> {
        match self {
            ValueType::Object(object) => vec![object],
            ValueType::Union(members) => members.iter().flat_map(ValueType::objects).collect(),
            ValueType::Declared(_, real) => real.objects(),
            _ => Vec::new(),
        }
    }
}

/// Fails to compile unless a struct has exactly the fields of its table, in the same order and with
/// matching types. The error names the first field that differs.
pub(crate) const fn assert_same_fields(table: &[FieldSchema], fields: &[(&str, &ValueType)]) {
    // The reader records the fields that it has read in the bits of a `u64`.
    assert!(fields.len() <= 64, "a struct must have at most 64 fields");
    let mut at = 0;
    while at < table.len() || at < fields.len() {
        if at == fields.len() || at < table.len() && !is_same(table[at].snake, fields[at].0) {
            panic!("{}", table[at].snake);
        }
        if at == table.len() {
            panic!("{}", fields[at].0);
        }
        assert_type(table[at].snake, fields[at].1, &table[at].value);
        at += 1;
    }
}

/// Fails to compile unless the fields of a flattened struct are at this index of the table. Returns
/// the index after them.
pub(crate) const fn assert_fields_at(
    table: &[FieldSchema],
    from: usize,
    fields: &[FieldSchema],
) -> usize {
    let mut at = 0;
    while at < fields.len() {
        let (one, other) = (&table[from + at], &fields[at]);
        if !is_same(one.snake, other.snake) || !is_same(one.camel, other.camel) {
            panic!("{}", one.snake);
        }
        assert_type(one.snake, &other.value, &one.value);
        at += 1;
    }
    from + at
}

/// Fails to compile unless a field has the type of the table.
const fn assert_type(field: &str, rust: &ValueType, table: &ValueType) {
    if !can_hold(rust, table) {
        panic!("{}", field);
    }
}

/// Whether a Rust type for the values of `rust` suits a field with the type `table`. A `Json` holds
/// every value. For a union, one member suffices: Retain supports some members only.
const fn can_hold(rust: &ValueType, table: &ValueType) -> bool {
    use ValueType::*;
    match (rust, table) {
        (Any, _) => true,
        (_, Declared(_, real)) => can_hold(rust, real),
        (_, Union(members)) => {
            let mut at = 0;
            while at < members.len() && !can_hold(rust, &members[at]) {
                at += 1;
            }
            at < members.len()
        }
        (List(one), List(other)) | (Map(one), Map(other)) => can_hold(one, other),
        (Object(one), Object(other)) => {
            is_same(one.name, other.name) && one.fields.len() == other.fields.len()
        }
        (Text, Text | Enum(_) | Literal(_)) => true,
        (Dict, Dict | Map(_)) => true,
        (Enum(_), Enum(_)) | (Literal(_), Literal(_)) => true,
        (Bool, Bool) | (Int, Int) | (Float, Float) => true,
        (Bytes, Bytes) | (TextSet, TextSet) => true,
        _ => false,
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

    #[test]
    fn rust_types_match_only_the_same_types_of_the_table() {
        use ValueType::*;
        static NAMES: ValueType = List(&Text);
        static NUMBERS: ValueType = List(&Int);
        static BLOB: ValueType = Object(&table::BLOB);
        static PART: ValueType = Object(&table::PART);
        let types = [
            &Text, &Bool, &Int, &Float, &Bytes, &TextSet, &Dict, &NAMES, &NUMBERS, &BLOB, &PART,
        ];
        for (at, rust) in types.iter().enumerate() {
            for (other, table) in types.iter().enumerate() {
                assert_eq!(can_hold(rust, table), at == other, "{rust:?} {table:?}");
            }
            assert!(can_hold(&Any, rust), "{rust:?}");
            assert!(!can_hold(rust, &Any), "{rust:?}");
        }
        assert!(can_hold(&Text, &Literal(&["a"])));
        assert!(can_hold(&Dict, &Map(&Int)));
        assert!(can_hold(&Int, &Union(&[Text, Int])));
        assert!(!can_hold(&Bool, &Union(&[Text, Int])));
        assert!(can_hold(&Int, &Declared(&Any, &Int)));
    }

    #[test]
    #[should_panic(expected = "display_name")]
    fn error_for_a_field_with_another_type_names_the_field() {
        use ValueType::*;
        let fields = [
            ("data", &Bytes),
            ("display_name", &Int),
            ("mime_type", &Text),
        ];
        assert_same_fields(table::BLOB.fields, &fields);
    }

    #[test]
    #[should_panic(expected = "model_version")]
    fn error_for_flattened_fields_at_another_place_names_the_field() {
        assert_fields_at(table::EVENT.fields, 0, table::EVENT_ACTIONS.fields);
    }

    /// The writer does not know which member of a union an object is, so a field name must have the
    /// same spellings and type in all members.
    #[test]
    fn fields_with_the_same_name_agree_in_all_members_of_a_union() {
        for value in table::OBJECTS.iter().flat_map(|object| object.fields) {
            let members = value.value.objects();
            // `Shaped` objects contain only this union of objects.
            let is_shaped = members.len() > 1 && value.snake == "auth_scheme";
            for field in members
                .iter()
                .flat_map(|object| object.fields)
                .filter(|_| is_shaped)
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
