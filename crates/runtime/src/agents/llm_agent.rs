//! `LlmAgent`: an agent that calls a model and tools and emits the results.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{Content, Event, GenerateContentConfig, Json};

use super::{
    Agent, AgentCallbacks, Instruction, LlmAgentBuilder, ModelCallbacks, OutputRecorder,
    OutputSchema, Planner, ToolCallbacks, output,
};
use crate::{
    context::InvocationContext,
    error::{Result, RunError},
    flow,
    models::Model,
    tools::ToolSource,
};

pub use crate::contents::IncludeContents;

/// An agent that calls a model.
///
/// ```
/// use retain_runtime::{LlmAgent, ScriptedModel};
/// let agent = LlmAgent::builder("greeter")
///     .model(ScriptedModel::new("scripted").reply("Hello!"))
///     .description("Greets people.")
///     .instruction("Greet {user:name?} warmly.")
///     .output_key("last_greeting")
///     .build()
///     .unwrap();
/// ```
pub struct LlmAgent {
    pub(super) name: String,
    pub(super) description: String,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(super) sub_agents: Vec<Arc<dyn Agent>>,
    pub(crate) disallow_transfer_to_parent: bool,
    pub(crate) disallow_transfer_to_peers: bool,
    pub(crate) instruction: Instruction,
    pub(crate) global_instruction: Instruction,
    pub(crate) static_instruction: Option<Content>,
    pub(crate) tools: Vec<ToolSource>,
    pub(crate) include_contents: IncludeContents,
    pub(crate) input_schema: Option<Json>,
    pub(crate) output_schema: Option<OutputSchema>,
    pub(crate) output_key: Option<String>,
    pub(crate) generate_content_config: Option<GenerateContentConfig>,
    pub(crate) planner: Option<Arc<dyn Planner>>,
    pub(super) agent_callbacks: AgentCallbacks,
    pub(crate) model_callbacks: ModelCallbacks,
    pub(crate) tool_callbacks: ToolCallbacks,
}

impl LlmAgent {
    /// Creates a builder for an agent with this name.
    pub fn builder(name: impl Into<String>) -> LlmAgentBuilder {
        LlmAgentBuilder::new(name)
    }

    /// Returns the agent's own model. Without one, the agent uses the model of its nearest
    /// ancestor.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.model.as_ref()
    }

    /// Returns the model for this run: the agent's own model, or that of its nearest ancestor.
    pub(crate) fn resolve_model(&self, ctx: &InvocationContext) -> Result<Arc<dyn Model>> {
        let above = ctx.shared.tree.ancestors(&self.name);
        let mut above = above.filter_map(|agent| agent.as_llm_agent()?.model.as_ref());
        let model = self.model.as_ref().or_else(|| above.next());
        model.cloned().ok_or_else(|| RunError::Agent {
            agent: self.name.clone(),
            source: "has no model, and none of its parent agents has one; set one with `model`"
                .into(),
        })
    }

    /// Returns the agent's instruction.
    pub fn instruction(&self) -> &Instruction {
        &self.instruction
    }

    /// Returns the agent's tools and toolsets, in the order in which they were added.
    pub fn tools(&self) -> &[ToolSource] {
        &self.tools
    }

    /// Returns the schema of the input that other agents pass to this one.
    pub fn input_schema(&self) -> Option<&Json> {
        self.input_schema.as_ref()
    }

    /// Adds the output to the state delta of an event, under the agent's output key.
    pub(crate) fn store_output(
        &self,
        output: &mut OutputRecorder,
        event: &mut Event,
    ) -> Result<()> {
        let Some(key) = &self.output_key else {
            return Ok(());
        };
        let stamped = output.stamp(key, self.output_schema.as_ref(), event);
        stamped.map_err(|source| self.output_failed(source))
    }

    fn output_failed(&self, source: retain_core::BoxError) -> RunError {
        RunError::Output {
            agent: self.name.clone(),
            source,
        }
    }

    /// Whether `after_agent` callbacks may add an event after the agent's answer.
    pub(crate) fn has_after_callbacks(&self) -> bool {
        !self.agent_callbacks.after.is_empty()
    }
}

impl fmt::Debug for LlmAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmAgent")
            .field("name", &self.name)
            .field("model", &self.model.as_ref().map(|model| model.name()))
            .field("instruction", &self.instruction)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Agent for LlmAgent {
    fn kind(&self) -> &'static str {
        "LlmAgent"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &self.sub_agents
    }

    fn callbacks(&self) -> Option<&AgentCallbacks> {
        let callbacks = &self.agent_callbacks;
        let any = !callbacks.before.is_empty() || !callbacks.after.is_empty();
        any.then_some(callbacks)
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        match ctx.is_resumable() {
            true => flow::run_resumably(self, ctx).await,
            false => flow::run(self, ctx).await,
        }
    }

    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        Some(self)
    }

    fn records_its_end(&self) -> bool {
        true
    }

    fn stamp_output(&self, event: &mut Event) -> Result<()> {
        let Some(key) = &self.output_key else {
            return Ok(());
        };
        let stamped = output::stamp_final(key, self.output_schema.as_ref(), event);
        stamped.map_err(|source| self.output_failed(source))
    }
}
