//! `retain erase`: removes everything of a user, with a receipt.

use super::Store;
use clap::Args;

/// Remove everything of a user.
#[derive(Debug, Args)]
pub(crate) struct Erase {
    #[command(flatten)]
    store: Store,
    /// The app.
    #[arg(long)]
    app: String,
    /// The user.
    #[arg(long)]
    user: String,
    /// Do it; without this nothing is removed.
    #[arg(long)]
    yes: bool,
}

impl Erase {
    /// Prints what was removed.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if !self.yes {
            anyhow::bail!(
                "this cannot be undone; say --yes to erase user {:?}",
                self.user
            );
        }
        let sessions = self.store.open_existing().await?.sessions();
        let receipt = sessions.erase_user(&self.app, &self.user).await?;
        println!(
            "erased: {} sessions, {} events, {} state keys, {} artifact versions, {} memories \
             of user {:?}",
            receipt.sessions,
            receipt.events,
            receipt.state_keys,
            receipt.artifacts,
            receipt.memories,
            self.user
        );
        Ok(())
    }
}
