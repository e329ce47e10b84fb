//! `retain check`: checks a database for corruption.

use clap::Args;

use crate::output::say;

use super::Store;

/// Check a database for corruption.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    store: Store,
}

impl Check {
    /// Prints every problem; fails if there is one.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let problems = self.store.open_to_read().await?.sessions().check().await?;
        for problem in &problems {
            say!("{problem}");
        }
        match problems.len() {
            0 => say!("no corruption found"),
            1 => anyhow::bail!("1 problem found"),
            count => anyhow::bail!("{count} problems found"),
        }
        Ok(())
    }
}
