//! JSON Schemas of ADK's objects, generated from `retain_core::adk::table`.

use retain_core::adk::{ObjectSchema, Presence, ValueType, table};
use serde_json::{Map, Value, json};

/// Objects with their own schema, and their descriptions. All other objects accept any fields.
static DESCRIBED: [(&ObjectSchema, &str); 10] = [
    (
        &table::EVENT,
        "An event as ADK's REST API writes it. Unknown fields are kept unchanged.",
    ),
    (
        &table::EVENT_ACTIONS,
        "What an event does: changes of state and artifacts, transfers, requests.",
    ),
    (&table::CONTENT, "A message: a role and its parts."),
    (&table::PART, "One part of a message, with bytes in base64."),
    (&table::FUNCTION_CALL, "A function call of the model."),
    (&table::FUNCTION_RESPONSE, "The result of a function call."),
    (&table::BLOB, "Bytes with their media type."),
    (&table::FILE_DATA, "A reference to a file by URI."),
    (&table::MEMORY_ENTRY, "A memory entry in ADK's JSON."),
    (
        &table::ARTIFACT_VERSION,
        "Metadata of one version of an artifact.",
    ),
];

/// Returns the schemas that other schemas refer to, by name.
pub(super) fn components() -> impl Iterator<Item = (&'static str, Map<String, Value>)> {
    let described = DESCRIBED.iter();
    described.map(|(object, _)| (object.name, component(object)))
}

/// Returns the schema of an object that is both read and written.
pub(in crate::api) fn component(object: &'static ObjectSchema) -> Map<String, Value> {
    let mut schema = schema(object, |presence| presence == Presence::Required);
    schema.insert("additionalProperties".to_owned(), true.into());
    if let Some((_, about)) = DESCRIBED.iter().find(|(it, _)| it.name == object.name) {
        schema.insert("description".to_owned(), (*about).into());
    }
    schema
}

/// Returns the schema of an object that a client sends.
pub(super) fn request(object: &'static ObjectSchema) -> Value {
    schema(object, |presence| presence == Presence::Required).into()
}

/// Returns the schema of an object that the server writes. A field with a default is always
/// present.
pub(super) fn answer(object: &'static ObjectSchema) -> Value {
    schema(object, |presence| presence != Presence::Nullable).into()
}

fn schema(
    object: &'static ObjectSchema,
    is_required: impl Fn(Presence) -> bool,
) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in object.fields {
        properties.insert(field.camel.to_owned(), value(&field.value));
        if is_required(field.presence) {
            required.push(Value::from(field.camel));
        }
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema
}

fn value(expected: &ValueType) -> Value {
    match expected {
        ValueType::Any => json!(true),
        ValueType::Dict => reference("FreeObject"),
        ValueType::Text => json!({"type": "string"}),
        ValueType::Bool => json!({"type": "boolean"}),
        ValueType::Int => json!({"type": "integer"}),
        ValueType::Float => json!({"type": "number"}),
        ValueType::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        ValueType::Literal(values) => json!({"enum": values}),
        ValueType::TextSet => {
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})
        }
        ValueType::List(item) => json!({"type": "array", "items": value(item)}),
        ValueType::Map(inner) => json!({"type": "object", "additionalProperties": value(inner)}),
        ValueType::Object(object) => {
            let is_described = DESCRIBED.iter().any(|(it, _)| it.name == object.name);
            reference(if is_described {
                object.name
            } else {
                "FreeObject"
            })
        }
        ValueType::Enum(_) => any_of(alternatives(expected)),
        ValueType::Union(members) => any_of(members.iter().flat_map(alternatives).collect()),
        ValueType::Declared(_, real) => value(real),
    }
}

/// Returns the alternative schemas, one of which a value must match. Like ADK, an enum also accepts
/// other strings, because providers add values.
fn alternatives(expected: &ValueType) -> Vec<Value> {
    match expected {
        ValueType::Enum(known) => vec![
            json!({"type": "string", "enum": known.values}),
            json!({"type": "string"}),
        ],
        _ => vec![value(expected)],
    }
}

fn any_of(mut schemas: Vec<Value>) -> Value {
    schemas.dedup();
    match schemas.as_slice() {
        [one] => one.clone(),
        _ => json!({"anyOf": schemas}),
    }
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}
