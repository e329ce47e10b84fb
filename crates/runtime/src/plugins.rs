//! Plugins: hooks around everything a runner does, for all its agents.
//!
//! Plugins are asked in the order in which they were registered and before an agent's own
//! callbacks; the first answer wins and the rest is not asked. A failing plugin fails the run, by
//! name.

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

/// What a hook gives: an answer of its own, or nothing.
pub type Hooked<T> = std::result::Result<Option<T>, BoxError>;

/// Hooks around a run. Each does nothing unless it is written.
#[async_trait]
#[allow(
    unused_variables,
    reason = "the defaults do nothing with what they get"
)]
pub trait Plugin: fmt::Debug + Send + Sync + 'static {
    /// The plugin's name, for errors.
    fn name(&self) -> &str;

    /// When the user's message arrives. An answer replaces it.
    async fn on_user_message(&self, ctx: &ReadMessage<'_>) -> Hooked<Content> {
        Ok(None)
    }

    /// Before the run. An answer ends it.
    async fn before_run(&self, ctx: &InvocationContext) -> Hooked<Content> {
        Ok(None)
    }

    /// Before an event is stored and handed on. An answer replaces it; its id, time and invocation
    /// stay.
    async fn on_event(&self, ctx: &InvocationContext, event: &Event) -> Hooked<Event> {
        Ok(None)
    }

    /// After a run that did not fail.
    async fn after_run(&self, ctx: &InvocationContext) -> Hooked<()> {
        Ok(None)
    }

    /// Before an agent. An answer is given in its place.
    async fn before_agent(&self, ctx: &CallbackContext) -> Hooked<Content> {
        Ok(None)
    }

    /// After an agent. An answer is added.
    async fn after_agent(&self, ctx: &CallbackContext) -> Hooked<Content> {
        Ok(None)
    }

    /// Before the model is asked. An answer is taken instead; the request may be changed.
    async fn before_model(
        &self,
        ctx: &CallbackContext,
        request: &mut LlmRequest,
    ) -> Hooked<LlmResponse> {
        Ok(None)
    }

    /// After the model. An answer replaces the model's.
    async fn after_model(
        &self,
        ctx: &CallbackContext,
        response: &LlmResponse,
    ) -> Hooked<LlmResponse> {
        Ok(None)
    }

    /// When the model failed. An answer is taken instead.
    async fn on_model_error(
        &self,
        ctx: &CallbackContext,
        request: &LlmRequest,
        error: &ModelError,
    ) -> Hooked<LlmResponse> {
        Ok(None)
    }

    /// Before a tool. An answer is taken as its result; the arguments may be changed.
    async fn before_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &mut JsonMap,
    ) -> Hooked<Json> {
        Ok(None)
    }

    /// After a tool. An answer replaces the result.
    async fn after_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &JsonMap,
        result: &Json,
    ) -> Hooked<Json> {
        Ok(None)
    }

    /// When a tool failed. An answer is taken as its result.
    async fn on_tool_error(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &JsonMap,
        error: &ToolError,
    ) -> Hooked<Json> {
        Ok(None)
    }

    /// When an agent failed. Cannot change that.
    async fn on_agent_error(
        &self,
        ctx: &CallbackContext,
        error: &RunError,
    ) -> std::result::Result<(), BoxError> {
        Ok(())
    }

    /// When a run failed. Cannot change that.
    async fn on_run_error(
        &self,
        ctx: &InvocationContext,
        error: &RunError,
    ) -> std::result::Result<(), BoxError> {
        Ok(())
    }

    /// When the runner closes.
    async fn close(&self) {}
}

/// A message that is about to begin a run.
#[derive(Debug)]
pub struct ReadMessage<'a> {
    /// The session, before the message.
    pub session: &'a retain_core::Session,
    /// The run that it goes on with, if it answers a call.
    pub invocation_id: Option<&'a str>,
    /// The id of the run: of the one that it goes on with, or the one that a new run will have.
    pub run_id: &'a str,
    /// The artifacts, if there is a service for them.
    pub artifacts: Option<&'a dyn ArtifactService>,
    /// The message.
    pub message: &'a Content,
    /// What the message's event will tell of.
    pub(crate) saved: Mutex<JsonMap>,
}

impl ReadMessage<'_> {
    /// Lets the message's event tell of a version of an artifact, as the event of a tool does that
    /// has saved one: so the log knows of it, and a rewind takes it back.
    pub fn saved_artifact(&self, filename: &str, version: u64) {
        let saved = self.saved.lock();
        let mut saved = saved.unwrap_or_else(PoisonError::into_inner);
        saved.insert(filename, version);
    }

    pub(crate) fn into_saved(self) -> JsonMap {
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

    /// Tells every plugin; failures are logged and change nothing.
    pub(crate) async fn tell<'a, F>(
        &'a self,
        hook: &'static str,
        call: impl Fn(&'a dyn Plugin) -> F,
    ) where
        F: Future<Output = std::result::Result<(), BoxError>> + Send + 'a,
    {
        for plugin in self.iter() {
            if let Err(error) = guarded(call(plugin.as_ref())).await {
                let plugin = plugin.name();
                tracing::error!(plugin, hook, "a plugin failed");
                tracing::debug!(plugin, hook, error = ?error.to_string(), "a plugin failed");
            }
        }
    }
}

/// Names the plugin in a failure of its hook.
pub(crate) fn named(plugin: &dyn Plugin, hook: &'static str) -> impl FnOnce(BoxError) -> RunError {
    let plugin = plugin.name().to_owned();
    move |source| RunError::Plugin {
        plugin,
        hook,
        source,
    }
}

/// What a hook gives; a panic in it is an error as well.
pub(crate) async fn guarded<T>(
    hook: impl Future<Output = std::result::Result<T, BoxError>>,
) -> std::result::Result<T, BoxError> {
    match AssertUnwindSafe(hook).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => Err(format!("panicked: {}", panic_text(&*panic)).into()),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given")
}

/// Asks the plugins one after the other until one answers.
macro_rules! ask_plugins {
    ($plugins:expr, $hook:ident($($arg:expr),*)) => {{
        let mut answer = None;
        for plugin in $plugins.iter() {
            let hooked = $crate::plugins::guarded(plugin.$hook($($arg),*)).await;
            answer = hooked.map_err($crate::plugins::named(plugin.as_ref(), stringify!($hook)))?;
            if answer.is_some() {
                break;
            }
        }
        answer
    }};
}
pub(crate) use ask_plugins;
