//! Erases a user's sessions, drafts and state.

use retain_core::{EraseReceipt, SessionKey};

use super::schema::SessionTables;

/// Erases a user and returns the receipt with the keys of the erased sessions.
pub(super) fn erase_user(
    tables: &mut SessionTables,
    app: &str,
    user: &str,
) -> (EraseReceipt, Vec<SessionKey>) {
    let is_owned = |key: &SessionKey| key.app == app && key.user == user;
    let keys = tables.logs.keys().filter(|key| is_owned(key));
    let keys: Vec<SessionKey> = keys.cloned().collect();
    tables.drafts.retain(|_, draft| !is_owned(&draft.key));
    let mut receipt = EraseReceipt::default();
    for key in &keys {
        if let Some(log) = tables.logs.remove(key) {
            receipt.sessions += 1;
            receipt.events += log.position();
            receipt.state_keys += log.state.values_at(u64::MAX).len() as u64;
        }
    }
    let owner = (app.to_owned(), user.to_owned());
    let user_keys = tables.shared.users.remove(&owner);
    receipt.state_keys += user_keys.map_or(0, |map| map.len() as u64);
    (receipt, keys)
}
