//! Converts schemas, in Gemini's format or JSON Schema, to the JSON Schema that OpenAI accepts.

use retain_core::{Json, JsonMap};

use super::json::{list, object};

/// Keywords whose value maps names to schemas.
const MAPS: [&str; 5] = [
    "properties",
    "$defs",
    "definitions",
    "patternProperties",
    "dependentSchemas",
];
/// Keywords whose value is a schema or a list of schemas.
const SCHEMAS: [&str; 13] = [
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value may be `null` and must then be kept.
const VALUES: [&str; 3] = ["default", "const", "examples"];
/// Keywords whose value is a count. Gemini's format allows strings.
const COUNTS: [&str; 6] = [
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
];

/// Converts a schema in either format to JSON Schema.
///
/// Types become lower case, `nullable` becomes a type, and snake-case keywords become camel case.
/// JSON Schema is unchanged.
pub(crate) fn json_schema(schema: &Json) -> Json {
    let Some(fields) = schema.as_object() else {
        return schema.clone();
    };
    let mut out = JsonMap::new();
    let mut is_nullable = false;
    for (key, value) in fields {
        let key = keyword(key);
        match key {
            // Property order and null values have no meaning here.
            "propertyOrdering" => {}
            _ if value.is_null() && !VALUES.contains(&key) => {}
            "nullable" => is_nullable = value.as_bool() == Some(true),
            "type" => insert_type(&mut out, value),
            "$ref" => drop(out.insert(key, convert_reference(value))),
            "example" => drop(out.insert("examples", list([value.clone()]))),
            _ if MAPS.contains(&key) => drop(out.insert(key, convert_map(value))),
            _ if SCHEMAS.contains(&key) => drop(out.insert(key, convert_nested(value))),
            _ if COUNTS.contains(&key) => drop(out.insert(key, convert_count(value))),
            _ => drop(out.insert(key, value.clone())),
        }
    }
    if is_nullable {
        allow_null(&mut out);
    }
    out.into()
}

/// Returns the camel-case name of a keyword.
fn keyword(key: &str) -> &str {
    match key {
        "any_of" => "anyOf",
        "one_of" => "oneOf",
        "all_of" => "allOf",
        "min_items" => "minItems",
        "max_items" => "maxItems",
        "min_length" => "minLength",
        "max_length" => "maxLength",
        "min_properties" => "minProperties",
        "max_properties" => "maxProperties",
        "prefix_items" => "prefixItems",
        "property_ordering" => "propertyOrdering",
        "additional_properties" => "additionalProperties",
        "defs" => "$defs",
        "ref" => "$ref",
        key => key,
    }
}

fn insert_type(out: &mut JsonMap, value: &Json) {
    let lower = |value: &Json| match value.as_str() {
        Some(name) => Json::from(name.to_lowercase()),
        None => value.clone(),
    };
    let value = match value.as_array() {
        Some(names) => list(names.iter().map(lower)),
        None => lower(value),
    };
    if value != "type_unspecified" {
        out.insert("type", value);
    }
}

fn convert_reference(value: &Json) -> Json {
    match value.as_str().and_then(|text| text.strip_prefix("#/defs/")) {
        Some(rest) => format!("#/$defs/{rest}").into(),
        None => value.clone(),
    }
}

fn convert_map(value: &Json) -> Json {
    match value.as_object() {
        Some(map) => map
            .iter()
            .map(|(name, schema)| (name, json_schema(schema)))
            .collect::<JsonMap>()
            .into(),
        None => value.clone(),
    }
}

fn convert_nested(value: &Json) -> Json {
    match value.as_array() {
        Some(schemas) => list(schemas.iter().map(json_schema)),
        None => json_schema(value),
    }
}

fn convert_count(value: &Json) -> Json {
    let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
    number.map_or_else(|| value.clone(), Json::from)
}

/// Extends the schema to allow `null`.
fn allow_null(schema: &mut JsonMap) {
    let null = Json::from("null");
    let types = match schema.get("type") {
        Some(Json::String(name)) => Some(vec![Json::String(name.clone()), null]),
        Some(Json::Array(names)) if !names.contains(&null) => {
            Some(names.iter().cloned().chain([null]).collect())
        }
        _ => None,
    };
    if let Some(types) = types {
        schema.insert("type", types);
        let values = schema.get_mut("enum").and_then(Json::as_array_mut);
        if let Some(values) = values.filter(|values| !values.contains(&Json::Null)) {
            values.push(Json::Null);
        }
    } else if let Some(choices) = schema.get_mut("anyOf").and_then(Json::as_array_mut) {
        choices.push(object([("type", "null".into())]));
    }
}

/// The property that wraps a non-object answer.
const VALUE: &str = "response";

/// Returns an object schema, because providers require one for an answer: `schema` itself, or an
/// object with `schema` as its only property. The flag tells whether the schema was wrapped.
pub(crate) fn as_object(mut schema: Json) -> (Json, bool) {
    let choices = ["anyOf", "oneOf", "allOf"];
    let has_choices = choices.iter().any(|choice| schema.get(choice).is_some());
    if schema["type"] == "object" && !has_choices {
        return (schema, false);
    }
    // Definitions stay at the top, where references are resolved.
    let definitions = ["$defs", "definitions"].map(|name| {
        let map = schema.as_object_mut().and_then(|map| map.remove(name));
        (name, map)
    });
    let mut wrapper = JsonMap::from([
        ("type", Json::from("object")),
        ("properties", object([(VALUE, schema)])),
        ("required", list([VALUE.into()])),
    ]);
    for (name, definitions) in definitions {
        wrapper.extend(definitions.map(|definitions| (name, definitions)));
    }
    (wrapper.into(), true)
}

/// Returns the value in an answer to a schema that [`as_object`] wrapped; `None` if the answer is
/// not wrapped.
pub(crate) fn value_in(answer: &Json) -> Option<&Json> {
    answer
        .get(VALUE)
        .filter(|_| answer.as_object().is_some_and(|map| map.len() == 1))
}

/// Converts the schema for OpenAI's strict mode: objects require all of their properties and allow
/// no others, a reference stands alone, and `oneOf` becomes `anyOf`. Unsupported keywords are kept;
/// see [`is_strict`].
pub(super) fn strict(schema: &Json) -> Json {
    let Some(fields) = schema.as_object() else {
        return schema.clone();
    };
    if let Some(reference) = fields.get("$ref") {
        return object([("$ref", reference.clone())]);
    }
    // An `allOf` with one item equals that item. Pydantic uses it to add keywords to a reference.
    if let Some([only]) = fields.get("allOf").and_then(Json::as_array) {
        let mut both = fields.clone();
        both.remove("allOf");
        both.extend(only.as_object().cloned().unwrap_or_default());
        return strict(&both.into());
    }
    let mut out = JsonMap::new();
    for (key, value) in fields {
        match key {
            // All properties are required, so they need no default; and each alternative contains
            // the discriminator.
            "default" | "discriminator" => {}
            "properties" | "$defs" | "definitions" => drop(out.insert(key, strict_by_name(value))),
            "oneOf" if !fields.contains_key("anyOf") => {
                drop(out.insert("anyOf", strict_nested(value)));
            }
            "items" | "anyOf" | "oneOf" => drop(out.insert(key, strict_nested(value))),
            _ => drop(out.insert(key, value.clone())),
        }
    }
    let names = fields.get("properties").and_then(Json::as_object);
    let may_close = matches!(
        fields.get("additionalProperties"),
        None | Some(Json::Bool(false))
    );
    if let Some(names) = names.filter(|_| is_object(fields) && may_close) {
        out.insert("additionalProperties", false);
        out.insert("required", list(names.keys().map(Json::from)));
    }
    out.into()
}

fn strict_by_name(value: &Json) -> Json {
    let Some(map) = value.as_object() else {
        return value.clone();
    };
    let strict = map.iter().map(|(name, schema)| (name, strict(schema)));
    strict.collect::<JsonMap>().into()
}

fn strict_nested(value: &Json) -> Json {
    match value.as_array() {
        Some(schemas) => list(schemas.iter().map(strict)),
        None => strict(value),
    }
}

/// Whether strict mode accepts a schema that [`strict`] returned: the schema has no map with
/// arbitrary keys, no untyped value, and no unsupported keyword.
pub(super) fn is_strict(schema: &Json) -> bool {
    const UNSUPPORTED: [&str; 9] = [
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "patternProperties",
        "dependentSchemas",
        "prefixItems",
    ];
    let Some(fields) = schema.as_object() else {
        return false;
    };
    if fields.contains_key("$ref") {
        return true;
    }
    let describes_value = ["type", "anyOf", "enum", "const"];
    let has_any = |names: &[&str]| names.iter().any(|name| fields.contains_key(name));
    if has_any(&UNSUPPORTED) || !has_any(&describes_value) {
        return false;
    }
    let is_closed = fields.get("additionalProperties") == Some(&Json::Bool(false));
    if is_object(fields) && !(is_closed && fields.contains_key("properties")) {
        return false;
    }
    let is_list = fields.get("type").is_some_and(|kind| *kind == "array");
    if is_list && !fields.get("items").is_some_and(is_strict) {
        return false;
    }
    let maps = ["properties", "$defs", "definitions"];
    let maps = maps.iter().filter_map(|name| fields.get(name)?.as_object());
    let choices = fields.get("anyOf").and_then(Json::as_array);
    maps.flat_map(|map| map.iter().map(|(_, schema)| schema))
        .chain(choices.unwrap_or_default())
        .all(is_strict)
}

fn is_object(schema: &JsonMap) -> bool {
    match schema.get("type") {
        Some(Json::Array(names)) => names.iter().any(|name| *name == "object"),
        Some(name) => *name == "object",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn gemini_schema_becomes_json_schema() {
        let gemini = parsed(
            r##"{"type": "OBJECT", "propertyOrdering": ["a"], "title": null, "properties": {
                "type": {"type": "STRING", "nullable": true, "enum": ["x", null]},
                "nullable": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "1", "max_items": 3},
                "c": {"any_of": [{"type": "NUMBER"}, {"type": "BOOLEAN"}], "nullable": true},
                "d": {"ref": "#/defs/D"}, "e": {"type": "TYPE_UNSPECIFIED", "default": null},
                "f": {"type": ["STRING", "NULL"], "default": {"type": "STRING"}}},
              "required": ["type"], "defs": {"D": {"type": "OBJECT"}}, "additional_properties": false}"##,
        );
        let expected = parsed(
            r##"{"type": "object", "properties": {
                "type": {"type": ["string", "null"], "enum": ["x", null]},
                "nullable": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
                "c": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "null"}]},
                "d": {"$ref": "#/$defs/D"}, "e": {"default": null},
                "f": {"type": ["string", "null"], "default": {"type": "STRING"}}},
              "required": ["type"], "$defs": {"D": {"type": "object"}}, "additionalProperties": false}"##,
        );
        assert_eq!(json_schema(&gemini), expected);
        // JSON Schema is unchanged.
        assert_eq!(json_schema(&expected), expected.clone());
    }

    #[test]
    fn strict_objects_are_closed_and_require_all_fields() {
        let loose = parsed(
            r##"{"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"$ref": "#/$defs/B", "description": "gone"},
                "c": {"type": "array", "items": {"type": "object", "properties": {"d": {}}}}},
              "required": ["a"], "$defs": {"B": {"anyOf": [{"type": ["object", "null"], "properties": {}}]}}}"##,
        );
        let expected = parsed(
            r##"{"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"$ref": "#/$defs/B"},
                "c": {"type": "array", "items": {"type": "object", "properties": {"d": {}},
                    "additionalProperties": false, "required": ["d"]}}},
              "required": ["a", "b", "c"], "additionalProperties": false,
              "$defs": {"B": {"anyOf": [{"type": ["object", "null"], "properties": {},
                    "additionalProperties": false, "required": []}]}}}"##,
        );
        assert_eq!(strict(&loose), expected);
    }

    #[test]
    fn strict_schema_uses_any_of_and_no_defaults() {
        let loose = parsed(
            r##"{"type": "object", "properties": {
                "a": {"oneOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "default": null,
                    "discriminator": {"propertyName": "k"}},
                "default": {"type": "string", "default": "x"},
                "b": {"allOf": [{"$ref": "#/$defs/A"}], "description": "gone"}},
              "$defs": {"A": {"type": "object", "properties": {"k": {"const": 1}}}}}"##,
        );
        let expected = parsed(
            r##"{"type": "object", "properties": {
                "a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
                "default": {"type": "string"}, "b": {"$ref": "#/$defs/A"}},
              "$defs": {"A": {"type": "object", "properties": {"k": {"const": 1}},
                    "additionalProperties": false, "required": ["k"]}},
              "additionalProperties": false, "required": ["a", "default", "b"]}"##,
        );
        assert_eq!(strict(&loose), expected);
        assert!(is_strict(&expected));
    }

    #[test]
    fn unsupported_strict_schemas_are_recognized() {
        for open in [
            r#"{"type": "object"}"#,
            r#"{"type": "object", "additionalProperties": {"type": "string"}}"#,
            r#"{"type": "object", "properties": {}, "additionalProperties": true}"#,
            r#"{"type": "object", "properties": {"a": {}}}"#,
            r#"{"type": "object", "properties": {"a": {"type": "array"}}}"#,
            r#"{"type": "object", "properties": {"a": {"anyOf": [{"type": "object"}]}}}"#,
            r#"{"allOf": [{"type": "string"}, {"minLength": 1}]}"#,
            r#"{"type": "array", "items": {"not": {"type": "string"}}}"#,
        ] {
            assert!(!is_strict(&strict(&parsed(open))), "{open}");
        }
    }

    #[test]
    fn non_object_schema_is_wrapped_in_an_object() {
        let list = r##"{"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {}}}"##;
        let (schema, is_wrapped) = as_object(parsed(list));
        let expected = parsed(
            r##"{"type": "object", "properties": {"response":
                {"type": "array", "items": {"$ref": "#/$defs/A"}}},
              "required": ["response"], "$defs": {"A": {}}}"##,
        );
        assert!(is_wrapped);
        assert_eq!(schema, expected);
        let (again, is_wrapped) = as_object(schema.clone());
        assert!(!is_wrapped);
        assert_eq!(again, schema);
        assert_eq!(
            value_in(&parsed(r#"{"response": [1]}"#)),
            Some(&parsed("[1]"))
        );
        assert_eq!(value_in(&parsed(r#"{"response": [1], "more": 1}"#)), None);
        assert_eq!(value_in(&parsed("[1]")), None);
    }
}
