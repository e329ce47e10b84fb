//! JSON Schemas of Rust types, in the form that models accept.

use retain_core::{Json, JsonMap};
use schemars::{JsonSchema, generate::SchemaSettings};

/// Returns the schema of `T`, inlined: no references, no titles, no dialect. It equals the schema
/// that ADK declares for the corresponding Python type, if there is one.
pub(crate) fn json_schema_of<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = Json::from(schema.to_value());
    if let Some(map) = schema.as_object_mut() {
        map.remove("title");
    }
    normalize(&schema)
}

/// Keywords whose value is data rather than a schema.
const DATA: [&str; 5] = ["default", "enum", "const", "example", "examples"];

/// Keywords whose value maps names to schemas.
const NAMED: [&str; 3] = ["properties", "patternProperties", "$defs"];

fn normalize(schema: &Json) -> Json {
    let map = match schema {
        Json::Object(map) => map,
        Json::Array(items) => return items.iter().map(normalize).collect::<Vec<_>>().into(),
        plain => return plain.clone(),
    };
    let mut declared = JsonMap::new();
    for (key, value) in map.iter() {
        let value = match (key, value) {
            // The width of a Rust number means nothing to a model, and some models reject unknown
            // formats.
            ("format", Json::String(format)) if is_number_format(format) => continue,
            (key, _) if DATA.contains(&key) => value.clone(),
            (key, Json::Object(schemas)) if NAMED.contains(&key) => {
                let schemas = schemas.iter();
                let schemas = schemas.map(|(name, schema)| (name, normalize(schema)));
                schemas.collect::<JsonMap>().into()
            }
            _ => normalize(value),
        };
        declared.insert(key, value);
    }
    without_type_list(declared).into()
}

fn is_number_format(format: &str) -> bool {
    let width = format.trim_start_matches("uint").trim_start_matches("int");
    matches!(format, "double" | "float")
        || format != width && width.chars().all(|digit| digit.is_ascii_digit())
}

/// Rewrites `type: [T, "null"]` as `anyOf` a schema for `T` and null, because not every model
/// supports lists of types.
fn without_type_list(mut schema: JsonMap) -> JsonMap {
    let is_null = |kind: &Json| *kind == "null";
    let Some([kind, null]) = schema.get("type").and_then(Json::as_array) else {
        return schema;
    };
    if is_null(kind) || !is_null(null) {
        return schema;
    }
    let kind = kind.clone();
    schema.insert("type", kind);
    let mut choice = JsonMap::new();
    for outside in ["title", "description", "default"] {
        if let Some(value) = schema.remove(outside) {
            choice.insert(outside, value);
        }
    }
    let null = JsonMap::from([("type", "null")]);
    choice.insert("anyOf", vec![Json::from(schema), null.into()]);
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(schemars::JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct SearchArea {
        /// Where to look.
        city: Option<String>,
        radius: f64,
        #[serde(default)]
        format: Option<u8>,
        days: Vec<Option<i32>>,
    }

    #[test]
    fn schema_makes_optional_fields_nullable_and_drops_number_formats() {
        let expected = serde_json::json!({
            "type": "object",
            "properties": {
                "city": {
                    "description": "Where to look.",
                    "anyOf": [{"type": "string"}, {"type": "null"}],
                },
                "radius": {"type": "number"},
                "format": {
                    "default": null,
                    "anyOf": [{"type": "integer", "minimum": 0, "maximum": 255}, {"type": "null"}],
                },
                "days": {
                    "type": "array",
                    "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
            },
            "required": ["radius", "days"],
        });
        assert_eq!(json_schema_of::<SearchArea>(), Json::from(expected));
    }
}
