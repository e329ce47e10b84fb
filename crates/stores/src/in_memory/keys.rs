//! The in-memory API key store: keys are lost when the process ends.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use retain_core::{ApiKey, KeyStore, Result};

/// An API key store whose keys are lost when the process ends. Clones share the keys.
#[derive(Debug, Clone, Default)]
pub struct InMemoryKeyStore {
    keys: Arc<Mutex<Vec<ApiKey>>>,
    had_any: Arc<AtomicBool>,
}

impl InMemoryKeyStore {
    fn lock(&self) -> MutexGuard<'_, Vec<ApiKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KeyStore for InMemoryKeyStore {
    async fn add(&self, key: &ApiKey) -> Result<()> {
        key.check()?;
        let mut keys = self.lock();
        if keys.iter().any(|existing| existing.id == key.id) {
            return Err(key.id_exists());
        }
        keys.push(key.clone());
        Ok(())
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>> {
        Ok(self.lock().iter().find(|key| key.id == id).cloned())
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        Ok(self.lock().clone())
    }

    async fn had_any(&self) -> Result<bool> {
        // Revoked keys stay in the list, so an empty list means that no key was added.
        Ok(!self.lock().is_empty() || self.had_any.load(Ordering::SeqCst))
    }

    async fn note_had_any(&self) -> Result<()> {
        self.had_any.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn revoke(&self, id: &str, now_us: i64) -> Result<bool> {
        let mut keys = self.lock();
        let key = keys.iter_mut().find(|key| key.id == id);
        Ok(key
            .map(|key| key.revoked_us.get_or_insert(now_us))
            .is_some())
    }

    async fn note_use(&self, id: &str, now_us: i64) -> Result<()> {
        let mut keys = self.lock();
        if let Some(key) = keys.iter_mut().find(|key| key.id == id) {
            key.last_used_us = key.last_used_us.max(Some(now_us));
        }
        Ok(())
    }
}
