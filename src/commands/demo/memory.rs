//! Two chapters of the demo: something is told in one session and known in another.
//!
//! ADK's documented story, with agents on the offline model: it needs no network and no key.

use std::sync::Arc;

use retain::{
    InMemoryMemoryService, LlmAgent, LlmAgentBuilder, MemoryService, Runner, SqliteSessionService,
    load_memory_tool,
};

use super::{
    APP, USER, read,
    tell::{self, say},
};

/// Tells it, remembers it, asks for it.
pub(super) async fn tell(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    let memory: Arc<dyn MemoryService> = Arc::new(InMemoryMemoryService::new());
    tell::chapter(1, "An agent is told something")?;
    let capture = agent("capture");
    run(
        sessions,
        &memory,
        capture,
        "monday",
        "My favorite project is Project Alpha.",
    )
    .await?;
    memory
        .add_session_to_memory(&read(sessions, "monday").await?)
        .await?;
    say!("  the session is added to memory (this one is kept by the process alone)");

    tell::chapter(2, "Another agent is asked, in another session")?;
    let recall = agent("recall").tool(load_memory_tool());
    run(
        sessions,
        &memory,
        recall,
        "friday",
        "What is my favorite project?",
    )
    .await?;
    say!("  the model called the tool, what it found was stored, and the answer rests on it");
    Ok(())
}

fn agent(name: &str) -> LlmAgentBuilder {
    LlmAgent::builder(name).model("offline")
}

/// Runs an agent on what the user says and shows what is stored.
async fn run(
    sessions: &SqliteSessionService,
    memory: &Arc<dyn MemoryService>,
    agent: LlmAgentBuilder,
    session: &str,
    message: &str,
) -> anyhow::Result<()> {
    let runner = Runner::builder()
        .app_name(APP)
        .agent(agent.build()?)
        .session_service(Arc::new(sessions.clone()))
        .memory_service(Arc::clone(memory))
        .auto_create_session(true)
        .build()?;
    runner
        .run(USER, Some(session), message)
        .await?
        .answer()
        .await?;
    tell::events(&read(sessions, session).await?)?;
    Ok(())
}
