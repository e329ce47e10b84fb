//! Tools and state: a typed function as a tool, state in every scope, and answers stored in state.
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
    store_answer_in_state(&sessions).await?;
    store_typed_answer_in_state(&sessions).await?;
    write_state_from_tool(&sessions).await?;
    change_every_scope(&sessions).await?;
    read_app_state_as_another_user(&sessions).await
}

/// Stores the answer of an agent under the state key that `output_key` names.
async fn store_answer_in_state(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
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
    let state = read_state(sessions, "user1", "greeting").await?;
    println!("state:   {state:?}");
    assert_eq!(
        state["last_greeting"],
        "Hello there! How can I help you today?"
    );
    assert_eq!(state["task_status"], "idle");
    Ok(())
}

/// The schema of an answer.
#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct Capital {
    city: String,
    inhabitants: u32,
}

/// Stores an answer with an output schema: the state value is the parsed answer.
async fn store_typed_answer_in_state(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
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
    let state = read_state(sessions, "user1", "capital").await?;
    println!("state:   {state:?}");
    assert_eq!(state["capital"]["inhabitants"], 724_000);
    Ok(())
}

/// The arguments of the tool.
#[derive(schemars::JsonSchema, serde::Deserialize)]
struct Room {
    /// The city to look in.
    city: String,
    /// How many nights.
    nights: u32,
}

/// Books a room. The model receives the schema of `Room`.
async fn book(ctx: ToolContext, room: Room) -> Result<serde_json::Value, ToolError> {
    let state = ctx.state();
    state.set("city", room.city.as_str());
    state.set("user:nights_booked", room.nights);
    state.set("temp:price_check", "running");
    // `update` is atomic, even if several tools run concurrently.
    state.update("app:bookings", |bookings| {
        *bookings = (bookings.as_i64().unwrap_or(0) + 1).into();
    });
    Ok(serde_json::json!({"status": "booked", "city": room.city}))
}

async fn write_state_from_tool(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
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

    let state = read_state(sessions, "user1", "booking").await?;
    println!("state:   {state:?}");
    assert_eq!(state["city"], "Oslo");
    assert_eq!(state["app:bookings"], 1);
    assert!(!state.contains_key("temp:price_check"));
    Ok(())
}

/// Appends an event with session, user and `temp:` keys, as in ADK's documented login example.
async fn change_every_scope(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
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
    let state = read_state(sessions, "user1", "login").await?;
    println!("login:   {state:?}");
    assert_eq!(state["task_status"], "active");
    assert_eq!(state["user:login_count"], 1);
    assert_eq!(state["user:last_login_ts"].as_f64(), Some(1_763_258_400.25));
    assert!(!state.contains_key("temp:validation_needed"));
    Ok(())
}

/// Reads the state as another user of the app, who sees only the state keys of the app.
async fn read_app_state_as_another_user(sessions: &Arc<dyn SessionService>) -> Result<(), Error> {
    let other = sessions.create_session(APP, "user2", None, None).await?;
    println!("user2:   {:?}", other.state);
    assert_eq!(other.state["app:bookings"], 1);
    let scopes = other.state.iter().map(|(key, _)| StateScope::of(key));
    assert!(scopes.into_iter().all(|scope| scope == StateScope::App));
    Ok(())
}

/// Reads the stored state of a session.
async fn read_state(
    sessions: &Arc<dyn SessionService>,
    user: &str,
    session: &str,
) -> Result<State, Error> {
    let config = GetSessionConfig::default();
    let read = sessions.get_session(APP, user, session, config).await?;
    Ok(read.ok_or("session not found")?.state)
}
