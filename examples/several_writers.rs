//! One session, several writers: nobody loses anything, whether they share the live session or each
//! has a snapshot of its own. And how sessions are read and listed.
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
    tasks_share_a_live_session(&sessions).await?;
    snapshots_lose_nothing(&sessions).await?;
    only_events_are_saved(&sessions).await?;
    reading_and_listing(&sessions).await?;
    the_rule_itself();
    sessions.flush().await?;
    Ok(())
}

fn writes(key: &str) -> Event {
    let mut event = Event::model_text("agent", format!("sets {key}"));
    event.actions.state_delta.insert(key, true);
    event
}

async fn stored(sessions: &InMemorySessionService) -> Result<Session, Error> {
    let config = GetSessionConfig::default();
    let read = sessions.get_session(APP, "ada", "s1", config).await?;
    Ok(read.ok_or("the session is gone")?)
}

/// Tasks append through one live session, and each sees what the others did.
async fn tasks_share_a_live_session(sessions: &InMemorySessionService) -> Result<(), Error> {
    let created = sessions.create_session(APP, "ada", None, Some("s1"));
    let live = SharedSession::new(created.await?);
    let tasks = ["red", "green", "blue"].map(|key| {
        let (sessions, live) = (sessions.clone(), live.clone());
        tokio::spawn(async move { sessions.append_event_locked(&live, writes(key)).await })
    });
    for task in tasks {
        task.await??;
    }
    assert_eq!(live.snapshot(), stored(sessions).await?);
    assert_eq!(live.snapshot().events.len(), 3);
    println!("three tasks: {:?}", live.snapshot().state);
    Ok(())
}

/// Appending merges into the stored session; an outdated snapshot overwrites nothing.
async fn snapshots_lose_nothing(sessions: &InMemorySessionService) -> Result<(), Error> {
    let (mut one, mut other) = (stored(sessions).await?, stored(sessions).await?);
    sessions.append_event(&mut one, writes("one")).await?;
    sessions.append_event(&mut other, writes("other")).await?;
    let session = stored(sessions).await?;
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

/// Changes to a loaded session are not stored.
async fn only_events_are_saved(sessions: &InMemorySessionService) -> Result<(), Error> {
    let mut session = stored(sessions).await?;
    session.state.set("by_hand", true);
    assert!(!stored(sessions).await?.state.contains_key("by_hand"));
    Ok(())
}

async fn reading_and_listing(sessions: &InMemorySessionService) -> Result<(), Error> {
    let newest = GetSessionConfig {
        num_recent_events: Some(2),
        ..GetSessionConfig::default()
    };
    let session = sessions.get_session(APP, "ada", "s1", newest).await?;
    assert_eq!(session.ok_or("the session is gone")?.events.len(), 2);

    // Without a user, the sessions of all users of the app.
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

/// What an append does to a live session, without any service.
fn the_rule_itself() {
    let mut session = Session::new(APP, "ada", "nowhere");
    let mut event = writes("kept");
    event.actions.state_delta.insert("temp:seen", true);
    let applied = apply_event_to_session(&mut session, event);
    assert_eq!(session.state["temp:seen"], true, "the live session sees it");
    assert!(
        !applied.actions.state_delta.contains_key("temp:seen"),
        "the event has it no more"
    );
    assert_eq!(session.state["kept"], true);
}
