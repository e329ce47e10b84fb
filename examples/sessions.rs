//! Sessions and state: ADK's documented scenario, on SQLite.
//!
//! Run it with `cargo run --example sessions`.

use retain::{Event, GetSessionConfig, SessionService as _, SqliteSessionService, State};

#[tokio::main]
async fn main() -> retain::Result<()> {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await?;

    // The prefix of a state key selects its scope.
    let state = State::from([("task_status", "idle"), ("user:login_count", "0")]);
    let mut session = sessions
        .create_session("state_app", "user1", Some(state), Some("session1"))
        .await?;

    // State changes with events. This event sets a key in every scope.
    let mut event = Event::user_text("log me in");
    let delta = &mut event.actions.state_delta;
    delta.insert("task_status", "active");
    delta.insert("user:login_count", 1);
    delta.insert("user:last_login_ts", 1_763_258_400.25);
    delta.insert("app:logins_today", 1);
    delta.insert("temp:validation_needed", true);
    sessions.append_event(&mut session, event).await?;

    // `temp:` keys exist only in the live session and are not stored.
    assert_eq!(session.state["temp:validation_needed"], true);

    let config = GetSessionConfig::default();
    let fresh = sessions
        .get_session("state_app", "user1", "session1", config)
        .await?;
    let fresh = fresh.expect("the session was created above");
    assert_eq!(fresh.state["task_status"], "active");
    assert_eq!(fresh.state["user:login_count"], 1);
    assert!(!fresh.state.contains_key("temp:validation_needed"));

    // Two users of one app share only the `app:` keys.
    let other = sessions
        .create_session("state_app", "user2", None, None)
        .await?;
    let keys: Vec<&str> = other.state.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["app:logins_today"]);

    println!("session1 of user1: {:?}", fresh.state);
    println!("a session of user2: {:?}", other.state);
    Ok(())
}
