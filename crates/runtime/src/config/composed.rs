//! Agents that contain other agents: sub-agents, workflow agents and agents as tools.

use std::sync::Arc;

use retain_core::adk::table;

use super::{
    error::ConfigError,
    llm_agent::callbacks,
    loader::{Loader, WorkflowClass},
    value::{ConfigValue, Fields},
};
use crate::{
    agents::{
        Agent, AgentCallbacks, AgentTree, IntoAgent, LlmAgentBuilder, LoopAgent, ParallelAgent,
        SequentialAgent,
    },
    tools::{AgentTool, ToolSource},
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Adds the sub-agents and the transfer settings of an `LlmAgent`.
pub(super) fn with_sub_agents(
    mut agent: LlmAgentBuilder,
    loader: &mut Loader<'_>,
    fields: &Fields<'_>,
) -> Result<LlmAgentBuilder> {
    if let Some(disallow) = fields.bool("disallow_transfer_to_parent")? {
        agent = agent.disallow_transfer_to_parent(disallow);
    }
    if let Some(disallow) = fields.bool("disallow_transfer_to_peers")? {
        agent = agent.disallow_transfer_to_peers(disallow);
    }
    for below in sub_agents(loader, fields)? {
        agent = agent.sub_agent(below);
    }
    Ok(agent)
}

fn sub_agents(loader: &mut Loader<'_>, fields: &Fields<'_>) -> Result<Vec<Arc<dyn Agent>>> {
    let places = fields.list("sub_agents")?;
    places
        .iter()
        .map(|place| loader.resolve_reference(place))
        .collect()
}

/// The fields that all workflow and custom agents have.
pub(super) struct CommonFields {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) sub_agents: Vec<Arc<dyn Agent>>,
    pub(super) callbacks: AgentCallbacks,
}

/// Reads the common fields and ignores all others.
pub(super) fn read_common_fields(
    loader: &mut Loader<'_>,
    fields: &Fields<'_>,
) -> Result<CommonFields> {
    Ok(CommonFields {
        name: fields.required("name")?.text()?.to_owned(),
        description: fields.text("description")?.unwrap_or_default().to_owned(),
        callbacks: agent_callbacks(loader, fields)?,
        sub_agents: sub_agents(loader, fields)?,
    })
}

/// Whether agents of every class have this key.
pub(super) fn is_common_key(key: &str) -> bool {
    table::SEQUENTIAL_AGENT_CONFIG.field(key).is_some()
}

/// Builds a workflow agent.
pub(super) fn build(
    loader: &mut Loader<'_>,
    class: WorkflowClass,
    place: &ConfigValue<'_>,
) -> Result<Arc<dyn Agent>> {
    let fields = match class {
        WorkflowClass::Sequential => {
            place.fields("a SequentialAgent", &table::SEQUENTIAL_AGENT_CONFIG)?
        }
        WorkflowClass::Parallel => {
            place.fields("a ParallelAgent", &table::PARALLEL_AGENT_CONFIG)?
        }
        WorkflowClass::Loop => place.fields("a LoopAgent", &table::LOOP_AGENT_CONFIG)?,
    };
    let rounds = fields
        .get("max_iterations")
        .map(ConfigValue::count)
        .transpose()?;
    let CommonFields {
        name,
        description,
        sub_agents,
        callbacks,
    } = read_common_fields(loader, &fields)?;
    // The builders share methods but no trait.
    macro_rules! built {
        ($builder:expr) => {{
            let builder = $builder.description(description).callbacks(callbacks);
            let builder = sub_agents
                .into_iter()
                .fold(builder, |it, agent| it.sub_agent(agent));
            builder.build().map(IntoAgent::into_agent)
        }};
    }
    let built = match (class, rounds) {
        (WorkflowClass::Sequential, _) => built!(SequentialAgent::builder(name)),
        (WorkflowClass::Parallel, _) => built!(ParallelAgent::builder(name)),
        (WorkflowClass::Loop, None) => built!(LoopAgent::builder(name)),
        (WorkflowClass::Loop, Some(rounds)) => {
            built!(LoopAgent::builder(name).max_iterations(rounds))
        }
    };
    built.map_err(|error| place.error(error.to_string()))
}

fn agent_callbacks(loader: &Loader<'_>, fields: &Fields<'_>) -> Result<AgentCallbacks> {
    let known = &loader.registry.agent_callbacks;
    let mut both = AgentCallbacks::default();
    for callback in callbacks(fields, "before_agent_callbacks", known)? {
        both = both.with_before(move |ctx| callback(ctx));
    }
    for callback in callbacks(fields, "after_agent_callbacks", known)? {
        both = both.with_after(move |ctx| callback(ctx));
    }
    Ok(both)
}

/// Builds an `AgentTool`.
pub(super) fn agent_tool(loader: &mut Loader<'_>, args: &ConfigValue<'_>) -> Result<ToolSource> {
    let fields = args.fields("the arguments of AgentTool", &table::AGENT_TOOL_CONFIG)?;
    let place = fields.required("agent")?;
    let agent = loader.resolve_reference(place)?;
    // An agent tool runs its agent in a separate run, so check that agent's tree separately.
    let tree = AgentTree::new(Arc::clone(&agent));
    tree.map_err(|error| place.error(error.to_string()))?;
    let tool = AgentTool::new(agent)
        .with_skip_summarization(fields.bool("skip_summarization")?.unwrap_or(false))
        .with_plugins(fields.bool("include_plugins")?.unwrap_or(true));
    Ok(tool.into())
}
