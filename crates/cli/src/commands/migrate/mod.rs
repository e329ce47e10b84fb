//! `retain migrate`: everything of one store to another.

mod ends;
mod progress;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use retain::store::{Migration, MigrationSurvey};

use ends::Role;
use progress::Progress;

/// Copy everything of one store to another.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Where from: sqlite:///relative.db, sqlite:////absolute.db, postgresql://user@host/database,
    /// or file:///folder of artifacts.
    /// It is only read. Nothing may write to it meanwhile.
    #[arg(long, value_name = "URI")]
    from: String,
    /// Where to: an address of the same kinds. Empty, or with a part of what is to be copied.
    #[arg(long, value_name = "URI")]
    to: String,
    /// Copy only this kind, and look at nothing else.
    #[arg(long, value_name = "KIND")]
    only: Option<Kind>,
    /// Say what there is to do, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What can be moved by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Sessions, and the state that they share.
    Sessions,
    /// Memories, and what was forgotten.
    Memories,
    /// Artifacts.
    Artifacts,
    /// API keys.
    Keys,
}

impl Migrate {
    /// Prints what was copied, after everything was compared.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        ends::check_apart(&self.from, &self.to)?;
        let from = ends::open(&self.from, Role::Source).await?;
        let to = match self.dry_run {
            true => Role::Look,
            false => Role::Target,
        };
        let to = ends::open(&self.to, to).await?;
        let (from, to) = match self.only {
            Some(kind) => ends::narrow(kind, from, to).await?,
            None => (from, to),
        };
        let progress = Arc::new(Progress::new());
        let watch = Arc::clone(&progress);
        let migration = Migration::new(from, to).with_watch(watch);
        if self.dry_run {
            let survey = migration.survey().await;
            progress.end();
            tell(&survey?);
            return Ok(());
        }
        let report = migration.run().await;
        progress.end();
        let report = report?;
        println!("copied:   {}", report.copied);
        println!("verified: {}", report.counts);
        println!("          both sides have the SHA-256 {}", report.digest);
        Ok(())
    }
}

fn tell(survey: &MigrationSurvey) {
    println!("in the source:       {}", survey.found);
    println!("of it in the target: {}", survey.there);
    println!("nothing was written; without --dry-run the rest is copied");
}
