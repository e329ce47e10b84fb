//! A crash interrupts a run, and `Runner::resume` continues it where it stopped.
//!
//! Run it with `cargo run --example resume_after_a_crash`.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures_util::StreamExt as _;
use retain::{
    Content, Event, FunctionCall, FunctionTool, GetSessionConfig, LlmAgent, Runner, ScriptedModel,
    SessionService, SqliteSessionService, ToolContext, ToolError, agent::SequentialAgent,
};

/// Number of times that the tool ran, before and after the crash.
static BOOKED: AtomicU32 = AtomicU32::new(0);

/// Returns an agent that books a table, and one that writes a letter. The booking model replies
/// with `lines`, without the first `skipped` ones.
fn team(skipped: usize) -> Result<SequentialAgent, Box<dyn std::error::Error>> {
    let book = FunctionTool::new("book", "Books a table.", |_: ToolContext, (): ()| async {
        BOOKED.fetch_add(1, Ordering::Relaxed);
        Ok::<_, ToolError>(serde_json::json!({"table": 7}))
    });
    let lines = [
        Content::new(
            "model",
            vec![FunctionCall::new("book", retain::Json::Null).into()],
        ),
        Content::model("Table 7 is booked."),
    ];
    let model = ScriptedModel::new("scripted");
    let model = lines
        .into_iter()
        .skip(skipped)
        .fold(model, ScriptedModel::reply);
    let booking = LlmAgent::builder("booking")
        .model(model)
        .tool(book)
        .build()?;
    let model = ScriptedModel::new("scripted").reply("Dear guests, see you at table 7.");
    let letter = LlmAgent::builder("letter").model(model).build()?;
    let team = SequentialAgent::builder("team")
        .sub_agent(booking)
        .sub_agent(letter);
    Ok(team.build()?)
}

fn runner(
    sessions: &Arc<dyn SessionService>,
    skipped_lines: usize,
) -> Result<Runner, Box<dyn std::error::Error>> {
    let runner = Runner::builder()
        .app_name("dinner")
        .agent(team(skipped_lines)?)
        .session_service(Arc::clone(sessions))
        .auto_create_session(true)
        .resumable(true);
    Ok(runner.build()?)
}

fn describe(event: &Event) -> String {
    let text = event.content().map(|content| {
        let calls = content
            .function_calls()
            .filter_map(|call| call.name.clone());
        let answers = content
            .function_responses()
            .filter_map(|answer| answer.name.clone());
        let calls = calls.map(|name| format!("calls {name}"));
        let answers = answers.map(|name| format!("{name} returns"));
        let texts = content.parts().iter().filter_map(|part| part.text.clone());
        texts
            .chain(calls)
            .chain(answers)
            .collect::<Vec<_>>()
            .join(", ")
    });
    match (text, &event.actions.agent_state, event.actions.end_of_agent) {
        (Some(text), ..) => text,
        (None, Some(state), _) => format!("checkpoint {}", retain::Json::from(state.clone())),
        (None, None, Some(true)) => "has ended".to_owned(),
        _ => String::new(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sessions: Arc<dyn SessionService> =
        Arc::new(SqliteSessionService::connect("sqlite::memory:").await?);

    let first = runner(&sessions, 0)?;
    let mut run = first
        .run("ada", Some("s1"), "A table for two, please.")
        .await?;
    let id = run.invocation_id().to_owned();
    // Interrupt the first process after the booking and before the answer to the user.
    while let Some(event) = run.next().await {
        let event = event?;
        println!("{}: {}", event.author, describe(&event));
        if !event.function_responses().is_empty() {
            break;
        }
    }
    run.handle().cancel();
    while run.next().await.is_some() {}
    println!("-- interrupted --");

    let second = runner(&sessions, 1)?;
    let mut run = second.resume("ada", "s1", &id).await?;
    while let Some(event) = run.next().await {
        let event = event?;
        println!("{}: {}", event.author, describe(&event));
    }

    let config = GetSessionConfig::default();
    let session = sessions.get_session("dinner", "ada", "s1", config).await?;
    let events = session.map(|session| session.events.len()).unwrap_or(0);
    let booked = BOOKED.load(Ordering::Relaxed);
    println!("booked {booked} time(s), {events} events");
    assert_eq!(booked, 1, "the resumed run does not repeat the tool call");
    Ok(())
}
