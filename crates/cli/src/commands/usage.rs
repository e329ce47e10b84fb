//! `retain usage`: prints what a user or an app has stored.

use clap::Args;
use serde::Serialize;

use crate::output::say;

use super::{OpenMode, ServiceOptions};

/// Print what a user or an app has stored.
#[derive(Debug, Args)]
pub(crate) struct Usage {
    #[command(flatten)]
    stores: ServiceOptions,
    /// App to count
    #[arg(long)]
    app: String,
    /// User to count [default: all users of the app]
    #[arg(long)]
    user: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The counts, with the names of Retain's API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    sessions: u64,
    events: u64,
    event_bytes: u64,
    artifact_bytes: Option<u64>,
    memories: Option<u64>,
}

impl Usage {
    /// Counts and prints.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let services = self.stores.open(OpenMode::ReadOnly).await?.services;
        let (app, user) = (self.app.as_str(), self.user.as_deref());
        let sessions = services.sessions.usage(app, user).await?;
        let memories = match &services.long_term_memory {
            Some(memory) => Some(memory.usage(app, user).await?),
            None => None,
        };
        let counts = Counts {
            sessions: sessions.sessions,
            events: sessions.events,
            event_bytes: sessions.event_bytes,
            artifact_bytes: services.artifacts.usage(app, user).await?,
            memories,
        };
        if self.json {
            say!("{}", serde_json::to_string(&counts)?);
            return Ok(());
        }
        say!("sessions        {}", counts.sessions);
        say!("events          {}", counts.events);
        say!("event bytes     {}", counts.event_bytes);
        if let Some(bytes) = counts.artifact_bytes {
            say!("artifact bytes  {bytes}");
        }
        if let Some(memories) = counts.memories {
            say!("memories        {memories}");
        }
        Ok(())
    }
}
