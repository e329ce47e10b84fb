//! Callbacks of an agent: functions that are asked around the agent, its model and its tools.
//!
//! Each kind is a list. They are asked in order until one answers.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use retain_core::{BoxError, Content, Json, JsonMap, LlmResponse};

use crate::{
    context::{CallbackContext, ToolContext},
    error::{ModelError, RunError, ToolError},
    models::LlmRequest,
};

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Stands around an agent.
pub(crate) type OnAgent = Arc<dyn Fn(CallbackContext) -> Answer<Option<Content>> + Send + Sync>;
pub(crate) type OnRequest =
    Arc<dyn Fn(CallbackContext, LlmRequest) -> Answer<BeforeModel> + Send + Sync>;
pub(crate) type OnResponse =
    Arc<dyn Fn(CallbackContext, LlmResponse) -> Answer<Option<LlmResponse>> + Send + Sync>;
type OnModelError = Arc<
    dyn Fn(CallbackContext, Arc<LlmRequest>, Arc<ModelError>) -> Answer<Option<LlmResponse>>
        + Send
        + Sync,
>;
pub(crate) type OnCall = Arc<dyn Fn(ToolContext, ToolCall) -> Answer<BeforeTool> + Send + Sync>;
pub(crate) type OnResult =
    Arc<dyn Fn(ToolContext, FinishedCall) -> Answer<Option<Json>> + Send + Sync>;
type OnToolError =
    Arc<dyn Fn(ToolContext, ToolCall, Arc<ToolError>) -> Answer<Option<Json>> + Send + Sync>;

/// What a callback before the model decides.
#[derive(Debug)]
pub enum BeforeModel {
    /// Ask the model with this request, changed or not.
    Ask(Box<LlmRequest>),
    /// Take this answer and do not ask.
    Answer(Box<LlmResponse>),
}

impl From<LlmRequest> for BeforeModel {
    fn from(request: LlmRequest) -> BeforeModel {
        BeforeModel::Ask(Box::new(request))
    }
}

impl From<LlmResponse> for BeforeModel {
    fn from(response: LlmResponse) -> BeforeModel {
        BeforeModel::Answer(Box::new(response))
    }
}

/// A call that the model wants.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: JsonMap,
}

/// What a callback before a tool decides.
#[derive(Debug)]
pub enum BeforeTool {
    /// Call it with these arguments, changed or not.
    Call(JsonMap),
    /// Take this result and do not call it.
    Answer(Json),
}

/// A call that was made, and what it gave.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: JsonMap,
    /// The result.
    pub result: Json,
}

/// What is called before and after an agent.
#[derive(Clone, Default)]
pub struct AgentCallbacks {
    pub(crate) before: Vec<OnAgent>,
    pub(crate) after: Vec<OnAgent>,
}

impl AgentCallbacks {
    /// Adds a callback before the agent. An answer is given in its place.
    pub fn before<F, R>(mut self, callback: F) -> AgentCallbacks
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.before
            .push(Arc::new(move |ctx| Box::pin(callback(ctx))));
        self
    }

    /// Adds a callback after the agent. An answer is added to what it said.
    pub fn after<F, R>(mut self, callback: F) -> AgentCallbacks
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.after
            .push(Arc::new(move |ctx| Box::pin(callback(ctx))));
        self
    }
}

impl fmt::Debug for AgentCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentCallbacks")
            .field("before", &self.before.len())
            .field("after", &self.after.len())
            .finish()
    }
}

/// What is called around the model.
#[derive(Clone, Default)]
pub(crate) struct ModelCallbacks {
    pub(crate) before: Vec<OnRequest>,
    pub(crate) after: Vec<OnResponse>,
    pub(crate) on_error: Vec<OnModelError>,
}

/// What is called around tools.
#[derive(Clone, Default)]
pub(crate) struct ToolCallbacks {
    pub(crate) before: Vec<OnCall>,
    pub(crate) after: Vec<OnResult>,
    pub(crate) on_error: Vec<OnToolError>,
}

/// Names the callback in its failure.
pub(crate) fn callback_failed(
    agent: &str,
    callback: &'static str,
) -> impl FnOnce(BoxError) -> RunError {
    let agent = agent.to_owned();
    move |source| RunError::Callback {
        agent,
        callback,
        source,
    }
}
