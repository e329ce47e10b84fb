//! `retain migrate`: copies everything from one store to another.

mod progress;
mod sides;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use retain::store::{Migration, MigrationSurvey};

use crate::output::say;

use progress::Progress;
use sides::Role;

/// Copy everything from one store to another.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// URL of the source: sqlite:///relative.db, sqlite:////absolute.db, postgresql://user@host/database,
    /// or file:///folder for artifacts.
    /// The source is only read. Stop all its writers first
    #[arg(long, value_name = "URI")]
    from: String,
    /// URL of the target, in the same forms; the target must be empty or hold part of the source's data
    #[arg(long, value_name = "URI")]
    to: String,
    /// Copy only this kind of data
    #[arg(long, value_name = "KIND")]
    only: Option<Kind>,
    /// Print what would be copied and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// A kind of data that can be copied alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Sessions and shared state
    Sessions,
    /// Memories and the hashes of forgotten ones
    Memories,
    /// Artifacts
    Artifacts,
    /// API keys
    Keys,
}

impl Migrate {
    /// Copies and verifies the data, and prints the counts.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        sides::check_distinct(&self.from, &self.to)?;
        let from = sides::open(&self.from, Role::Source).await?;
        let to = match self.dry_run {
            true => Role::DryRunTarget,
            false => Role::Target,
        };
        let to = sides::open(&self.to, to).await?;
        let (from, to) = match self.only {
            Some(kind) => sides::keep_one_kind(kind, from, to).await?,
            None => (from, to),
        };
        let progress = Arc::new(Progress::new());
        let observer = Arc::clone(&progress);
        let migration = Migration::new(from, to).with_observer(observer);
        if self.dry_run {
            let survey = migration.survey().await;
            progress.end();
            return print_survey(&survey?);
        }
        let report = migration.run().await;
        progress.end();
        let report = report?;
        say!("copied:   {}", report.copied);
        say!("verified: {}", report.counts);
        say!("          both sides have the SHA-256 {}", report.digest);
        Ok(())
    }
}

fn print_survey(survey: &MigrationSurvey) -> anyhow::Result<()> {
    say!("in the source:       {}", survey.found);
    say!("already in target:   {}", survey.present);
    say!("dry run: nothing was written; run without --dry-run to copy the rest");
    Ok(())
}
