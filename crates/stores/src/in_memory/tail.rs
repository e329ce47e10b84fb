//! Waits until a session's log grows.

use retain_core::{SessionKey, store_rules::CHANGE_POLL};

use super::{InMemoryStore, schema::SessionLog};

/// Waits until the session may have events after `position`, at most [`CHANGE_POLL`].
pub(super) async fn changed(store: &InMemoryStore, key: &SessionKey, position: u64) {
    let notification = store.hub.listen(key);
    let now_us = store.now_us();
    let current = store.tables().log(key, now_us).map(SessionLog::position);
    if current.is_none_or(|current| current > position) {
        return;
    }
    // An expiry sends no notification, so limit the wait.
    let _ = tokio::time::timeout(CHANGE_POLL, notification).await;
}
