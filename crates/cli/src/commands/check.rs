//! `retain check`: is everything there, and can it be read?

use super::Store;
use clap::Args;

/// Look for damage.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    store: Store,
}

impl Check {
    /// Prints every problem; fails if there is one.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let problems = self.store.open_existing().await?.sessions().check().await?;
        for problem in &problems {
            println!("{problem}");
        }
        match problems.len() {
            0 => println!("no damage found"),
            count => anyhow::bail!("{count} problems found"),
        }
        Ok(())
    }
}
