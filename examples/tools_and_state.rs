//! Tools and state: a typed function as a tool, state in every scope, and the answer as state.
//!
//! Run it with `cargo run --example tools_and_state`.

use std::sync::Arc;

use retain::{
    Event, FunctionCall, FunctionTool, GetSessionConfig, LlmAgent, Runner, ScriptedModel,
    SessionService, SqliteSessionService, State, ToolContext, ToolError, state::StateScope,
};

const APP: &str = "state_app";

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
    let sessions: Arc<dyn SessionService> = Arc::new(sessions);
    the_answer_becomes_state(&sessions).await?;
    a_typed_answer_becomes_a_value(&sessions).await?;
    a_tool_writes_state(&sessions).await?;
    an_event_changes_every_scope(&sessions).await?;
    two_users_share_what_is_the_apps(&sessions).await
}

/// `output_key`: what the agent says is kept under a key.
async fn the_answer_becomes_state(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
    let greeter = LlmAgent::builder("greeter")
        .model(ScriptedModel::new("scripted").reply("Hello there! How can I help you today?"))
        .instruction("Generate a short, friendly greeting.")
        .output_key("last_greeting")
        .build()?;
    let state = State::from([("task_status", "idle")]);
    sessions
        .create_session(APP, "user1", Some(state), Some("greeting"))
        .await?;
    let runner = Runner::builder().app_name(APP).agent(greeter);
    let runner = runner.session_service(Arc::clone(sessions)).build()?;
    let run = runner.run("user1", Some("greeting"), "Hello").await?;
    for event in run.collect_events().await? {
        if event.is_final_response() {
            let content = event.response.content.as_ref();
            println!(
                "greeter: {}",
                content.map(|it| it.text_concat()).unwrap_or_default()
            );
        }
    }
    let state = stored(sessions, "user1", "greeting").await?;
    println!("state:   {state:?}");
    assert_eq!(
        state["last_greeting"],
        "Hello there! How can I help you today?"
    );
    assert_eq!(state["task_status"], "idle");
    Ok(())
}

/// The form of an answer.
#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct Capital {
    city: String,
    inhabitants: u32,
}

/// With an output schema, the parsed answer is kept.
async fn a_typed_answer_becomes_a_value(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
    let answer = r#"{"city": "Oslo", "inhabitants": 724000}"#;
    let agent = LlmAgent::builder("geographer")
        .model(ScriptedModel::new("scripted").reply(answer))
        .output_schema::<Capital>()
        .output_key("capital")
        .build()?;
    let runner = Runner::builder().app_name(APP).agent(agent);
    let runner = runner
        .session_service(Arc::clone(sessions))
        .auto_create_session(true)
        .build()?;
    runner
        .run("user1", Some("capital"), "Norway?")
        .await?
        .answer()
        .await?;
    let state = stored(sessions, "user1", "capital").await?;
    println!("state:   {state:?}");
    assert_eq!(state["capital"]["inhabitants"], 724_000);
    Ok(())
}

/// What the model gives the tool.
#[derive(schemars::JsonSchema, serde::Deserialize)]
struct Room {
    /// The city to look in.
    city: String,
    /// How many nights.
    nights: u32,
}

/// Books it. The schema that the model sees is that of `Room`.
async fn book(ctx: ToolContext, room: Room) -> Result<serde_json::Value, ToolError> {
    let state = ctx.state();
    state.set("city", room.city.as_str());
    state.set("user:nights_booked", room.nights);
    state.set("temp:price_check", "running");
    // Read and changed as one step, also when several tools run at once.
    state.update("app:bookings", |bookings| {
        *bookings = (bookings.as_i64().unwrap_or(0) + 1).into();
    });
    Ok(serde_json::json!({"status": "booked", "city": room.city}))
}

async fn a_tool_writes_state(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
    let args = serde_json::json!({"city": "Oslo", "nights": 3});
    let model = ScriptedModel::new("scripted")
        .reply(FunctionCall::new("book", args))
        .reply("Booked in Oslo.");
    let agent = LlmAgent::builder("clerk")
        .model(model)
        .tool(FunctionTool::new("book", "Books a room.", book))
        .build()?;
    let runner = Runner::builder().app_name(APP).agent(agent);
    let runner = runner
        .session_service(Arc::clone(sessions))
        .auto_create_session(true)
        .build()?;
    let run = runner
        .run("user1", Some("booking"), "Three nights in Oslo.")
        .await?;
    println!("clerk:   {}", run.answer().await?);

    let state = stored(sessions, "user1", "booking").await?;
    println!("state:   {state:?}");
    assert_eq!(state["city"], "Oslo");
    assert_eq!(state["app:bookings"], 1);
    assert!(!state.contains_key("temp:price_check"));
    Ok(())
}

/// ADK's documented login: an event with a delta in every scope.
async fn an_event_changes_every_scope(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
    let state = State::from([("user:login_count", 0)]);
    let created = sessions.create_session(APP, "user1", Some(state), Some("login"));
    let mut session = created.await?;
    let mut event = Event::user_text("log me in");
    let delta = &mut event.actions.state_delta;
    delta.insert("task_status", "active");
    delta.insert("user:login_count", 1);
    delta.insert("user:last_login_ts", 1_763_258_400.25);
    delta.insert("temp:validation_needed", true);
    let (_, user, own, temp) = State::partition_by_scope(delta);
    assert_eq!((user.len(), own.len(), temp.len()), (2, 1, 1));
    sessions.append_event(&mut session, event).await?;

    assert_eq!(session.state["temp:validation_needed"], true);
    let state = stored(sessions, "user1", "login").await?;
    println!("login:   {state:?}");
    assert_eq!(state["task_status"], "active");
    assert_eq!(state["user:login_count"], 1);
    assert_eq!(state["user:last_login_ts"].as_f64(), Some(1_763_258_400.25));
    assert!(!state.contains_key("temp:validation_needed"));
    Ok(())
}

/// Another user of the app sees the app's keys and no others.
async fn two_users_share_what_is_the_apps(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
    let other = sessions.create_session(APP, "user2", None, None).await?;
    println!("user2:   {:?}", other.state);
    assert_eq!(other.state["app:bookings"], 1);
    let scopes = other.state.iter().map(|(key, _)| StateScope::of(key));
    assert!(scopes.into_iter().all(|scope| scope == StateScope::App));
    Ok(())
}

/// The state as anybody reads it later.
async fn stored(
    sessions: &Arc<dyn SessionService>,
    user: &str,
    session: &str,
) -> Result<State, Error> {
    let config = GetSessionConfig::default();
    let read = sessions.get_session(APP, user, session, config).await?;
    Ok(read.ok_or("the session is gone")?.state)
}
