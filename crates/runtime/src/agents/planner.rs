//! Planners, which make an agent plan before it acts.

use std::fmt;

use async_trait::async_trait;
use retain_core::{Json, Part};

use crate::{
    context::{CallbackContext, ReadonlyContext},
    models::LlmRequest,
};

/// Makes an agent plan: instructs the model and interprets its answers.
#[async_trait]
pub trait Planner: fmt::Debug + Send + Sync + 'static {
    /// Changes the request. By default it appends the [`instruction`](Self::instruction) and sends
    /// thoughts in the history as plain text, so that the model sees its plan.
    async fn apply(&self, ctx: &ReadonlyContext, request: &mut LlmRequest) {
        if let Some(instruction) = self.instruction(ctx, request) {
            request.append_instruction(&instruction);
        }
        for content in &mut request.contents {
            if content.parts().iter().any(|part| part.thought.is_some()) {
                let parts = content.make_mut().parts.iter_mut().flatten();
                parts.for_each(|part| part.thought = None);
            }
        }
    }

    /// Returns the planning instruction for the model.
    fn instruction(&self, ctx: &ReadonlyContext, request: &LlmRequest) -> Option<String>;

    /// Rewrites the parts of a model response; `None` leaves them unchanged.
    fn process_response(&self, _ctx: &CallbackContext, _parts: &[Part]) -> Option<Vec<Part>> {
        None
    }
}

/// Plans with the model's built-in thinking.
#[derive(Debug, Clone)]
pub struct BuiltInPlanner {
    thinking_config: Json,
}

impl BuiltInPlanner {
    /// Creates a planner with the provider's thinking configuration.
    pub fn new(thinking_config: impl Into<Json>) -> BuiltInPlanner {
        BuiltInPlanner {
            thinking_config: thinking_config.into(),
        }
    }
}

#[async_trait]
impl Planner for BuiltInPlanner {
    async fn apply(&self, _ctx: &ReadonlyContext, request: &mut LlmRequest) {
        request.config.thinking_config = Some(self.thinking_config.clone());
    }

    fn instruction(&self, _ctx: &ReadonlyContext, _request: &LlmRequest) -> Option<String> {
        None
    }
}
