//! Converts schemas to Gemini's format: a subset of OpenAPI, without references.
//!
//! Response schemas are converted as in Google's client library: references are resolved, null
//! becomes `nullable`, properties get an order. Other keywords of Rust's derived schemas are
//! expressed in Gemini's format if possible and dropped otherwise.

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

/// Converts the spelling of a function's parameter or response schema, which has Gemini's format.
pub(super) fn spelled(schema: &Json) -> Json {
    let Json::Object(map) = schema else {
        return schema.clone();
    };
    let mut out = JsonMap::new();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let key = camel_key(key);
        let value = match (key.as_str(), value) {
            ("properties" | "defs", Json::Object(schemas)) => {
                let schemas = schemas.iter().map(|(name, schema)| (name, spelled(schema)));
                schemas.collect::<JsonMap>().into()
            }
            ("items" | "additionalProperties", value) => spelled(value),
            ("anyOf" | "prefixItems", Json::Array(schemas)) => {
                schemas.iter().map(spelled).collect::<Vec<_>>().into()
            }
            ("type", Json::String(kind)) => kind.to_uppercase().into(),
            _ => value.clone(),
        };
        out.insert(key, value);
    }
    out.into()
}

/// Converts the schema of an answer.
pub(super) fn of_answer(schema: &Json, is_vertex: bool) -> Result<Json, ModelError> {
    let defs = schema.get("$defs").or_else(|| schema.get("definitions"));
    let mut walk = SchemaConversion {
        defs: defs.and_then(Json::as_object).cloned().unwrap_or_default(),
        open: Vec::new(),
        is_vertex,
    };
    walk.convert(schema)
}

/// The state of one conversion.
struct SchemaConversion {
    defs: JsonMap,
    /// The references that are being resolved, to detect cycles.
    open: Vec<String>,
    is_vertex: bool,
}

impl SchemaConversion {
    fn convert(&mut self, schema: &Json) -> Result<Json, ModelError> {
        let Some(map) = schema.as_object() else {
            // `true` allows everything.
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
        self.check(&node)?;
        null_to_nullable(&mut node);
        let reference = node.remove("$ref");
        let reference = reference.as_ref().and_then(Json::as_str);
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
            return self.referenced(name.to_owned(), node);
        }
        self.children(&mut node)?;
        Ok(finished(node))
    }

    /// Rejects `additionalProperties`, which the Gemini API does not support.
    fn check(&self, node: &JsonMap) -> Result<(), ModelError> {
        let further = node.get("additionalProperties");
        let is_said =
            further.is_some_and(|it| it.as_bool() == Some(true) || it.get("type").is_some());
        if is_said && !self.is_vertex {
            let message = "a response schema with additionalProperties is supported by Vertex \
             AI only, not by the Gemini API";
            return Err(ModelError::new(message).with_code("InvalidRequest"));
        }
        Ok(())
    }

    /// Resolves a reference; the keywords next to it are kept.
    fn referenced(&mut self, name: String, beside: JsonMap) -> Result<Json, ModelError> {
        if self.open.contains(&name) {
            tracing::warn!(
                schema = name,
                "a recursive schema is sent without its inner level"
            );
            return Ok(JsonMap::new().into());
        }
        let Some(meant) = self.defs.get(&name).cloned() else {
            let message =
                format!("the response schema refers to {name:?}, which it does not define");
            return Err(ModelError::new(message).with_code("InvalidRequest"));
        };
        self.open.push(name);
        let meant = self.convert(&meant);
        self.open.pop();
        let mut meant = meant?;
        if let Some(out) = meant.as_object_mut() {
            let beside = finished(beside);
            for (key, value) in beside.as_object().into_iter().flatten() {
                if !out.contains_key(key) {
                    out.insert(key, value.clone());
                }
            }
        }
        Ok(meant)
    }

    fn children(&mut self, node: &mut JsonMap) -> Result<(), ModelError> {
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

/// Replaces the type `null`, which OpenAPI does not have, by `nullable`.
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
                    let several = others.into_iter();
                    let several = several.map(|kind| JsonMap::from([("type", kind)]).into());
                    node.insert("anyOf", several.collect::<Vec<Json>>());
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
fn finished(mut node: JsonMap) -> Json {
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
    let of_rust =
        |format: &str| format.starts_with("uint") || matches!(format, "int8" | "int16" | "int");
    if node
        .get("format")
        .and_then(Json::as_str)
        .is_some_and(of_rust)
    {
        node.remove("format");
    }
    let said_elsewhere = ["$schema", "$id", "$defs", "definitions"];
    node.retain(|key, value| {
        let is_known = KEYWORDS.contains(&key) || key == "prefixItems";
        if !is_known && !said_elsewhere.contains(&key) {
            tracing::warn!(
                keyword = key,
                "left out a schema keyword that Gemini does not support"
            );
        }
        is_known && !value.is_null()
    });
    node.into()
}
