//! Schemas as JSON Schema. Declarations have either that or Google's own form, which is near it:
//! types in capitals, `nullable`, keywords in either spelling, and numbers as texts.

use retain_core::{Json, JsonMap};

/// Keywords whose values are data of the user.
const DATA: [&str; 6] = [
    "default", "enum", "const", "example", "examples", "required",
];

/// Keywords whose values are schemas by name.
const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
    "defs",
];

/// Google's spellings of keywords.
const RESPELLED: [(&str, &str); 11] = [
    ("any_of", "anyOf"),
    ("all_of", "allOf"),
    ("one_of", "oneOf"),
    ("additional_properties", "additionalProperties"),
    ("max_items", "maxItems"),
    ("min_items", "minItems"),
    ("max_length", "maxLength"),
    ("min_length", "minLength"),
    ("max_properties", "maxProperties"),
    ("min_properties", "minProperties"),
    ("prefix_items", "prefixItems"),
];

/// Counts, which Google's JSON writes as texts.
const COUNTS: [&str; 6] = [
    "maxItems",
    "minItems",
    "maxLength",
    "minLength",
    "maxProperties",
    "minProperties",
];

/// `schema` as JSON Schema. What is JSON Schema already stays as it is.
pub(crate) fn json_schema(schema: &Json) -> Json {
    let map = match schema {
        Json::Object(map) => map,
        Json::Array(items) => return items.iter().map(json_schema).collect::<Vec<_>>().into(),
        plain => return plain.clone(),
    };
    let mut written = JsonMap::new();
    let mut is_nullable = false;
    for (key, value) in map.iter() {
        let respelled = RESPELLED.iter().find(|(snake, _)| *snake == key);
        let key = respelled.map_or(key, |(_, camel)| camel);
        let value = match (key, value) {
            ("nullable", value) => {
                is_nullable = value.as_bool() == Some(true);
                continue;
            }
            // The order in which Gemini writes the properties.
            ("propertyOrdering" | "property_ordering", _) => continue,
            ("type", value) => lower_case(value),
            (key, value) if DATA.contains(&key) => value.clone(),
            (key, Json::String(text)) if COUNTS.contains(&key) => match text.parse::<i64>() {
                Ok(count) => count.into(),
                Err(_) => value.clone(),
            },
            (key, Json::Object(named)) if NAMED.contains(&key) => {
                let named = named
                    .iter()
                    .map(|(name, schema)| (name, json_schema(schema)));
                named.collect::<JsonMap>().into()
            }
            (_, value) => json_schema(value),
        };
        written.insert(key, value);
    }
    if is_nullable {
        allow_null(&mut written);
    }
    written.into()
}

fn lower_case(kind: &Json) -> Json {
    match kind {
        Json::String(name) => name.to_ascii_lowercase().into(),
        Json::Array(names) => names.iter().map(lower_case).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn allow_null(schema: &mut JsonMap) {
    if let Json::String(kind) = &schema["type"] {
        let kinds = vec![Json::String(kind.clone()), "null".into()];
        schema.insert("type", kinds);
    } else if let Json::Array(choices) = &schema["anyOf"] {
        let null = Json::from(JsonMap::from([("type", "null")]));
        let mut choices = choices.to_vec();
        if !choices.contains(&null) {
            choices.push(null);
        }
        schema.insert("anyOf", choices);
    }
    if let Json::Array(values) = &schema["enum"] {
        let mut values = values.to_vec();
        if !values.contains(&Json::Null) {
            values.push(Json::Null);
        }
        schema.insert("enum", values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(schema: &str) -> String {
        json_schema(&Json::parse(schema).unwrap()).to_string()
    }

    #[test]
    fn googles_form_becomes_json_schema() {
        let google = r#"{"type":"OBJECT","properties":{
            "type":{"type":"STRING","nullable":true,"enum":["a"],"min_length":"1"},
            "list":{"type":"ARRAY","items":{"type":"INTEGER"},"maxItems":"3"},
            "either":{"any_of":[{"type":"NUMBER"}],"nullable":true}},
            "required":["type"],"propertyOrdering":["type"]}"#;
        let json = r#"{"type":"object","properties":{
            "type":{"type":["string","null"],"enum":["a",null],"minLength":1},
            "list":{"type":"array","items":{"type":"integer"},"maxItems":3},
            "either":{"anyOf":[{"type":"number"},{"type":"null"}]}},
            "required":["type"]}"#;
        assert_eq!(written(google), Json::parse(json).unwrap().to_string());
    }

    #[test]
    fn json_schema_stays_as_it_is() {
        let schema = r##"{"type":"object","properties":{"nullable":{"type":"string"},"a":{"$ref":"#/$defs/T"}},"$defs":{"T":{"type":["integer","null"],"default":{"type":"KEEP"}}},"additionalProperties":false}"##;
        assert_eq!(written(schema), schema);
    }
}
