//! `OfflineModel`: the offline model as a [`Model`].

use std::sync::Arc;

use futures_util::stream;
use retain_core::Content;

use super::{LlmRequest, Model, ModelCapabilities, ModelStream};

/// A model that needs no network: it acknowledges statements and answers questions by quoting a
/// sentence that it was told.
///
/// It searches recalled memories, the results of `load_memory` and the conversation. If it finds no
/// answer and `load_memory` is available, it calls that tool.
///
/// An answer is a quotation, with date and session if known, or says that the model knows nothing;
/// it is never invented. The same request always gets the same answer.
///
/// ```
/// use std::sync::Arc;
/// use retain_runtime::{LlmAgent, OfflineModel, Runner};
/// # use retain_stores::InMemorySessionService;
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sessions = Arc::new(InMemorySessionService::new());
/// let agent = LlmAgent::builder("assistant").model(OfflineModel::new()).build()?;
/// let runner = Runner::builder().app_name("app").agent(agent).session_service(sessions);
/// let runner = runner.auto_create_session(true).build()?;
///
/// runner.run("ada", Some("s1"), "I live in Oslo.").await?.answer().await?;
/// let answer = runner.run("ada", Some("s1"), "Where do I live?").await?.answer().await?;
/// assert!(answer.starts_with(r#"You told me earlier in this conversation: "I live in Oslo.""#));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

impl OfflineModel {
    /// Creates the model, which has no settings.
    pub fn new() -> OfflineModel {
        OfflineModel
    }
}

impl Model for OfflineModel {
    fn name(&self) -> &str {
        "offline"
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities {
            output_schema_and_tools: true,
            pairs_calls_by_id: false,
        }
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let contents: Vec<&Content> = request.contents.iter().map(|content| &**content).collect();
        let responses = retain_offline::respond(&contents, &request.config, stream);
        Box::pin(stream::iter(responses.into_iter().map(Ok)))
    }
}
