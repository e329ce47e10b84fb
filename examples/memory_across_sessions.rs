//! Memory beyond one session: ADK's documented scenario, and the same with preloading.
//!
//! Run it with `cargo run --example memory_across_sessions`.

use std::sync::Arc;

use retain::{
    Event, FunctionCall, GetSessionConfig, InMemoryMemoryService, InMemorySessionService, JsonMap,
    LlmAgent, MemoryService, Runner, ScriptedModel, SessionService, load_memory_tool,
    preload_memory_tool,
};

const APP: &str = "memory_example_app";
const USER: &str = "mem_user";

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

    // 1. An agent hears something, and its session is added to memory.
    let capture = LlmAgent::builder("InfoCaptureAgent")
        .model(ScriptedModel::new("scripted").reply("I have noted that."))
        .instruction("Acknowledge the user's statement.")
        .build()?;
    let runner = services.runner(capture)?;
    let message = "My favorite project is Project Alpha.";
    runner
        .run(USER, Some("session_info"), message)
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
    println!("told in session_info: {message}");

    // 2. In another session, an agent looks it up.
    let runner = services.runner(recall_agent()?)?;
    let question = "What is my favorite project?";
    let run = runner.run(USER, Some("session_recall"), question).await?;
    let events = run.collect_events().await?;
    print_events(&events);
    let found = events[1].function_responses()[0]
        .response
        .clone()
        .unwrap_or_default();
    let memory = &found["result"]["memories"][0];
    assert_eq!(memory["content"]["parts"][0]["text"], message);
    assert_eq!(memory["author"], "user");
    assert!(events[2].is_final_response());

    // 3. Or what fits the question is put before it, and the model need not ask. The offline model
    // answers with what it finds there.
    let preloading = LlmAgent::builder("PreloadingAgent")
        .model("offline")
        .tool(preload_memory_tool(5))
        .build()?;
    let run = services
        .runner(preloading)?
        .run(USER, Some("session_preload"), question)
        .await?;
    let answer = run.answer().await?;
    println!("preloaded: {answer}");
    assert!(answer.contains(message));

    // Nobody else finds it.
    let others = services
        .memory
        .search_memory(APP, "somebody_else", "favorite project")
        .await?;
    assert!(others.memories.is_empty());
    Ok(())
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
