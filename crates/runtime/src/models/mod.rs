//! The model interface: one request in, a stream of responses out.

mod aggregate;
mod named;
mod offline;
mod request;
mod scripted;

use std::{fmt, pin::Pin, sync::Arc};

use futures_core::Stream;
use retain_core::LlmResponse;

pub use aggregate::StreamAggregator;
pub use named::{IntoModel, ModelRegistry, ModelSpec};
pub use offline::OfflineModel;
pub use request::LlmRequest;
pub use scripted::{ScriptedModel, ScriptedReply};

use crate::error::ModelError;

/// A stream of responses. Dropping it cancels the call.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<LlmResponse, ModelError>> + Send>>;

/// A language model.
///
/// ```
/// use std::sync::Arc;
/// use retain_core::{Content, LlmResponse};
/// use retain_runtime::{LlmRequest, Model, ModelStream};
///
/// /// Repeats the last message.
/// #[derive(Debug)]
/// struct Echo;
///
/// impl Model for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     fn generate(&self, request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
///         let last = request.contents.last().map(|content| content.text_concat());
///         let answer = LlmResponse::from_content(Content::model(last.unwrap_or_default()));
///         Box::pin(futures_util::stream::iter([Ok(answer)]))
///     }
/// }
/// ```
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Returns the model's name, e.g. `gemini-2.5-flash`.
    fn name(&self) -> &str;

    /// Sends a request. With `stream`, the response arrives in chunks marked `partial`, followed by
    /// the full response; otherwise only the full response arrives.
    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream;

    /// Returns the optional capabilities of the model.
    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }
}

/// Optional capabilities of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelCapabilities {
    /// Whether the model supports an output schema and tools in the same request.
    pub output_schema_and_tools: bool,
    /// Whether the model matches function responses to calls by ID, so that generated IDs must be
    /// sent back to it.
    pub pairs_calls_by_id: bool,
}

impl ModelCapabilities {
    /// Sets whether an output schema and tools may be in the same request.
    pub fn with_output_schema_and_tools(mut self, supported: bool) -> ModelCapabilities {
        self.output_schema_and_tools = supported;
        self
    }

    /// Sets whether the model matches function responses to calls by ID.
    pub fn with_pairs_calls_by_id(mut self, pairs: bool) -> ModelCapabilities {
        self.pairs_calls_by_id = pairs;
        self
    }
}
