//! Schemas that configurations may name without registering them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigRegistry;

// No doc comment: it would be sent to the model as a description.
#[derive(JsonSchema, Serialize, Deserialize)]
struct LatLng {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

pub(super) fn register(registry: ConfigRegistry) -> ConfigRegistry {
    registry.with_schema::<LatLng>("google.genai.types.LatLng")
}
