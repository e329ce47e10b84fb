//! `retain erase`: erases a user and prints a receipt.

use clap::Args;

use crate::output::say;

use super::{OpenMode, ServiceOptions};

/// Erase all data of a user.
#[derive(Debug, Args)]
pub(crate) struct Erase {
    #[command(flatten)]
    stores: ServiceOptions,
    /// App of the user
    #[arg(long)]
    app: String,
    /// User to erase
    #[arg(long)]
    user: String,
    /// Confirm; without this nothing is erased
    #[arg(long)]
    yes: bool,
}

impl Erase {
    /// Erases the user and prints the receipt.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if !self.yes {
            anyhow::bail!(
                "erasing user {:?} cannot be undone; add --yes to confirm",
                self.user
            );
        }
        let sessions = self
            .stores
            .open(OpenMode::Existing)
            .await?
            .services
            .sessions;
        let receipt = sessions.erase_user(&self.app, &self.user).await?;
        say!(
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
