//! A long conversation: a summary replaces old turns in the prompt, and a rewind undoes the last
//! run. The log keeps all events.
//!
//! Run it with `cargo run --example long_conversation`.

use std::sync::Arc;

use retain::{
    Event, GetSessionConfig, InMemorySessionService, LlmAgent, Runner, ScriptedModel,
    SessionService, runner::CompactionConfig,
};

type Error = Box<dyn std::error::Error>;

/// Sends a message, prints the answer and returns the id of the run.
async fn say(runner: &Runner, text: &str) -> Result<String, Error> {
    let run = runner.run("ada", Some("s1"), text).await?;
    let id = run.invocation_id().to_owned();
    println!("ada: {text}\ndesk: {}", run.answer().await?);
    Ok(id)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let model = ScriptedModel::new("scripted")
        .reply("There is a train at 8:05, and one at 9:20, which is an express.")
        .reply("Booked: the express at 9:20, window seat, coach 4.")
        // By default the agent's own model writes the summary.
        .reply("Ada goes to Oslo; the express at 9:20 is booked.")
        .reply("Cancelled.")
        .reply("You go to Oslo with the express at 9:20.");
    let model = Arc::new(model);
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("travel")
        .agent(LlmAgent::builder("desk").model(model.clone()).build()?)
        .session_service(sessions.clone())
        .auto_create_session(true)
        // After every two runs, summarize these two and the one before them.
        .compaction(CompactionConfig::new().with_sliding_window(2, 1))
        .build()?;

    say(&runner, "When do trains go to Oslo tomorrow?").await?;
    say(&runner, "Book the express, please.").await?;
    // The summary is written in the background. Only tests and shutdown wait for it.
    runner.flush_compaction().await;

    let cancelled = say(&runner, "Cancel everything!").await?;
    runner.rewind("ada", "s1", &cancelled).await?;
    say(&runner, "What did I book?").await?;

    let requests = model.requests();
    let sent = requests.last().ok_or("the model received no request")?;
    let sent: Vec<String> = sent
        .contents
        .iter()
        .map(|content| content.text_concat())
        .collect();
    let expected = [
        "Ada goes to Oslo; the express at 9:20 is booked.",
        "What did I book?",
    ];
    assert_eq!(
        sent, expected,
        "the prompt has a summary instead of the old turns, and not the rewound one"
    );

    let all = GetSessionConfig::default();
    let session = sessions.get_session("travel", "ada", "s1", all).await?;
    let session = session.ok_or("session not found")?;
    let has_no_content = |event: &&Event| event.content().is_none();
    let without_content = session.events.iter().filter(has_no_content).count();
    println!(
        "{} events, of which {without_content} are a summary and a rewind",
        session.events.len()
    );
    assert_eq!((session.events.len(), without_content), (10, 2));
    Ok(())
}
