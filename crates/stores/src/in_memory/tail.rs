//! Waits until a session's log grows.

use retain_core::{SessionKey, store_rules::CHANGE_POLL};

use super::{InMemoryStore, schema::SessionLog};

/// Returns when the session may have changed after `position`, or after a while.
pub(super) async fn changed(store: &InMemoryStore, key: &SessionKey, position: u64) {
    let ring = store.hub.listen(key);
    let now_us = store.now_us();
    let here = store.tables().log(key, now_us).map(SessionLog::position);
    if here.is_none_or(|here| here > position) {
        return;
    }
    // An expiry sends no notification, so the wait is bounded.
    let _ = tokio::time::timeout(CHANGE_POLL, ring).await;
}
