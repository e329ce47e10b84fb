//! Memory across sessions: ADK's documented scenario, preloaded memory, and ingestion by a
//! callback.
//!
//! Run it with `cargo run --example memory_across_sessions`.

use std::sync::Arc;

use retain::{
    CallbackContext, Content, Event, FunctionCall, GetSessionConfig, InMemoryMemoryService,
    InMemorySessionService, LlmAgent, MemoryService, Runner, ScriptedModel, SessionService,
    state::JsonMap,
    tool::{load_memory_tool, preload_memory_tool},
};

const APP: &str = "memory_example_app";
const USER: &str = "mem_user";
const FACT: &str = "My favorite project is Project Alpha.";
const QUESTION: &str = "What is my favorite project?";

type Error = Box<dyn std::error::Error>;

/// Sessions and memory, which both agents share.
#[derive(Default)]
struct Services {
    sessions: Arc<InMemorySessionService>,
    memory: Arc<InMemoryMemoryService>,
}

impl Services {
    fn runner(&self, agent: LlmAgent) -> Result<Runner, Error> {
        let runner = Runner::builder()
            .app_name(APP)
            .agent(agent)
            .session_service(self.sessions.clone())
            .memory_service(self.memory.clone())
            .auto_create_session(true)
            .build()?;
        Ok(runner)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let services = Services::default();
    tell_fact(&services).await?;
    recall_with_tool(&services).await?;
    recall_preloaded(&services).await?;
    ingest_with_callback(&services).await?;
    // Other users do not find these memories.
    let others = services
        .memory
        .search_memory(APP, "somebody_else", "favorite project");
    assert!(others.await?.memories.is_empty());
    Ok(())
}

/// First, a user tells an agent a fact, and the program ingests the session into memory.
async fn tell_fact(services: &Services) -> Result<(), Error> {
    let capture = LlmAgent::builder("InfoCaptureAgent")
        .model(ScriptedModel::new("scripted").reply("I have noted that."))
        .instruction("Acknowledge the user's statement.")
        .build()?;
    let runner = services.runner(capture)?;
    runner
        .run(USER, Some("session_info"), FACT)
        .await?
        .answer()
        .await?;
    let config = GetSessionConfig::default();
    let session = services
        .sessions
        .get_session(APP, USER, "session_info", config)
        .await?;
    let session = session.ok_or("session not found")?;
    services.memory.add_session_to_memory(&session).await?;
    println!("ingested from session_info: {FACT}");
    Ok(())
}

/// Second, an agent in another session finds the fact with a tool.
async fn recall_with_tool(services: &Services) -> Result<(), Error> {
    let runner = services.runner(recall_agent()?)?;
    let run = runner.run(USER, Some("session_recall"), QUESTION).await?;
    let events = run.collect_events().await?;
    print_events(&events);
    let found = events[1].function_responses()[0]
        .response
        .clone()
        .unwrap_or_default();
    let memory = &found["result"]["memories"][0];
    assert_eq!(memory["content"]["parts"][0]["text"], FACT);
    assert_eq!(memory["author"], "user");
    assert!(events[2].is_final_response());
    Ok(())
}

/// Third, Retain adds matching memories to the request, so that the model needs no tool call. The
/// offline model answers by quoting them.
async fn recall_preloaded(services: &Services) -> Result<(), Error> {
    let preloading = LlmAgent::builder("PreloadingAgent")
        .model("offline")
        .tool(preload_memory_tool(5))
        .build()?;
    let runner = services.runner(preloading)?;
    let run = runner.run(USER, Some("session_preload"), QUESTION).await?;
    let answer = run.answer().await?;
    println!("preloaded: {answer}");
    assert!(answer.contains(FACT));
    Ok(())
}

/// Fourth, a callback ingests the session after each run.
async fn ingest_with_callback(services: &Services) -> Result<(), Error> {
    let agent = LlmAgent::builder("RememberingAgent")
        .model("offline")
        .after_agent(ingest_session);
    let runner = services.runner(agent.build()?)?;
    let message = "My deadline is in May.";
    runner
        .run(USER, Some("session_auto"), message)
        .await?
        .answer()
        .await?;
    let found = services.memory.search_memory(APP, USER, "deadline").await?;
    let first = found.memories.first().ok_or("no memory was found")?;
    println!(
        "ingested at {:?}: {}",
        first.timestamp,
        first.content.text_concat()
    );
    assert_eq!(first.content.text_concat(), message);
    assert!(first.timestamp_seconds().is_some());
    Ok(())
}

async fn ingest_session(ctx: CallbackContext) -> Result<Option<Content>, retain::BoxError> {
    ctx.add_session_to_memory().await?;
    Ok(None)
}

/// Returns an agent whose model calls `load_memory` and answers from the result.
fn recall_agent() -> Result<LlmAgent, Error> {
    let model = ScriptedModel::new("scripted")
        .reply(FunctionCall::new(
            "load_memory",
            JsonMap::from([("query", "favorite project")]),
        ))
        .reply("Your favorite project is Project Alpha.");
    let agent = LlmAgent::builder("MemoryRecallAgent")
        .model(model)
        .instruction("Answer the user's question. Use the load_memory tool if needed.")
        .tool(load_memory_tool())
        .build()?;
    Ok(agent)
}

fn print_events(events: &[Event]) {
    for event in events {
        let calls = event.function_calls();
        let calls: Vec<_> = calls
            .iter()
            .filter_map(|call| call.name.as_deref())
            .collect();
        let text = event
            .content()
            .map(|content| content.text_concat())
            .unwrap_or_default();
        let answered = event.function_responses().len();
        println!(
            "{}: calls {calls:?}, {answered} results, says {text:?}",
            event.author
        );
    }
}
