//! `retain append`: appends events from standard input and prints acknowledgements.

use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use retain::{Event, SessionError, SessionLog, session::SessionKey};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, Stdin};

use crate::output;

use super::Store;

/// Append events to a session.
#[derive(Debug, Args)]
pub(crate) struct Append {
    #[command(flatten)]
    store: Store,
    /// App of the session
    #[arg(long)]
    app: String,
    /// User of the session
    #[arg(long)]
    user: String,
    /// Session id; created if it does not exist
    #[arg(long)]
    session: String,
    /// Number of concurrent appends; with more than one, their order is not guaranteed
    #[arg(long, default_value_t = 1, value_name = "N")]
    in_flight: usize,
}

impl Append {
    /// Reads one event per line and prints `{"position":N,"id":"…"}` for each once it is durable, in
    /// the order of the lines.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let sessions = self.store.open().await?.sessions();
        let key = SessionKey::new(&self.app, &self.user, &self.session);
        let created = sessions.create_session(&self.app, &self.user, None, Some(&self.session));
        match created.await {
            Ok(_) | Err(SessionError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let lines = BufReader::new(tokio::io::stdin()).lines();
        let lines = Box::pin(stream::try_unfold((lines, 0u64), next_line));
        let mut acknowledged = lines
            .map(|line| {
                let (sessions, key) = (Arc::clone(&sessions), key.clone());
                // Append each line in its own task, so that concurrent appends share a commit.
                tokio::spawn(async move { append_line(&*sessions, &key, line?).await })
            })
            .buffered(self.in_flight.max(1));
        let mut out = tokio::io::stdout();
        while let Some(line) = acknowledged.try_next().await? {
            let line = line?;
            output::check(out.write_all(line.as_bytes()).await)?;
            output::check(out.flush().await)?;
        }
        Ok(())
    }
}

type Input = (Lines<BufReader<Stdin>>, u64);

/// Returns the next line that is not blank, with its number.
async fn next_line(
    (mut lines, mut number): Input,
) -> anyhow::Result<Option<((u64, String), Input)>> {
    while let Some(line) = lines.next_line().await? {
        number += 1;
        if !line.trim().is_empty() {
            return Ok(Some(((number, line), (lines, number))));
        }
    }
    Ok(None)
}

async fn append_line(
    sessions: &dyn SessionLog,
    key: &SessionKey,
    (number, line): (u64, String),
) -> anyhow::Result<String> {
    let event =
        Event::from_json(&line).with_context(|| format!("line {number} is not a valid event"))?;
    let appended = sessions.append(key, event.into()).await;
    let appended = appended.with_context(|| format!("line {number} was not stored"))?;
    match appended.events.first() {
        Some((position, event)) => {
            let id = retain::Json::from(event.id.as_str());
            Ok(format!("{{\"position\":{position},\"id\":{id}}}\n"))
        }
        // Partial events are never stored; that is not an error.
        None => Ok("{\"position\":null}\n".to_owned()),
    }
}
