//! Several writers of one session lose no events, whether they share a live session or each have a
//! snapshot. The program also reads and lists sessions.
//!
//! Run it with `cargo run --example several_writers`.

use retain::{
    Event, GetSessionConfig, InMemorySessionService, Session, SessionService as _,
    session::{SharedSession, apply_event_to_session},
};

const APP: &str = "app";

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let sessions = InMemorySessionService::new();
    append_through_shared_session(&sessions).await?;
    append_to_outdated_snapshots(&sessions).await?;
    change_loaded_session(&sessions).await?;
    read_and_list(&sessions).await?;
    apply_event_to_live_session();
    sessions.flush().await?;
    Ok(())
}

fn state_event(key: &str) -> Event {
    let mut event = Event::model_text("agent", format!("sets {key}"));
    event.actions.state_delta.insert(key, true);
    event
}

async fn read_session(sessions: &InMemorySessionService) -> Result<Session, Error> {
    let config = GetSessionConfig::default();
    let read = sessions.get_session(APP, "ada", "s1", config).await?;
    Ok(read.ok_or("session not found")?)
}

/// Appends from three tasks through one live session, which receives the events of all of them.
async fn append_through_shared_session(sessions: &InMemorySessionService) -> Result<(), Error> {
    let created = sessions.create_session(APP, "ada", None, Some("s1"));
    let live = SharedSession::new(created.await?);
    let tasks = ["red", "green", "blue"].map(|key| {
        let (sessions, live) = (sessions.clone(), live.clone());
        tokio::spawn(async move { sessions.append_event_locked(&live, state_event(key)).await })
    });
    for task in tasks {
        task.await??;
    }
    assert_eq!(live.snapshot(), read_session(sessions).await?);
    assert_eq!(live.snapshot().events.len(), 3);
    println!("three tasks: {:?}", live.snapshot().state);
    Ok(())
}

/// Appends through an outdated snapshot, which adds to the stored session and overwrites nothing.
async fn append_to_outdated_snapshots(sessions: &InMemorySessionService) -> Result<(), Error> {
    let (mut one, mut other) = (read_session(sessions).await?, read_session(sessions).await?);
    sessions.append_event(&mut one, state_event("one")).await?;
    sessions
        .append_event(&mut other, state_event("other"))
        .await?;
    let session = read_session(sessions).await?;
    assert_eq!(
        (&session.state["one"], &session.state["other"]),
        (&true.into(), &true.into())
    );
    println!(
        "two snapshots: {} events, nothing lost",
        session.events.len()
    );
    Ok(())
}

/// Changes a loaded session, which does not change the stored one.
async fn change_loaded_session(sessions: &InMemorySessionService) -> Result<(), Error> {
    let mut session = read_session(sessions).await?;
    session.state.set("by_hand", true);
    assert!(!read_session(sessions).await?.state.contains_key("by_hand"));
    Ok(())
}

async fn read_and_list(sessions: &InMemorySessionService) -> Result<(), Error> {
    let newest = GetSessionConfig {
        num_recent_events: Some(2),
        ..GetSessionConfig::default()
    };
    let session = sessions.get_session(APP, "ada", "s1", newest).await?;
    assert_eq!(session.ok_or("session not found")?.events.len(), 2);

    // Without a user, the list has the sessions of all users of the app.
    sessions
        .create_session(APP, "bob", None, Some("s1"))
        .await?;
    let all = sessions.list_sessions(APP, None).await?;
    let users: Vec<&str> = all
        .sessions
        .iter()
        .map(|meta| meta.user_id.as_str())
        .collect();
    println!("sessions of {users:?}");
    assert_eq!(users.len(), 2);
    assert_eq!(
        sessions
            .list_sessions(APP, Some("bob"))
            .await?
            .sessions
            .len(),
        1
    );
    sessions.delete_session(APP, "bob", "s1").await?;
    Ok(())
}

/// Applies an event to a live session, as an append does, without a service.
fn apply_event_to_live_session() {
    let mut session = Session::new(APP, "ada", "nowhere");
    let mut event = state_event("kept");
    event.actions.state_delta.insert("temp:seen", true);
    let applied = apply_event_to_session(&mut session, event);
    assert_eq!(session.state["temp:seen"], true, "the live session sees it");
    assert!(
        !applied.actions.state_delta.contains_key("temp:seen"),
        "the returned event has no `temp:` keys"
    );
    assert_eq!(session.state["kept"], true);
}
