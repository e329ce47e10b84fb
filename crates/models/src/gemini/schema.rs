//! Converts schemas to Gemini's format: a subset of OpenAPI, without references.
//!
//! Response schemas are converted as in Google's client library: references are resolved, null
//! becomes `nullable`, and properties get an order. Other keywords, such as those that Rust crates
//! write, are converted if Gemini has an equivalent and dropped otherwise.

use retain_core::{Json, JsonMap};
use retain_runtime::ModelError;

use super::respell::camel_key;

/// Keywords that Gemini supports.
const KEYWORDS: [&str; 25] = [
    "additionalProperties",
    "defs",
    "ref",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// Converts a function's parameter or response schema, which is in Gemini's format already:
/// keywords become camelCase, types upper case.
pub(super) fn convert_function_schema(schema: &Json) -> Json {
    let Json::Object(map) = schema else {
        return schema.clone();
    };
    let mut out = JsonMap::new();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let key = camel_key(key);
        let value = match (key.as_str(), value) {
            ("properties" | "defs", Json::Object(schemas)) => {
                let schemas = schemas
                    .iter()
                    .map(|(name, schema)| (name, convert_function_schema(schema)));
                schemas.collect::<JsonMap>().into()
            }
            ("items" | "additionalProperties", value) => convert_function_schema(value),
            ("anyOf" | "prefixItems", Json::Array(schemas)) => schemas
                .iter()
                .map(convert_function_schema)
                .collect::<Vec<_>>()
                .into(),
            ("type", Json::String(kind)) => kind.to_uppercase().into(),
            _ => value.clone(),
        };
        out.insert(key, value);
    }
    out.into()
}

/// Converts a response schema.
pub(super) fn convert_response_schema(schema: &Json, is_vertex: bool) -> Result<Json, ModelError> {
    let defs = schema.get("$defs").or_else(|| schema.get("definitions"));
    let mut conversion = SchemaConversion {
        defs: defs.and_then(Json::as_object).cloned().unwrap_or_default(),
        resolving: Vec::new(),
        is_vertex,
    };
    conversion.convert(schema)
}

/// The state of a conversion.
struct SchemaConversion {
    defs: JsonMap,
    /// The references that are being resolved; a repeated one is a cycle.
    resolving: Vec<String>,
    is_vertex: bool,
}

impl SchemaConversion {
    fn convert(&mut self, schema: &Json) -> Result<Json, ModelError> {
        let Some(map) = schema.as_object() else {
            // The schema `true` accepts any value.
            return Ok(JsonMap::new().into());
        };
        let mut node = map.iter().fold(JsonMap::new(), |mut node, (key, value)| {
            let key = match key {
                "oneOf" => "anyOf".to_owned(),
                key => camel_key(key),
            };
            node.insert(key, value.clone());
            node
        });
        self.check_additional_properties(&node)?;
        null_to_nullable(&mut node);
        let reference = node.remove("$ref");
        let reference = reference.as_ref().and_then(Json::as_str);
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
            return self.resolve_reference(name.to_owned(), node);
        }
        self.convert_children(&mut node)?;
        Ok(convert_keywords(node))
    }

    /// Rejects a schema that allows additional properties, which the Gemini API does not support.
    fn check_additional_properties(&self, node: &JsonMap) -> Result<(), ModelError> {
        let additional = node.get("additionalProperties");
        let is_allowed =
            additional.is_some_and(|it| it.as_bool() == Some(true) || it.get("type").is_some());
        if is_allowed && !self.is_vertex {
            let message = "a response schema with additionalProperties is supported by Vertex \
             AI only, not by the Gemini API";
            return Err(ModelError::new(message).with_code("InvalidRequest"));
        }
        Ok(())
    }

    /// Returns the converted definition of `name`, merged with the keywords beside the reference.
    fn resolve_reference(&mut self, name: String, siblings: JsonMap) -> Result<Json, ModelError> {
        if self.resolving.contains(&name) {
            tracing::warn!(
                schema = name,
                "sending a recursive schema without its inner level, because Gemini does not \
                 support recursion"
            );
            return Ok(JsonMap::new().into());
        }
        let Some(definition) = self.defs.get(&name).cloned() else {
            let message =
                format!("the response schema refers to {name:?}, which it does not define");
            return Err(ModelError::new(message).with_code("InvalidRequest"));
        };
        self.resolving.push(name);
        let converted = self.convert(&definition);
        self.resolving.pop();
        let mut converted = converted?;
        if let Some(out) = converted.as_object_mut() {
            let siblings = convert_keywords(siblings);
            for (key, value) in siblings.as_object().into_iter().flatten() {
                if !out.contains_key(key) {
                    out.insert(key, value.clone());
                }
            }
        }
        Ok(converted)
    }

    fn convert_children(&mut self, node: &mut JsonMap) -> Result<(), ModelError> {
        for key in ["anyOf", "prefixItems"] {
            if let Some(schemas) = node.get(key).and_then(Json::as_array).map(<[Json]>::to_vec) {
                let schemas: Result<Vec<Json>, _> =
                    schemas.iter().map(|schema| self.convert(schema)).collect();
                node.insert(key, schemas?);
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(schema @ Json::Object(_)) = node.get(key).cloned() {
                node.insert(key, self.convert(&schema)?);
            }
        }
        if let Some(properties) = node.get("properties").and_then(Json::as_object).cloned() {
            let mut converted = JsonMap::new();
            for (name, schema) in &properties {
                converted.insert(name, self.convert(schema)?);
            }
            if properties.len() > 1 && !node.contains_key("propertyOrdering") {
                let names: Vec<Json> = properties.keys().map(Json::from).collect();
                node.insert("propertyOrdering", names);
            }
            node.insert("properties", converted);
        }
        Ok(())
    }
}

