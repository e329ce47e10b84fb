//! Agent callbacks: functions that run around the agent, its model and its tools.
//!
//! For each kind, an agent has a list of callbacks, which run in order until one returns a value.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use retain_core::{BoxError, Content, Json, JsonMap, LlmResponse};

use crate::{
    context::{CallbackContext, ToolContext},
    error::{ModelError, RunError, ToolError},
    models::LlmRequest,
};

type CallbackFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// A callback before or after an agent.
pub(crate) type AgentCallback =
    Arc<dyn Fn(CallbackContext) -> CallbackFuture<Option<Content>> + Send + Sync>;
pub(crate) type BeforeModelCallback =
    Arc<dyn Fn(CallbackContext, LlmRequest) -> CallbackFuture<BeforeModel> + Send + Sync>;
pub(crate) type AfterModelCallback =
    Arc<dyn Fn(CallbackContext, LlmResponse) -> CallbackFuture<Option<LlmResponse>> + Send + Sync>;
type ModelErrorCallback = Arc<
    dyn Fn(CallbackContext, Arc<LlmRequest>, Arc<ModelError>) -> CallbackFuture<Option<LlmResponse>>
        + Send
        + Sync,
>;
pub(crate) type BeforeToolCallback =
    Arc<dyn Fn(ToolContext, ToolCall) -> CallbackFuture<BeforeTool> + Send + Sync>;
pub(crate) type AfterToolCallback =
    Arc<dyn Fn(ToolContext, FinishedCall) -> CallbackFuture<Option<Json>> + Send + Sync>;
type ToolErrorCallback = Arc<
    dyn Fn(ToolContext, ToolCall, Arc<ToolError>) -> CallbackFuture<Option<Json>> + Send + Sync,
>;

/// The decision of a callback before a model call.
#[derive(Debug)]
pub enum BeforeModel {
    /// Call the model with this request, changed or not.
    Ask(Box<LlmRequest>),
    /// Use this response and do not call the model.
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

/// A tool call that the model requests.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: JsonMap,
}

/// The decision of a callback before a tool call.
#[derive(Debug)]
pub enum BeforeTool {
    /// Call the tool with these arguments, changed or not.
    Call(JsonMap),
    /// Use this result and do not call the tool.
    Answer(Json),
}

/// A finished tool call and its result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FinishedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: JsonMap,
    /// The result.
    pub result: Json,
}

/// Callbacks that run before and after an agent.
#[derive(Clone, Default)]
pub struct AgentCallbacks {
    pub(crate) before: Vec<AgentCallback>,
    pub(crate) after: Vec<AgentCallback>,
}

impl AgentCallbacks {
    /// Adds a callback that runs before the agent. If it returns content, the agent is skipped and
    /// that content is its answer.
    pub fn with_before<F, R>(mut self, callback: F) -> AgentCallbacks
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.before
            .push(Arc::new(move |ctx| Box::pin(callback(ctx))));
        self
    }

    /// Adds a callback that runs after the agent. If it returns content, the agent emits that
    /// content as another event.
    pub fn with_after<F, R>(mut self, callback: F) -> AgentCallbacks
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

/// Callbacks around model calls.
#[derive(Clone, Default)]
pub(crate) struct ModelCallbacks {
    pub(crate) before: Vec<BeforeModelCallback>,
    pub(crate) after: Vec<AfterModelCallback>,
    pub(crate) on_error: Vec<ModelErrorCallback>,
}

/// Callbacks around tool calls.
#[derive(Clone, Default)]
pub(crate) struct ToolCallbacks {
    pub(crate) before: Vec<BeforeToolCallback>,
    pub(crate) after: Vec<AfterToolCallback>,
    pub(crate) on_error: Vec<ToolErrorCallback>,
}

/// Adds the names of the agent and the callback to a callback's error.
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
