//! Runs of one session wait for each other, so their events never interleave.
//!
//! Run it with `cargo run --example one_run_at_a_time`.

use retain::{
    Event, InMemorySessionService, SessionLog as _, SessionService as _,
    session::{Append, RunOptions, SessionKey, Window},
};

async fn run(
    sessions: InMemorySessionService,
    key: SessionKey,
    name: &'static str,
) -> retain::Result<()> {
    // The run begins with the append of the user's message, which waits for the lease.
    let first = Append::from(Event::user_text(format!("{name}: question")));
    let begun = sessions
        .append(&key, first.beginning_run(RunOptions::default()))
        .await?;
    let run = begun.run.expect("a begun run has a token");
    for step in 1..=3 {
        let event = Event::model_text("agent", format!("{name}: step {step}"));
        sessions
            .append(&key, Append::from(event).within_run(run))
            .await?;
        tokio::task::yield_now().await;
    }
    let last = Event::model_text("agent", format!("{name}: answer"));
    sessions
        .append(&key, Append::from(last).ending_run(run))
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> retain::Result<()> {
    let sessions = InMemorySessionService::new();
    let key = sessions
        .create_session("app", "ada", None, Some("s1"))
        .await?
        .key();
    let runs =
        ["red", "green", "blue"].map(|name| tokio::spawn(run(sessions.clone(), key.clone(), name)));
    for run in runs {
        run.await.expect("no run panics")?;
    }
    let session = sessions
        .read(&key, Window::ALL)
        .await?
        .expect("the session was created above");
    let mut names = Vec::new();
    for (position, event) in session.events.iter_with_positions() {
        let text = event
            .content()
            .map(|content| content.text_concat())
            .unwrap_or_default();
        println!("{position:>3}  {text}");
        names.push(text.split(':').next().unwrap_or_default().to_owned());
    }
    names.dedup();
    assert_eq!(names.len(), 3, "the events of each run are contiguous");
    Ok(())
}
