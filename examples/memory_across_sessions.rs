//! Memory beyond one session: ADK's documented scenario, and the same with preloading.
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
    told(&services).await?;
    asked(&services).await?;
    preloaded(&services).await?;
    remembered_by_itself(&services).await?;
    // Other users find none of it.
    let others = services
        .memory
        .search_memory(APP, "somebody_else", "favorite project");
    assert!(others.await?.memories.is_empty());
    Ok(())
}

/// First: an agent hears something, and its session is added to memory.
async fn told(services: &Services) -> Result<(), Error> {
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
    let session = session.ok_or("the session is gone")?;
    services.memory.add_session_to_memory(&session).await?;
    println!("told in session_info: {FACT}");
    Ok(())
}

/// Second: in another session, an agent looks it up.
async fn asked(services: &Services) -> Result<(), Error> {
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

/// Third: or what fits the question is put before it, and the model need not ask. The offline model
/// answers with what it finds there.
async fn preloaded(services: &Services) -> Result<(), Error> {
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

/// Fourth: a callback adds the session to memory after each run.
async fn remembered_by_itself(services: &Services) -> Result<(), Error> {
    let remembering = LlmAgent::builder("RememberingAgent")
        .model("offline")
        .after_agent(remember);
    let runner = services.runner(remembering.build()?)?;
    let message = "My deadline is in May.";
    runner
        .run(USER, Some("session_auto"), message)
        .await?
        .answer()
        .await?;
    let found = services.memory.search_memory(APP, USER, "deadline").await?;
    let first = found.memories.first().ok_or("nothing was remembered")?;
    println!(
        "remembered at {:?}: {}",
        first.timestamp,
        first.content.text_concat()
    );
    assert_eq!(first.content.text_concat(), message);
    assert!(first.timestamp_seconds().is_some());
    Ok(())
}

async fn remember(ctx: CallbackContext) -> Result<Option<Content>, retain::BoxError> {
    ctx.add_session_to_memory().await?;
    Ok(None)
}

/// Its model calls `load_memory` and answers from what it gets.
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
