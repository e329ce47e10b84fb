//! The model of replayed runs.

use std::sync::Arc;

use futures_util::stream;
use retain_core::Json;

use super::Replay;
use retain_runtime::{LlmRequest, Model, ModelCapabilities, ModelError, ModelStream};

/// The labels in which the plugin stores the run and the agent of a request. The comparison of
/// requests ignores labels.
pub(super) const RUN_LABEL: &str = "retain_replay_run";
pub(super) const AGENT_LABEL: &str = "retain_replay_agent";

/// Answers replayed runs from their recordings and passes other runs to another model.
#[derive(Debug)]
pub(super) struct ReplayModel {
    pub(super) name: String,
    pub(super) replay: Replay,
    pub(super) fallback: Option<Arc<dyn Model>>,
}

impl Model for ReplayModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let label = |name: &str| {
            let labels = request.config.labels.as_ref();
            labels
                .and_then(|labels| labels.get(name))
                .and_then(Json::as_str)
        };
        let (Some(run), Some(agent)) = (label(RUN_LABEL), label(AGENT_LABEL)) else {
            return match &self.fallback {
                Some(model) => model.generate(request, stream),
                None => failed_stream(format!(
                    "model {:?} does not exist; this run is not replayed from a recording",
                    self.name
                )),
            };
        };
        match self.replay.recorded_responses(run, agent, &request) {
            Ok(responses) => Box::pin(stream::iter(responses.into_iter().map(Ok))),
            Err(difference) => failed_stream(difference),
        }
    }

    fn capabilities(&self) -> ModelCapabilities {
        let fallback = self.fallback.as_ref();
        fallback
            .map(|model| model.capabilities())
            .unwrap_or_default()
    }
}

fn failed_stream(error: String) -> ModelStream {
    Box::pin(stream::iter([Err(ModelError::new(error))]))
}
