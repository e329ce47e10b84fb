//! Programs with agents and the runner, in the style of users of ADK's Rust crates.

use std::sync::Arc;

use futures_util::StreamExt as _;
use retain::{
    Agent, BoxError, CallbackContext, Content, Event, FunctionCall, FunctionTool, GetSessionConfig,
    InMemoryMemoryService, InMemorySessionService, LlmAgent, MemoryService as _, Runner,
    ScriptedModel, SessionService as _, ToolContext, ToolError,
    agent::{BaseLlmAgent, Instruction, ReadonlyContext},
    model::LlmResponse,
    state::JsonMap,
    tool::{load_memory_tool, preload_memory_tool},
};
use schemars::JsonSchema;
use serde::Deserialize;

const FACT: &str = "My favorite project is Project Alpha.";
const QUESTION: &str = "What is my favorite project?";

#[derive(Default)]
struct Services {
    sessions: Arc<InMemorySessionService>,
    memory: Arc<InMemoryMemoryService>,
}

impl Services {
    fn runner(&self, agent: LlmAgent) -> Runner {
        let runner = Runner::builder()
            .app_name("app")
            .agent(agent)
            .session_service(self.sessions.clone())
            .memory_service(self.memory.clone())
            .auto_create_session(true);
        runner.build().unwrap()
    }

    async fn session(&self, id: &str) -> retain::Session {
        let config = GetSessionConfig::default();
        let read = self.sessions.get_session("app", "ada", id, config).await;
        read.unwrap().unwrap()
    }
}

