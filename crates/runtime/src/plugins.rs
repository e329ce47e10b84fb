//! Plugins: hooks around everything a runner does, for all its agents.
//!
//! The runner calls plugins in the order of their registration, before an agent's own callbacks.
//! The first answer wins, and the remaining plugins are skipped. A failing plugin fails the run
//! with an error that names it, except in `on_agent_error` and `on_run_error`, where the failure is
//! logged.

mod save_files;

use std::{
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use retain_core::{ArtifactService, BoxError, Content, Event, Json, JsonMap, LlmResponse};
pub use save_files::SaveFilesAsArtifactsPlugin;

use crate::{
    context::{CallbackContext, InvocationContext, ToolContext},
    error::{ModelError, RunError, ToolError},
    models::LlmRequest,
    tools::Tool,
};

/// The result of a hook: its answer, or `None` to continue without one.
pub type HookResult<T> = std::result::Result<Option<T>, BoxError>;

/// Hooks around a run. By default each hook does nothing.
#[async_trait]
#[allow(
    unused_variables,
    reason = "the defaults do nothing with what they get"
)]
pub trait Plugin: fmt::Debug + Send + Sync + 'static {
    /// Returns the plugin's name, for errors.
    fn name(&self) -> &str;

    /// Called when the user's message arrives. An answer replaces it.
    async fn on_user_message(&self, ctx: &ReadMessage<'_>) -> HookResult<Content> {
        Ok(None)
    }

    /// Called before the run. If the hook answers, the runner emits the answer and runs no agent.
    async fn before_run(&self, ctx: &InvocationContext) -> HookResult<Content> {
        Ok(None)
    }

    /// Called before an event is stored and sent. An answer replaces the event, except for its id,
    /// timestamp and run id.
    async fn on_event(&self, ctx: &InvocationContext, event: &Event) -> HookResult<Event> {
        Ok(None)
    }

    /// Called after a run that did not fail.
    async fn after_run(&self, ctx: &InvocationContext) -> HookResult<()> {
        Ok(None)
    }

    /// Called before an agent. If the hook answers, the agent does not run.
    async fn before_agent(&self, ctx: &CallbackContext) -> HookResult<Content> {
        Ok(None)
    }

    /// Called after an agent. If the hook answers, the agent emits the answer as another event.
    async fn after_agent(&self, ctx: &CallbackContext) -> HookResult<Content> {
        Ok(None)
    }

    /// Called before the model. The hook may change the request. If it answers, the model is not
    /// called.
    async fn before_model(
        &self,
        ctx: &CallbackContext,
        request: &mut LlmRequest,
    ) -> HookResult<LlmResponse> {
        Ok(None)
    }

    /// Called after the model. An answer replaces the model's response.
    async fn after_model(
        &self,
        ctx: &CallbackContext,
        response: &LlmResponse,
    ) -> HookResult<LlmResponse> {
        Ok(None)
    }

    /// Called when the model failed. An answer replaces the error.
    async fn on_model_error(
        &self,
        ctx: &CallbackContext,
        request: &LlmRequest,
        error: &ModelError,
    ) -> HookResult<LlmResponse> {
        Ok(None)
    }

    /// Called before a tool. The hook may change the arguments. If it answers, the tool does not
    /// run.
    async fn before_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &mut JsonMap,
    ) -> HookResult<Json> {
        Ok(None)
    }

    /// Called after a tool. An answer replaces the result.
    async fn after_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &JsonMap,
        result: &Json,
    ) -> HookResult<Json> {
        Ok(None)
    }

    /// Called when a tool failed. An answer replaces the error.
    async fn on_tool_error(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &JsonMap,
        error: &ToolError,
    ) -> HookResult<Json> {
        Ok(None)
    }

    /// Called when an agent failed. The hook cannot replace the error.
    async fn on_agent_error(
        &self,
        ctx: &CallbackContext,
        error: &RunError,
    ) -> std::result::Result<(), BoxError> {
        Ok(())
    }

    /// Called when a run failed. The hook cannot replace the error.
    async fn on_run_error(
        &self,
        ctx: &InvocationContext,
        error: &RunError,
    ) -> std::result::Result<(), BoxError> {
        Ok(())
    }

    /// Called when the runner closes.
    async fn close(&self) {}
}

/// A message that will begin or continue a run.
#[derive(Debug)]
pub struct ReadMessage<'a> {
    /// The session as it is before the message.
    pub session: &'a retain_core::Session,
    /// The run that the message continues, if it answers a call.
    pub invocation_id: Option<&'a str>,
    /// The id of the run that the message continues, or of the new run.
    pub run_id: &'a str,
    /// The artifact service, if there is one.
    pub artifacts: Option<&'a dyn ArtifactService>,
    /// The message.
    pub message: &'a Content,
    /// The artifact versions that the message's event will record.
    pub(crate) saved: Mutex<JsonMap>,
}

impl ReadMessage<'_> {
    /// Records an artifact version in the message's event, as a tool's event does, so that a rewind
    /// can undo it.
    pub fn saved_artifact(&self, filename: &str, version: u64) {
        let saved = self.saved.lock();
        let mut saved = saved.unwrap_or_else(PoisonError::into_inner);
        saved.insert(filename, version);
    }

    pub(crate) fn into_artifact_delta(self) -> JsonMap {
        let saved = self.saved.into_inner();
        saved.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The plugins of a runner.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plugins(Arc<[Arc<dyn Plugin>]>);

impl Plugins {
    pub(crate) fn new(plugins: Vec<Arc<dyn Plugin>>) -> Plugins {
        Plugins(plugins.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Plugin>> {
        self.0.iter()
    }

    /// Calls a hook of every plugin. Failures are logged and have no other effect.
    pub(crate) async fn notify<'a, F>(
        &'a self,
        hook: &'static str,
        call: impl Fn(&'a dyn Plugin) -> F,
    ) where
        F: Future<Output = std::result::Result<(), BoxError>> + Send + 'a,
    {
        for plugin in self.iter() {
            if let Err(error) = catch_panic(call(plugin.as_ref())).await {
                let plugin = plugin.name();
                tracing::error!(plugin, hook, "a plugin failed");
                tracing::debug!(plugin, hook, error = ?error.to_string(), "a plugin failed");
            }
        }
    }
}

/// Adds the names of the plugin and the hook to a failure.
pub(crate) fn plugin_error(
    plugin: &dyn Plugin,
    hook: &'static str,
) -> impl FnOnce(BoxError) -> RunError {
    let plugin = plugin.name().to_owned();
    move |source| RunError::Plugin {
        plugin,
        hook,
        source,
    }
}

/// Returns the result of a hook. Converts a panic to an error.
pub(crate) async fn catch_panic<T>(
    hook: impl Future<Output = std::result::Result<T, BoxError>>,
) -> std::result::Result<T, BoxError> {
    match AssertUnwindSafe(hook).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => Err(format!("panicked: {}", panic_text(&*panic)).into()),
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given")
}

/// Calls the plugins one after the other until one answers.
macro_rules! ask_plugins {
    ($plugins:expr, $hook:ident($($arg:expr),*)) => {{
        let mut answer = None;
        for plugin in $plugins.iter() {
            let hooked = $crate::plugins::catch_panic(plugin.$hook($($arg),*)).await;
            answer = hooked.map_err($crate::plugins::plugin_error(plugin.as_ref(), stringify!($hook)))?;
            if answer.is_some() {
                break;
            }
        }
        answer
    }};
}
pub(crate) use ask_plugins;
