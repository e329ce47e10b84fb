//! `retain upgrade`: upgrades the schema of a database, and finishes the upgrade.

use clap::Args;

use crate::output::say;

use super::{Database, Store};

/// Upgrade the schema of a database.
///
/// Programs of the previous version keep working until `--finish`, so that replicas can be replaced
/// one after another. `retain serve` upgrades the schema too, when it starts.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    #[command(flatten)]
    store: Store,
    /// Also remove what only the previous version needs; its programs cannot use the database
    /// afterwards
    #[arg(long)]
    finish: bool,
}

impl Upgrade {
    /// Upgrades the schema, and prints its version and what is left to finish.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let database = Database::upgrade(&self.store.store).await?;
        let store = database.store();
        let schema = match self.finish {
            true => store.finish_upgrade().await?,
            false => store.schema().await?,
        };
        say!("schema version {}", schema.version);
        if schema.version > schema.supported {
            let supported = schema.supported;
            say!("a newer Retain upgraded this database; this one supports version {supported}");
        }
        if !schema.unfinished.is_empty() {
            let names = schema.unfinished.join(", ");
            say!("not finished: {names}");
            say!("when no older program uses the database, run: retain upgrade --finish");
        }
        Ok(())
    }
}
