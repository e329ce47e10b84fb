//! The models' port: one request in, a stream of answers out.

mod aggregate;
mod named;
mod offline;
mod request;
mod scripted;

use std::{fmt, pin::Pin, sync::Arc};

use futures_core::Stream;
use retain_core::LlmResponse;

pub use aggregate::StreamAggregator;
pub use named::{ModelRegistry, ModelSpec};
pub use offline::OfflineModel;
pub use request::LlmRequest;
pub use scripted::{ScriptedModel, ScriptedReply};

use crate::error::ModelError;

/// Answers as they come. Dropping it cancels the call.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<LlmResponse, ModelError>> + Send>>;

/// A model that can be asked.
///
/// ```
/// use std::sync::Arc;
/// use retain_core::{Content, LlmResponse};
/// use retain_runtime::{LlmRequest, Model, ModelStream};
///
/// /// Says back what it was told last.
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
///         let answer = LlmResponse::of(Content::model(last.unwrap_or_default()));
///         Box::pin(futures_util::stream::iter([Ok(answer)]))
///     }
/// }
/// ```
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// The name under which it is asked, e.g. `gemini-2.5-flash`.
    fn name(&self) -> &str;

    /// Asks. With `stream` the answer comes in pieces marked `partial`, and then whole; without, it
    /// comes whole.
    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream;

    /// What the model can do that others cannot.
    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }
}

/// What a model can do that others cannot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelCapabilities {
    /// It follows an output schema and calls tools in one request.
    pub output_schema_and_tools: bool,
    /// It pairs calls and answers by id, so ids that we made must be sent back to it.
    pub pairs_calls_by_id: bool,
}
