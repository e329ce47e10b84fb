//! `retain sweep`: deletes what has expired, once.

use std::{sync::Arc, time::Duration};

use clap::Args;
use retain::{
    Json,
    runner::{Maintenance, MaintenanceReport},
    state::JsonMap,
};

use crate::output::{note, say};

use super::{OpenMode, ServiceOptions};

/// How often to try again while a server sweeps.
const TRIES: u32 = 60;

/// Delete expired sessions with their artifacts and memories, and expired memories.
///
/// `retain serve` does this once a minute. It also finishes the work that must follow runs, which
/// needs the agents; this command prints how many sessions wait for it.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    stores: ServiceOptions,
    /// Print the receipt as a JSON object
    #[arg(long)]
    json: bool,
}

impl Sweep {
    /// Sweeps and prints the receipt. Fails if something could not be deleted.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let services = self.stores.open(OpenMode::Existing).await?.services;
        let maintenance = Maintenance::new(Arc::clone(&services.sessions))
            .with_memory(Arc::clone(&services.memory))
            .with_artifacts(Arc::clone(&services.artifacts));
        let report = sweep_in_turn(&maintenance).await?;
        let pending = maintenance.status().pending_sessions();
        match self.json {
            true => say!("{}", receipt_json(&report, pending)),
            false => print_receipt(&report, pending)?,
        }
        let failures = &report.swept.failures;
        for (session, error) in failures {
            note!("session {session} stays until the next sweep: {error}");
        }
        anyhow::ensure!(
            failures.is_empty(),
            "the sweep is incomplete; correct the causes and run it again"
        );
        Ok(())
    }
}

/// Sweeps, after waiting for another process that is sweeping.
async fn sweep_in_turn(maintenance: &Maintenance) -> anyhow::Result<MaintenanceReport> {
    for _ in 0..TRIES {
        let report = maintenance.run_once().await?;
        if !report.is_skipped {
            return Ok(report);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    anyhow::bail!("another process has been sweeping for {TRIES} seconds; try again later")
}

fn print_receipt(report: &MaintenanceReport, pending: u64) -> anyhow::Result<()> {
    let swept = &report.swept;
    say!(
        "deleted: {} expired sessions, {} of their artifact versions, {} of their memories, {} \
         expired memories",
        swept.sessions,
        swept.artifacts,
        swept.memories,
        report.expired_memories
    );
    if pending > 0 {
        say!("pending: {pending} sessions with work after runs, which `retain serve` finishes");
    }
    Ok(())
}

fn receipt_json(report: &MaintenanceReport, pending: u64) -> Json {
    let swept = &report.swept;
    let receipt = JsonMap::from([
        ("sessions", swept.sessions),
        ("artifactVersions", swept.artifacts),
        ("sessionMemories", swept.memories),
        ("expiredMemories", report.expired_memories),
        ("failedSessions", swept.failures.len() as u64),
        ("pendingSessions", pending),
    ]);
    receipt.into()
}
