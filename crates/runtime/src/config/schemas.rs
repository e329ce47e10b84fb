//! Schemas that configurations may name without registration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigRegistry;

// Do not write a doc comment: the model would receive it as a description.
#[derive(JsonSchema, Serialize, Deserialize)]
struct LatLng {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

pub(super) fn register(registry: ConfigRegistry) -> ConfigRegistry {
    registry.with_schema::<LatLng>("google.genai.types.LatLng")
}
