//! Writes on behalf of a session, which are refused once the session no longer exists.

use std::sync::Arc;

use retain_core::{IngestReceipt, MemoryBatch, MemoryError, MemoryStore, SessionOrigin};

use super::StoreMemoryService;

impl<S: MemoryStore> StoreMemoryService<S> {
    /// Returns a service whose writes are made for a session, and refused once it no longer exists.
    pub(super) fn bound_to(&self, origin: SessionOrigin) -> Self {
        let mut bound = self.clone();
        bound.origin = Some(origin);
        bound
    }

    /// Writes a batch, unless the session on whose behalf it is written no longer exists.
    pub(super) async fn write_batch(
        &self,
        batch: Arc<MemoryBatch>,
    ) -> Result<IngestReceipt, MemoryError> {
        let Some(origin) = &self.origin else {
            return self.store.add(batch).await;
        };
        loop {
            let erasures = self.store.erasures().await?;
            if !origin.exists().await.map_err(MemoryError::backend)? {
                let key = origin.key().clone();
                return Err(MemoryError::SessionGone { key });
            }
            let added = self.store.add_unless_erased(Arc::clone(&batch), erasures);
            if let Some(added) = added.await? {
                return Ok(added);
            }
        }
    }
}
