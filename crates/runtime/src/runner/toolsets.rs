//! Lets go of what toolsets hold when a runner is closed, for example child processes.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    agents::Agent,
    error::ToolError,
    tools::{ToolSource, Toolset, contained},
};

/// How long a toolset may take; as in ADK.
const PATIENCE: Duration = Duration::from_secs(10);

/// Closes the toolsets of an agent and of those below it, all at once. One that hangs or panics
/// does not keep the others.
pub(super) async fn close(agent: &Arc<dyn Agent>) {
    let mut sets = Vec::new();
    collect(&**agent, &mut sets);
    let closing = sets.iter().map(|set| async move {
        let closing = async {
            set.close().await;
            Ok::<(), ToolError>(())
        };
        if contained(PATIENCE, closing).await.is_err() {
            tracing::warn!(toolset = set.name(), "a toolset could not be closed");
        }
    });
    join_all(closing).await;
}

/// Each set once: agents may share one.
fn collect(agent: &dyn Agent, sets: &mut Vec<Arc<dyn Toolset>>) {
    let own = agent.as_llm_agent().map(|agent| agent.tools());
    for source in own.unwrap_or_default() {
        if let ToolSource::Set(set) = source
            && !sets.iter().any(|known| Arc::ptr_eq(known, set))
        {
            sets.push(Arc::clone(set));
        }
    }
    for below in agent.sub_agents() {
        collect(&**below, sets);
    }
}
