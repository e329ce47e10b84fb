//! `retain import`: reads an export from standard input.

use clap::Args;
use futures_util::stream;
use retain::SessionError;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::output::say;

use super::{
    OpenMode, ServiceOptions,
    export::{KindOptions, archive},
};

/// Import sessions, memories and artifacts from JSON Lines.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    stores: ServiceOptions,
    #[command(flatten)]
    kinds: KindOptions,
}

impl Import {
    /// Imports the sessions from standard input and prints their number.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let set = self.stores.open(OpenMode::Create).await?;
        let lines = BufReader::new(tokio::io::stdin()).lines();
        let lines = stream::try_unfold(lines, |mut lines| async move {
            let line = lines.next_line().await.map_err(|e| SessionError::Store {
                store: "standard input",
                operation: "read",
                source: Box::new(e),
            })?;
            Ok(line.map(|line| (line, lines)))
        });
        let kinds = self.kinds.kinds();
        let receipt = archive(&set).import(Box::pin(lines), kinds).await?;
        say!(
            "imported: {} sessions, {} events, {} memories, {} hashes of forgotten memories, {} artifact \
             versions",
            receipt.sessions,
            receipt.events,
            receipt.memories,
            receipt.tombstones,
            receipt.artifacts
        );
        Ok(())
    }
}
