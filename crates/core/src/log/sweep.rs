//! Sweeping: deletes expired sessions, on request or periodically.

use std::time::Duration;

use super::StoreSessionService;
use crate::{error::Result, store::SessionStore};

impl<S: SessionStore> StoreSessionService<S> {
    /// Deletes expired sessions in chunks, so that other writes can run in between.
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

    /// Deletes expired sessions at this interval until the [`Sweeper`] is dropped.
    pub fn start_sweeper(&self, every: Duration) -> Sweeper {
        let service = self.clone();
        Sweeper(tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                // Ignore the error: callers see the store fail too, and the next sweep retries.
                let _ = service.sweep_expired().await;
            }
        }))
    }
}

/// Deletes expired sessions in the background until it is dropped.
#[derive(Debug)]
pub struct Sweeper(tokio::task::JoinHandle<()>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
