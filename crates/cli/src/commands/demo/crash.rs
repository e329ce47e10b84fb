//! A chapter of the demo: kill a writer and check the database.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    thread::JoinHandle,
};

use anyhow::Context as _;
use retain::{Event, Session, SessionLog as _, SqliteSessionService, session::Append};

use crate::output::say;

use super::{APP, USER, format::print_chapter, read};

const SESSION: &str = "crash";
const EVENTS: usize = 500;

/// Kills a writer and checks what is stored.
pub(super) async fn show(uri: &str) -> anyhow::Result<()> {
    print_chapter(5, "A crash")?;
    let acknowledged = write_and_kill(uri)?;
    say!("  a writer process was killed (SIGKILL) after it had acknowledged {acknowledged} events");
    let sessions = SqliteSessionService::connect(uri).await?;
    let session = read(&sessions, SESSION).await?;
    let stored = session.events.len();
    anyhow::ensure!(
        stored >= acknowledged,
        "{} events are lost",
        acknowledged - stored
    );
    say!("  reopened: {stored} events, in order, no acknowledged event lost");
    let position = send_last_again(&sessions, &session).await?;
    say!("  last event sent again: position {position}, stored once");
    let problems = sessions.check().await?;
    anyhow::ensure!(problems.is_empty(), "corruption: {problems:?}");
    say!("  database check: no corruption");
    Ok(())
}

/// Starts a writer and kills it after 100 acknowledgements. Returns the number of all
/// acknowledgements, including those that it still sent before it died.
fn write_and_kill(uri: &str) -> anyhow::Result<usize> {
    let mut writer = start_writer(uri)?;
    let feeder = send_events(
        writer
            .stdin
            .take()
            .context("the writer has no standard input")?,
    );
    let acknowledgements = writer
        .stdout
        .take()
        .context("the writer has no standard output")?;
    let mut acknowledged = 0;
    for line in BufReader::new(acknowledgements).lines() {
        line?;
        acknowledged += 1;
        if acknowledged == 100 {
            writer.kill()?;
        }
    }
    writer.wait()?;
    let _ = feeder.join();
    Ok(acknowledged)
}

fn start_writer(uri: &str) -> anyhow::Result<Child> {
    let mut writer = Command::new(std::env::current_exe()?);
    writer.args(["append", "--store", uri, "--app", APP, "--user", USER]);
    writer.args(["--session", SESSION]);
    writer.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(writer.stderr(Stdio::null()).spawn()?)
}

fn send_events(mut input: ChildStdin) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for number in 1..=EVENTS {
            let Ok(line) = event(number).to_json() else {
                return;
            };
            // The write fails once the writer is killed.
            if writeln!(input, "{line}").is_err() {
                return;
            }
        }
    })
}

/// Sends the last event again, like a client that lost the acknowledgement.
async fn send_last_again(
    sessions: &SqliteSessionService,
    session: &Session,
) -> anyhow::Result<u64> {
    let mut retried = event(session.events.len());
    retried.timestamp = session.events.last().map_or(0.0, |event| event.timestamp);
    let key = session.key();
    let again = sessions.append(&key, Append::from(retried)).await?;
    let (position, _) = again.events.first().context("nothing was appended")?;
    Ok(*position)
}

fn event(number: usize) -> Event {
    let mut event = Event::user_text(format!("message {number}"));
    event.invocation_id = "load".to_owned();
    event.id = format!("event-{number}");
    event
}
