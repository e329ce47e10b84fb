//! `retain append`: events in, acknowledgements out. What is acknowledged is on the disk.

use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use retain::{Event, SessionError, SessionLog, session::SessionKey};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, Stdin};

use super::Store;

/// Append events to a session.
#[derive(Debug, Args)]
pub(crate) struct Append {
    #[command(flatten)]
    store: Store,
    /// The app.
    #[arg(long)]
    app: String,
    /// The user.
    #[arg(long)]
    user: String,
    /// The session; created if it is not there.
    #[arg(long)]
    session: String,
    /// How many appends may be under way at once. With more than one, their order is not promised.
    #[arg(long, default_value_t = 1, value_name = "N")]
    in_flight: usize,
}

impl Append {
    /// Reads a line an event from standard input and writes `{"position":N,"id":"…"}` for each, in
    /// the order of the lines, once it is durable.
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
                // A task each, so that appends that are under way together commit together.
                tokio::spawn(async move { append_line(&*sessions, &key, line?).await })
            })
            .buffered(self.in_flight.max(1));
        let mut out = tokio::io::stdout();
        while let Some(line) = acknowledged.try_next().await? {
            out.write_all(line?.as_bytes()).await?;
            out.flush().await?;
        }
        Ok(())
    }
}

type Input = (Lines<BufReader<Stdin>>, u64);

/// The next line that is not blank, with its number.
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
        Event::from_json(&line).with_context(|| format!("line {number} is not an event"))?;
    let appended = sessions.append(key, event.into()).await;
    let appended = appended.with_context(|| format!("line {number} was not stored"))?;
    match appended.events.first() {
        Some((position, event)) => {
            let id = retain::Json::from(event.id.as_str());
            Ok(format!("{{\"position\":{position},\"id\":{id}}}\n"))
        }
        // A partial event is never stored, and that is no error.
        None => Ok("{\"position\":null}\n".to_owned()),
    }
}
