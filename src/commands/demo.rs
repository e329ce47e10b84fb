//! `retain demo`: the story of a session, told in the terminal on a real SQLite file.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;
use clap::Args;
use retain::{
    Append, Content, Event, GetSessionConfig, LlmResponse, Session, SessionKey, SessionLog as _,
    SessionService as _, SqliteSessionService, State, StateScope,
};

const APP: &str = "travel";
const USER: &str = "ada";

/// Tell the story of a session.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Keep the database in this folder instead of a temporary one.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl Demo {
    /// Tells the story and cleans up behind itself.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let folder = match &self.keep {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("retain-demo-{}", std::process::id())),
        };
        std::fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let file = folder.join("demo.db");
        if file.exists() {
            anyhow::bail!("{} is there already; give another folder", file.display());
        }
        let told = tell(&file).await;
        if self.keep.is_none() {
            std::fs::remove_dir_all(&folder)?;
        }
        told?;
        match self.keep {
            Some(_) => println!("\nThe database is {}.", file.display()),
            None => println!("\nRun it with --keep FOLDER to keep the database and look at it."),
        }
        Ok(())
    }
}

async fn tell(file: &Path) -> anyhow::Result<()> {
    let uri = format!("sqlite:///{}", file.display());
    println!("Retain: sessions in one SQLite file, every acknowledged write on the disk.");
    let sessions = SqliteSessionService::connect(&uri).await?;
    conversation(&sessions).await?;
    other_session(&sessions).await?;
    rewind(&sessions).await?;
    fork(&sessions).await?;
    drop(sessions);
    crash(&uri).await
}

/// A session with state in every scope.
async fn conversation(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    chapter(1, "A conversation, with state in every scope");
    let state = State::from([("task", "find a room"), ("app:season", "summer")]);
    let created = sessions.create_session(APP, USER, Some(state), Some("oslo"));
    let mut session = created.await?;
    let mut said = user("turn-1", "A room in Oslo please. I prefer high floors.");
    said.actions.state_delta.insert("user:floor", "high");
    sessions.append_event(&mut session, said).await?;
    let mut answer = agent("turn-1", "The Fjord has a room on the 12th floor.");
    answer.actions.state_delta.insert("hotel", "The Fjord");
    answer
        .actions
        .state_delta
        .insert("temp:price_check", "running");
    sessions.append_event(&mut session, answer).await?;
    print_events(&session);
    println!("  while the run lasts, its session has:");
    print_state(&session.state);
    let stored = read(sessions, "oslo").await?;
    println!("  read back, temp: is gone and everything else is there:");
    print_state(&stored.state);
    Ok(())
}

/// What is shared between sessions, and what is not.
async fn other_session(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    chapter(2, "Other sessions see what they should");
    let next = sessions
        .create_session(APP, USER, None, Some("bergen"))
        .await?;
    println!("  a new session of the same user has the user's and the app's keys:");
    print_state(&next.state);
    let other = sessions
        .create_session(APP, "bob", None, Some("bergen"))
        .await?;
    println!("  a session of another user has the app's:");
    print_state(&other.state);
    Ok(())
}

/// Taking a turn back.
async fn rewind(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    chapter(3, "A turn is taken back");
    let mut session = read(sessions, "oslo").await?;
    sessions
        .append_event(&mut session, user("turn-2", "Book it for ten nights."))
        .await?;
    let mut answer = agent("turn-2", "Booked: The Fjord, ten nights.");
    answer.actions.state_delta.insert("task", "done");
    answer.actions.state_delta.insert("nights", 10);
    sessions.append_event(&mut session, answer).await?;
    println!("  after turn 2:");
    print_state(&session.state);
    sessions.rewind(&session.key(), "turn-2").await?;
    let session = read(sessions, "oslo").await?;
    println!("  rewound before turn 2, exactly as it was, \"nights\" not even null:");
    print_state(&session.state);
    println!(
        "  nothing was deleted: the log has {} events, the last one is the rewind",
        session.position
    );
    let past = sessions.state_at(&session.key(), 4).await?;
    println!("  and the state after event 4 can still be looked at:");
    print_state(&past);
    Ok(())
}

