//! Drafts: imported logs, which become sessions when they are complete.

use retain_core::{
    DraftId, Head, Lease, LogHeader, NewEvent, Result, ScopedState, SessionError, SessionKey,
    store_rules::{self, DRAFT_TTL_US},
};

use super::{
    create::clear_key,
    schema::{LogDraft, SessionLog, SessionTables},
};

/// Creates an empty draft, which expires if the import stops.
pub(super) fn begin(tables: &mut SessionTables, key: &SessionKey, now_us: i64) -> DraftId {
    tables.drafts.retain(|_, draft| draft.until_us > now_us);
    let number = tables.next_number();
    let draft = LogDraft {
        key: key.clone(),
        log: SessionLog::default(),
        until_us: now_us + DRAFT_TTL_US,
    };
    tables.drafts.insert(number, draft);
    DraftId(number)
}

/// Adds events to a draft and extends its TTL.
pub(super) fn extend(
    tables: &mut SessionTables,
    draft: DraftId,
    events: &[(u64, NewEvent)],
    now_us: i64,
) -> Result<()> {
    let draft = tables.drafts.get_mut(&draft.0);
    let draft = draft.ok_or_else(store_rules::draft_gone)?;
    events.iter().for_each(|(_, new)| draft.log.push(new));
    draft.until_us = now_us + DRAFT_TTL_US;
    Ok(())
}

/// Turns the draft into a session.
pub(super) fn finish(
    tables: &mut SessionTables,
    draft: DraftId,
    header: &LogHeader,
    shared: &ScopedState,
    now_us: i64,
) -> Result<Head> {
    let draft = tables.drafts.remove(&draft.0);
    let mut log = draft.ok_or_else(store_rules::draft_gone)?.log;
    let key = &header.head.key;
    clear_key(tables, key, now_us)?;
    let state = log.state.values_mut();
    for (name, value) in &store_rules::session_keys(&header.initial) {
        let values = state.entry(name.to_owned()).or_default();
        values.insert(0, (0, Some(value.clone())));
    }
    log.state_bytes = log.count_state_bytes();
    log.incarnation = tables.next_number();
    log.lease = Lease::of_new_session(log.incarnation);
    log.initial = header.initial.clone();
    log.create_time = header.head.create_time;
    log.last_update_time = header.head.last_update_time;
    log.ttl = header.head.ttl;
    log.origin = header.head.origin.clone();
    log.touched_us = store_rules::imported_touched_us(&header.head, now_us);
    if !log.is_alive(now_us) {
        return Err(SessionError::NotFound { key: key.clone() });
    }
    tables.shared.add_absent(&key.app, &key.user, shared);
    let head = log.head(key);
    tables.logs.insert(key.clone(), log);
    Ok(head)
}
