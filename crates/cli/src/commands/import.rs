//! `retain import`: reads an export from standard input.

use clap::Args;
use futures_util::stream;
use retain::SessionError;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::output::say;

use super::{OpenMode, ServiceOptions};

/// Import sessions from JSON Lines.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    stores: ServiceOptions,
}

impl Import {
    /// Imports the sessions from standard input and prints their number.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let sessions = self.stores.open(OpenMode::Create).await?.services.sessions;
        let lines = BufReader::new(tokio::io::stdin()).lines();
        let lines = stream::try_unfold(lines, |mut lines| async move {
            let line = lines.next_line().await.map_err(|e| SessionError::Store {
                store: "standard input",
                operation: "read",
                source: Box::new(e),
            })?;
            Ok(line.map(|line| (line, lines)))
        });
        let receipt = sessions.import(Box::pin(lines)).await?;
        say!(
            "imported: {} sessions, {} events",
            receipt.sessions,
            receipt.events
        );
        Ok(())
    }
}
