//! Closes toolsets with their runner, so that they release resources such as child processes.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    agents::Agent,
    error::ToolError,
    tools::{ToolSource, Toolset, run_limited},
};

/// The time limit for closing a toolset, as in ADK.
const CLOSE_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Closes the toolsets of an agent, of its descendants and of the agents among its tools, all
/// concurrently. A toolset that hangs or panics does not block the others.
pub(super) async fn close(agent: &Arc<dyn Agent>) {
    let mut toolsets = TreeToolsets::default();
    toolsets.collect(agent);
    let closing = toolsets.sets.iter().map(|set| async move {
        let closing = async {
            set.close().await;
            Ok::<(), ToolError>(())
        };
        if run_limited(CLOSE_TIME_LIMIT, closing).await.is_err() {
            tracing::warn!(toolset = set.name(), "failed to close a toolset");
        }
    });
    join_all(closing).await;
}

/// The toolsets and agents of a tree, each once, because agents may share a toolset or an agent
/// tool.
#[derive(Default)]
struct TreeToolsets {
    sets: Vec<Arc<dyn Toolset>>,
    agents: Vec<Arc<dyn Agent>>,
}

impl TreeToolsets {
    fn collect(&mut self, agent: &Arc<dyn Agent>) {
        if self.agents.iter().any(|known| Arc::ptr_eq(known, agent)) {
            return;
        }
        self.agents.push(Arc::clone(agent));
        let own = agent.as_llm_agent().map(|agent| agent.tools());
        for source in own.unwrap_or_default() {
            match source {
                ToolSource::Set(set) => {
                    if !self.sets.iter().any(|known| Arc::ptr_eq(known, set)) {
                        self.sets.push(Arc::clone(set));
                    }
                }
                ToolSource::Tool(tool) => {
                    if let Some(agent) = tool.agent() {
                        self.collect(agent);
                    }
                }
            }
        }
        for below in agent.sub_agents() {
            self.collect(below);
        }
    }
}
