//! JSON Schema of Rust types, as models like to have it.

use retain_core::Json;
use schemars::{JsonSchema, generate::SchemaSettings};

/// The schema of `T`, everything in place: no references, no titles, no dialect.
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
    schema
}