#[test]
fn event_helpers_return_the_text_and_calls_of_a_response() {
    let response = LlmResponse::from_content(Content::model("Hello"));
    let event = Event::new("greeter", response);
    let content = event.response.content.as_ref().unwrap();
    assert_eq!(content.text_concat(), "Hello");
    assert!(event.is_final_response());
    assert!(event.function_calls().is_empty() && event.function_responses().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn output_key_stores_the_answer_in_state() {
    let services = Services::default();
    let agent = LlmAgent::builder("greeter")
        .model(ScriptedModel::new("scripted").reply("Hello!"))
        .instruction("Greet {user:name?}.")
        .output_key("last_greeting")
        .build()
        .unwrap();
    let runner = services.runner(agent);
    let mut events = runner.run("ada", Some("s1"), "Hi").await.unwrap();
    while let Some(event) = events.next().await {
        assert!(event.unwrap().is_final_response());
    }
    assert_eq!(
        services.session("s1").await.state["last_greeting"],
        "Hello!"
    );
}

#[derive(Deserialize, JsonSchema)]
struct Theme {
    theme: String,
}

async fn set_theme(ctx: ToolContext, args: Theme) -> Result<String, ToolError> {
    ctx.state().set("user:theme", args.theme);
    Ok("done".to_owned())
}

async fn count_runs(ctx: CallbackContext) -> Result<Option<Content>, BoxError> {
    ctx.state().set("runs", 1);
    Ok(None)
}

async fn instruct(ctx: ReadonlyContext) -> Result<String, BoxError> {
    Ok(format!("The user is {}.", ctx.user_id()))
}

#[tokio::test(flavor = "multi_thread")]
async fn state_writes_of_tools_and_callbacks_are_stored() {
    let services = Services::default();
    let call = FunctionCall::new("set_theme", JsonMap::from([("theme", "dark")]));
    let agent = LlmAgent::builder("assistant")
        .model(ScriptedModel::new("scripted").reply(call).reply("Done."))
        .instruction(Instruction::provider(instruct))
        .tool(FunctionTool::new("set_theme", "Sets the theme.", set_theme))
        .before_agent(count_runs)
        .build()
        .unwrap();
    let runner = services.runner(agent);
    let run = runner.run("ada", Some("s1"), "Dark, please").await.unwrap();
    assert_eq!(run.answer().await.unwrap(), "Done.");
    let state = services.session("s1").await.state;
    assert_eq!(state["user:theme"], "dark");
    assert_eq!(state["runs"], 1);
}

#[test]
fn run_blocking_works_without_a_tokio_runtime() {
    let services = Services::default();
    let agent = LlmAgent::builder("assistant").model("offline").build();
    let runner = services.runner(agent.unwrap());
    let events = runner.run_blocking("ada", Some("s1"), FACT).unwrap();
    assert_eq!(events.filter(|event| event.is_ok()).count(), 1);
}

async fn add_fact_to_memory(services: &Services) {
    let agent = LlmAgent::builder("capture")
        .model(ScriptedModel::new("scripted").reply("I have noted that."))
        .build();
    let runner = services.runner(agent.unwrap());
    let run = runner.run("ada", Some("told"), FACT).await.unwrap();
    run.answer().await.unwrap();
    let session = services.session("told").await;
    services
        .memory
        .add_session_to_memory(&session)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_with_load_memory_finds_a_fact_of_another_session() {
    let services = Services::default();
    add_fact_to_memory(&services).await;
    let call = FunctionCall::new(
        "load_memory",
        JsonMap::from([("query", "favorite project")]),
    );
    let agent = LlmAgent::builder("recall")
        .model(
            ScriptedModel::new("scripted")
                .reply(call)
                .reply("Project Alpha."),
        )
        .tool(load_memory_tool())
        .build();
    let runner = services.runner(agent.unwrap());
    let run = runner.run("ada", Some("asked"), QUESTION).await.unwrap();
    let events = run.collect_events().await.unwrap();
    let responses = events[1].function_responses();
    let found = responses[0].response.clone().unwrap_or_default();
    assert_eq!(
        found["result"]["memories"][0]["content"]["parts"][0]["text"],
        FACT
    );
    assert_eq!(services.session("asked").await.events.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn preloaded_memory_is_answered_without_a_tool_call() {
    let services = Services::default();
    add_fact_to_memory(&services).await;
    let agent = LlmAgent::builder("preload")
        .model("offline")
        .tool(preload_memory_tool(5))
        .build();
    let runner = services.runner(agent.unwrap());
    let run = runner.run("ada", Some("asked"), QUESTION).await.unwrap();
    assert!(run.answer().await.unwrap().contains(FACT));
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    topic: String,
}

async fn count_memories(ctx: ToolContext, args: Topic) -> Result<String, ToolError> {
    let found = ctx.search_memory(&args.topic).await?;
    ctx.add_session_to_memory().await?;
    Ok(format!("{} memories", found.memories.len()))
}

async fn add_to_memory(ctx: CallbackContext) -> Result<Option<Content>, BoxError> {
    ctx.add_session_to_memory().await?;
    let found = ctx.search_memory("project").await?;
    ctx.state().set("found", found.memories.len() as i64);
    Ok(None)
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_context_searches_memory_and_adds_its_session() {
    let services = Services::default();
    add_fact_to_memory(&services).await;
    let call = FunctionCall::new("count", JsonMap::from([("topic", "favorite project")]));
    let agent = LlmAgent::builder("counter")
        .model(ScriptedModel::new("scripted").reply(call).reply("Done."))
        .tool(FunctionTool::new(
            "count",
            "Counts memories.",
            count_memories,
        ))
        .build();
    let runner = services.runner(agent.unwrap());
    let run = runner.run("ada", Some("s1"), "Count zebras").await.unwrap();
    let events = run.collect_events().await.unwrap();
    let response = &events[1].function_responses()[0].response;
    assert_eq!(response.clone().unwrap()["result"], "1 memories");
    let found = services.memory.search_memory("app", "ada", "zebras").await;
    assert_eq!(found.unwrap().memories.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn callback_context_searches_memory_and_adds_its_session() {
    let services = Services::default();
    let agent = LlmAgent::builder("noter")
        .model(ScriptedModel::new("scripted").reply("Noted."))
        .after_agent(add_to_memory)
        .build();
    let runner = services.runner(agent.unwrap());
    let run = runner.run("ada", Some("s1"), FACT).await.unwrap();
    run.answer().await.unwrap();
    assert_eq!(services.session("s1").await.state["found"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn load_memory_without_a_memory_service_is_an_error() {
    let call = FunctionCall::new("load_memory", JsonMap::from([("query", "project")]));
    let agent = LlmAgent::builder("recall")
        .model(ScriptedModel::new("scripted").reply(call).reply("Done."))
        .tool(load_memory_tool())
        .build();
    let runner = Runner::builder()
        .app_name("app")
        .agent(agent.unwrap())
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build();
    let run = runner.unwrap().run("ada", Some("s1"), QUESTION).await;
    let error = run.unwrap().answer().await.unwrap_err().to_string();
    assert!(error.contains("no memory service"), "{error}");
}

#[test]
fn base_agent_of_an_llm_agent_has_its_settings() {
    let agent = LlmAgent::builder("assistant").model("offline").build();
    let agent = agent.unwrap();
    let base: Option<&BaseLlmAgent> = agent.as_llm_agent();
    let model = base.unwrap().model().unwrap();
    assert_eq!(
        (base.unwrap().name(), model.name()),
        ("assistant", "offline")
    );
}
