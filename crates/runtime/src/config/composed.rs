//! Agents that are made of agents: sub-agents, agents in sequence, in a loop and side by side, and
//! agents as tools.

use std::sync::Arc;

use super::{
    error::ConfigError,
    loader::{AgentClass, Loader},
    place::{Fields, Place},
};
use crate::{
    agents::{Agent, LlmAgentBuilder},
    tools::ToolSource,
};

type Result<T> = std::result::Result<T, ConfigError>;

const NOT_YET: &str = "agents made of agents are not supported yet";

/// Adds the agents below an `LlmAgent`, and where it may hand over to.
pub(super) fn with_sub_agents(
    agent: LlmAgentBuilder,
    loader: &mut Loader<'_>,
    fields: &Fields<'_>,
) -> Result<LlmAgentBuilder> {
    fields.bool("disallow_transfer_to_parent")?;
    fields.bool("disallow_transfer_to_peers")?;
    for place in fields.list("sub_agents")? {
        loader.reference(&place)?;
        return Err(place.error(NOT_YET));
    }
    Ok(agent)
}

/// An agent that only runs others.
pub(super) fn build(
    loader: &mut Loader<'_>,
    class: AgentClass,
    place: &Place<'_>,
) -> Result<Arc<dyn Agent>> {
    let keys = [
        "agent_class",
        "name",
        "description",
        "sub_agents",
        "before_agent_callbacks",
        "after_agent_callbacks",
        "max_iterations",
    ];
    let fields = match class {
        AgentClass::Loop => place.fields("a LoopAgent", &keys)?,
        AgentClass::Parallel => place.fields("a ParallelAgent", &keys[..6])?,
        _ => place.fields("a SequentialAgent", &keys[..6])?,
    };
    fields.required("name")?.text()?;
    fields.get("max_iterations").map(Place::count).transpose()?;
    for place in fields.list("sub_agents")? {
        loader.reference(&place)?;
    }
    Err(place.error(NOT_YET))
}

/// An agent as a tool.
pub(super) fn agent_tool(loader: &mut Loader<'_>, args: &Place<'_>) -> Result<ToolSource> {
    let known = ["agent", "skip_summarization", "include_plugins"];
    let fields = args.fields("the arguments of AgentTool", &known)?;
    fields.bool("skip_summarization")?;
    loader.reference(fields.required("agent")?)?;
    Err(args.error(NOT_YET))
}
