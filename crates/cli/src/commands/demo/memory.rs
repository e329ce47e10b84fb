//! Two chapters of the demo: agents recall in new sessions what a user said before a restart.
//!
//! This is ADK's documented example, with the offline model, which needs no network and no API key.

use std::sync::Arc;

use anyhow::Context as _;
use retain::{
    LlmAgent, MemoryService as _, Runner, SqliteMemoryService, SqliteSessionService,
    agent::LlmAgentBuilder,
    memory::{MemoryHit, MemoryQuery},
    tool::{load_memory_tool, preload_memory_tool},
};

use crate::output::say;

use super::{APP, USER, format, read};

const FACT: &str = "My favorite project is Project Alpha.";
const QUESTION: &str = "What is my favorite project?";

/// Tells an agent a fact and ingests the session.
pub(super) async fn tell_fact(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    format::print_chapter(1, "Tell an agent a fact")?;
    run(sessions, agent("capture"), "monday", FACT).await?;
    let memory = memory(sessions);
    let session = read(sessions, "monday").await?;
    memory.add_session_to_memory(&session).await?;
    say!("  the session is ingested into memory, in the same file; then the file is closed");
    Ok(())
}

/// Asks two agents after reopening the file: one calls the memory tool, the other gets preloaded
/// memories.
pub(super) async fn recall_fact(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    format::print_chapter(2, "Reopen the file and ask other agents, in new sessions")?;
    let recall = agent("recall").tool(load_memory_tool());
    run(sessions, recall, "friday", QUESTION).await?;
    say!("  the model called the tool, the session stored the result, and the model quoted it");
    let ready = agent("ready").tool(preload_memory_tool(3));
    run(sessions, ready, "saturday", QUESTION).await?;
    say!("  this agent got matching memories with the request and needed no call");

    let search = MemoryQuery::new(QUESTION).with_limit(1);
    let memory = memory(sessions);
    let found = memory.search_memory_with(APP, USER, search).await?;
    print_explanation(found.first().context("the memory was not found")?)?;
    Ok(())
}

/// Prints the explanation and the source of a memory.
fn print_explanation(found: &MemoryHit) -> anyhow::Result<()> {
    let explanation = &found.explanation;
    let words = explanation.words.iter();
    let words: Vec<String> = words.map(|it| format!("{:?}", it.word)).collect();
    let signals = [
        ("words", explanation.lexical),
        ("conversation", explanation.session),
        ("meaning", explanation.meaning + explanation.context),
    ];
    let signals = signals.map(|(name, score)| format!("{name} {score:.2}"));
    let info = &found.info;
    say!(
        "  why: {}; score {:.2} = {}",
        words.join(" "),
        found.score,
        signals.join(" + ")
    );
    say!(
        "  from: session {}, position {}, said by {}",
        info.session.as_deref().unwrap_or("-"),
        info.position,
        info.author.as_deref().unwrap_or("-")
    );
    Ok(())
}

fn memory(sessions: &SqliteSessionService) -> SqliteMemoryService {
    SqliteMemoryService::over(sessions.store().memory())
}

fn agent(name: &str) -> LlmAgentBuilder {
    LlmAgent::builder(name).model("offline")
}

/// Runs an agent on a message and prints the stored events.
async fn run(
    sessions: &SqliteSessionService,
    agent: LlmAgentBuilder,
    session: &str,
    message: &str,
) -> anyhow::Result<()> {
    let runner = Runner::builder()
        .app_name(APP)
        .agent(agent.build()?)
        .session_service(Arc::new(sessions.clone()))
        .memory_service(Arc::new(memory(sessions)))
        .auto_create_session(true)
        .build()?;
    runner
        .run(USER, Some(session), message)
        .await?
        .answer()
        .await?;
    format::print_events(&read(sessions, session).await?)?;
    Ok(())
}
