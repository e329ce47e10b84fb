//! `retain erase`: erases a user from every store and prints a receipt.

use clap::Args;
use retain::{
    server::erase_report_json,
    session::{EraseReport, ErasedStore, Eraser},
};

use crate::output::say;

use super::{OpenMode, ServiceOptions};

/// Erase all data of a user from every store.
///
/// Prints a receipt that lists each store with what was deleted there, and what the store cannot
/// guarantee. Without a receipt the erase is not complete: run it again. It takes the stores of
/// `retain serve` in this folder, if no option names others.
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
    /// Print the receipt as JSON, as the API returns it
    #[arg(long)]
    json: bool,
    /// Confirm; without this nothing is erased
    #[arg(long)]
    yes: bool,
}

impl Erase {
    /// Prints the receipt. Fails if a store did not finish.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if !self.yes {
            anyhow::bail!(
                "erasing user {:?} cannot be undone; add --yes to confirm",
                self.user
            );
        }
        let services = self.stores.open(OpenMode::Existing).await?.services;
        let eraser = Eraser::new(services.sessions, services.memory, services.artifacts);
        let report = eraser.erase_user(&self.app, &self.user).await?;
        let is_complete = report.is_complete();
        match self.json {
            true => say!("{}", erase_report_json(report)?),
            false => self.print(&report)?,
        }
        anyhow::ensure!(
            is_complete,
            "the erase of user {:?} is not complete; see the receipt",
            self.user
        );
        Ok(())
    }

    fn print(&self, report: &EraseReport) -> anyhow::Result<()> {
        say!("erased user {:?} of app {:?}:", self.user, self.app);
        for ErasedStore {
            store,
            receipt,
            notes,
            ..
        } in &report.stores
        {
            let address = store.address.as_deref().unwrap_or("in memory");
            say!("  {} {address}", store.kind);
            say!(
                "    {} sessions, {} events, {} state keys, {} artifact versions, {} memories, {} hashes \
                 of forgotten memories, {} API keys",
                receipt.sessions,
                receipt.events,
                receipt.state_keys,
                receipt.artifacts,
                receipt.memories,
                receipt.tombstones,
                receipt.api_keys
            );
            for note in notes {
                say!("    note: {note}");
            }
        }
        Ok(())
    }
}
