//! `OfflineModel`.

use std::sync::Arc;

use retain_core::{Content, LlmResponse};

use super::{LlmRequest, Model, ModelStream};

/// Offline.
#[derive(Debug, Default)]
pub struct OfflineModel {}

impl OfflineModel {
    /// New.
    pub fn new() -> OfflineModel {
        OfflineModel {}
    }
}

impl Model for OfflineModel {
    fn name(&self) -> &str {
        "offline"
    }

    fn generate(&self, _request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        let answer = LlmResponse::of(Content::model("offline"));
        Box::pin(futures_util::stream::iter([Ok(answer)]))
    }
}