/// Replaces the type `null`, which OpenAPI lacks, with `nullable`.
fn null_to_nullable(node: &mut JsonMap) {
    let is_null = |schema: &Json| schema.get("type").and_then(Json::as_str) == Some("null");
    match node.get("type").cloned() {
        Some(Json::String(kind)) if &*kind == "null" => {
            node.remove("type");
            node.insert("nullable", true);
        }
        Some(Json::Array(kinds)) => {
            let others: Vec<Json> = kinds
                .iter()
                .filter(|kind| **kind != "null")
                .cloned()
                .collect();
            if others.len() < kinds.len() {
                node.insert("nullable", true);
            }
            match others.as_slice() {
                [one] => drop(node.insert("type", one.clone())),
                _ => {
                    node.remove("type");
                    let types = others.into_iter();
                    let types = types.map(|kind| JsonMap::from([("type", kind)]).into());
                    node.insert("anyOf", types.collect::<Vec<Json>>());
                }
            }
        }
        _ => {}
    }
    let Some(choices) = node.get("anyOf").and_then(Json::as_array) else {
        return;
    };
    let others: Vec<Json> = choices.iter().filter(|it| !is_null(it)).cloned().collect();
    if others.len() == choices.len() {
        return;
    }
    node.insert("nullable", true);
    match others.as_slice() {
        [Json::Object(one)] => {
            node.remove("anyOf");
            for (key, value) in one.iter() {
                node.insert(camel_key(key), value.clone());
            }
        }
        _ => drop(node.insert("anyOf", others)),
    }
}

/// Converts a node to Gemini's keywords. Unsupported ones are dropped with a warning.
fn convert_keywords(mut node: JsonMap) -> Json {
    if let Some(one) = node.remove("const") {
        node.insert("enum", vec![one]);
    }
    if let Some(Json::Array(values)) = node.get("enum").cloned() {
        let texts = values.iter().map(|value| match value {
            Json::String(_) => value.clone(),
            value => value.to_string().into(),
        });
        node.insert("enum", texts.collect::<Vec<Json>>());
    }
    if let Some(Json::String(kind)) = node.get("type").cloned() {
        node.insert("type", kind.to_uppercase());
    }
    let is_rust_format =
        |format: &str| format.starts_with("uint") || matches!(format, "int8" | "int16" | "int");
    if node
        .get("format")
        .and_then(Json::as_str)
        .is_some_and(is_rust_format)
    {
        node.remove("format");
    }
    let resolved_keywords = ["$schema", "$id", "$defs", "definitions"];
    node.retain(|key, value| {
        let is_known = KEYWORDS.contains(&key) || key == "prefixItems";
        if !is_known && !resolved_keywords.contains(&key) {
            tracing::warn!(
                keyword = key,
                "omitted a schema keyword that Gemini does not support"
            );
        }
        is_known && !value.is_null()
    });
    node.into()
}
