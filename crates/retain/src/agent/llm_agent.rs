//! An `LlmAgent` whose builder also accepts model names. API keys come from the environment.

use std::{fmt, ops::Deref, sync::Arc};

use async_trait::async_trait;
use retain_runtime::{Agent, AgentCallbacks, InvocationContext, ModelRegistry, RunError};

use crate::session::Event;

/// An agent that calls a model.
///
/// The builder's `model` takes a model, an `Arc` of one, or a name. The name `offline` is always
/// known; with the feature `models`, so are `gemini-…`, `claude-…`, `gpt-…`, `ollama/…` and more,
/// with API keys from the environment.
///
/// ```
/// use retain::{LlmAgent, ScriptedModel};
/// let agent = LlmAgent::builder("greeter")
///     .model(ScriptedModel::new("scripted").reply("Hello!"))
///     .description("Greets people.")
///     .instruction("Greet {user:name?} warmly.")
///     .output_key("last_greeting")
///     .build()?;
/// # Ok::<(), retain::agent::BuildError>(())
/// ```
pub struct LlmAgent(retain_runtime::LlmAgent);

/// Builds an [`LlmAgent`].
pub type LlmAgentBuilder<A = LlmAgent> = retain_runtime::LlmAgentBuilder<A>;

impl LlmAgent {
    /// Creates a builder for an agent with this name.
    pub fn builder(name: impl Into<String>) -> LlmAgentBuilder {
        LlmAgentBuilder::new(name).models(known_models())
    }
}

#[cfg(feature = "models")]
fn known_models() -> ModelRegistry {
    retain_models::Models::env_registry()
}

#[cfg(not(feature = "models"))]
fn known_models() -> ModelRegistry {
    ModelRegistry::default()
}

impl From<retain_runtime::LlmAgent> for LlmAgent {
    fn from(agent: retain_runtime::LlmAgent) -> LlmAgent {
        LlmAgent(agent)
    }
}

impl Deref for LlmAgent {
    type Target = retain_runtime::LlmAgent;

    fn deref(&self) -> &retain_runtime::LlmAgent {
        &self.0
    }
}

impl fmt::Debug for LlmAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl Agent for LlmAgent {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        self.0.sub_agents()
    }

    fn callbacks(&self) -> Option<&AgentCallbacks> {
        self.0.callbacks()
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        self.0.run(ctx).await
    }

    fn as_llm_agent(&self) -> Option<&retain_runtime::LlmAgent> {
        self.0.as_llm_agent()
    }

    fn records_its_end(&self) -> bool {
        self.0.records_its_end()
    }

    fn stamp_output(&self, event: &mut Event) -> Result<(), RunError> {
        self.0.stamp_output(event)
    }
}
