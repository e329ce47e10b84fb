//! Sweeping: what is left of expired sessions is removed, on request or every so often.

use std::time::Duration;

use super::StoreSessionService;
use crate::{error::Result, store::SessionStore};

impl<S: SessionStore> StoreSessionService<S> {
    /// Deletes what has expired, a chunk at a time, letting others write in between.
    pub(super) async fn sweep_expired(&self) -> Result<u64> {
        const CHUNK: usize = 64;
        let mut swept = 0;
        loop {
            let chunk = self.store.sweep(CHUNK).await?;
            swept += chunk;
            if chunk < CHUNK as u64 {
                return Ok(swept);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Sweeps expired sessions every so often, until the [`Sweeper`] is dropped.
    pub fn start_sweeper(&self, every: Duration) -> Sweeper {
        let service = self.clone();
        Sweeper(tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                // A failing store fails its users too; the next round tries again.
                let _ = service.sweep_expired().await;
            }
        }))
    }
}

/// Sweeps expired sessions in the background as long as it lives.
#[derive(Debug)]
pub struct Sweeper(tokio::task::JoinHandle<()>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