/// Two futures of one past.
async fn fork(sessions: &SqliteSessionService) -> anyhow::Result<()> {
    chapter(4, "A fork: two futures of one past");
    let key = SessionKey::new(APP, USER, "oslo");
    let mut fork = sessions.fork(&key, Some(2), Some("oslo-cheaper")).await?;
    sessions
        .append_event(&mut fork, user("turn-2", "Something cheaper?"))
        .await?;
    println!("  session \"oslo-cheaper\" begins with the first 2 events of \"oslo\":");
    print_events(&fork);
    let origin = read(sessions, "oslo").await?;
    println!(
        "  \"oslo\" still has its own {} events",
        origin.events.len()
    );
    Ok(())
}

/// A writer is killed in the middle of its work.
async fn crash(uri: &str) -> anyhow::Result<()> {
    chapter(5, "A crash");
    const EVENTS: usize = 500;
    let mut writer = Command::new(std::env::current_exe()?)
        .args([
            "append",
            "--store",
            uri,
            "--app",
            APP,
            "--user",
            USER,
            "--session",
            "crash",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = writer.stdin.take().context("the writer takes no input")?;
    let feeder = std::thread::spawn(move || {
        for n in 1..=EVENTS {
            let mut event = user("load", &format!("message {n}"));
            event.id = format!("event-{n}");
            let Ok(line) = event.to_json() else { return };
            // The writer is killed while we feed it.
            if writeln!(input, "{line}").is_err() {
                return;
            }
        }
    });
    let acknowledgements = writer.stdout.take().context("the writer has no output")?;
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
    println!(
        "  another process was killed (SIGKILL) after it had acknowledged {acknowledged} events"
    );
    let sessions = SqliteSessionService::connect(uri).await?;
    let session = read(&sessions, "crash").await?;
    let stored = session.events.len();
    anyhow::ensure!(
        stored >= acknowledged,
        "{} events are lost",
        acknowledged - stored
    );
    println!("  reopened: {stored} events, in order, none of the acknowledged lost");
    let mut retried = user("load", &format!("message {stored}"));
    retried.id = format!("event-{stored}");
    retried.timestamp = session.events.last().map_or(0.0, |event| event.timestamp);
    let again = sessions
        .append(&session.key(), Append::from(retried))
        .await?;
    let position = again.events.first().map(|(position, _)| *position);
    println!(
        "  the last one sent again: position {}, stored once",
        position.unwrap_or_default()
    );
    let problems = sessions.check().await?;
    anyhow::ensure!(problems.is_empty(), "damage: {problems:?}");
    println!("  the database was checked: no damage");
    Ok(())
}

async fn read(sessions: &SqliteSessionService, id: &str) -> anyhow::Result<Session> {
    let read = sessions
        .get_session(APP, USER, id, GetSessionConfig::default())
        .await?;
    read.with_context(|| format!("session {id} is gone"))
}

fn user(invocation: &str, text: &str) -> Event {
    let mut event = Event::new("user", LlmResponse::of(Content::user(text)));
    event.invocation_id = invocation.to_owned();
    event
}

fn agent(invocation: &str, text: &str) -> Event {
    let mut event = Event::new("assistant", LlmResponse::of(Content::model(text)));
    event.invocation_id = invocation.to_owned();
    event
}

fn chapter(number: u32, title: &str) {
    println!("\n{number}. {title}");
}

fn print_events(session: &Session) {
    for (position, event) in session.events.iter_with_positions() {
        let text = event
            .content()
            .map(Content::text_concat)
            .unwrap_or_default();
        println!("  {position:>3}  {:<10} {text}", event.author);
    }
}

fn print_state(state: &State) {
    let mut keys: Vec<_> = state.iter().collect();
    keys.sort_by_key(|(key, _)| (StateScope::of(key) as u8 != StateScope::Session as u8, *key));
    for (key, value) in keys {
        println!("       {key:<18} {value}");
    }
}
