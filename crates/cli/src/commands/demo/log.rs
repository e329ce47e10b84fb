//! Two chapters of the demo: state scopes, and rewind and fork.

use retain::{
    Event, SessionLog as _, SessionService as _, SqliteSessionService, State, session::SessionKey,
};

use crate::output::say;

use super::{APP, USER, format, read};

/// Shows the state keys of every scope, as several sessions read them.
pub(super) async fn scopes(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    format::print_chapter(3, "State scopes")?;
    let state = State::from([("app:season", "summer"), ("task", "find a room")]);
    let created = sessions.create_session(APP, USER, Some(state), Some("oslo"));
    let mut session = created.await?;
    let mut event = event("turn-1", "user", "A room in Oslo please, on a high floor.");
    event.actions.state_delta.insert("user:floor", "high");
    event.actions.state_delta.insert("temp:search", "running");
    sessions.append_event(&mut session, event).await?;

    let stored = read(sessions, "oslo").await?;
    let next = sessions.create_session(APP, USER, None, None).await?;
    let other = sessions.create_session(APP, "bob", None, None).await?;
    let columns = ["", "this run", "read later", "Ada's next", "Bob's"];
    row(columns)?;
    for key in ["task", "user:floor", "app:season", "temp:search"] {
        let seen = [&session, &stored, &next, &other];
        let [run, later, next, other] = seen.map(|session| format::value_text(&session.state, key));
        row([key, &run, &later, &next, &other])?;
    }
    Ok(())
}

fn row([key, run, later, next, other]: [&str; 5]) -> anyhow::Result<()> {
    say!("  {key:<12} {run:<12} {later:<12} {next:<11} {other}");
    Ok(())
}

/// Rewinds a turn and continues in a fork.
pub(super) async fn rewind_and_fork(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    format::print_chapter(4, "Rewind and fork")?;
    let mut session = read(sessions, "oslo").await?;
    let mut booked = event("turn-2", "agent", "Booked: The Fjord, ten nights.");
    booked.actions.state_delta.insert("nights", 10);
    booked.actions.state_delta.insert("task", "done");
    sessions.append_event(&mut session, booked).await?;
    say!("  after turn 2   {}", format::state_text(&session.state));
    sessions.rewind(&session.key(), "turn-2").await?;
    let session = read(sessions, "oslo").await?;
    say!("  after rewind   {}", format::state_text(&session.state));
    let past = sessions.state_at(&session.key(), 2).await?;
    say!("  at position 2  {}", format::state_text(&past));
    say!(
        "  nothing was deleted: the log now has {} events",
        session.position
    );

    let key = SessionKey::new(APP, USER, "oslo");
    let mut fork = sessions.fork(&key, Some(1), Some("cheaper")).await?;
    let message = event("turn-2", "user", "Something cheaper?");
    sessions.append_event(&mut fork, message).await?;
    say!("  a fork at position 1 continues differently:");
    format::print_events(&fork)?;
    Ok(())
}

fn event(invocation: &str, author: &str, text: &str) -> Event {
    let mut event = match author {
        "user" => Event::user_text(text),
        agent => Event::model_text(agent, text),
    };
    event.invocation_id = invocation.to_owned();
    event
}
