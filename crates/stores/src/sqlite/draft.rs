//! Drafts: imported logs, which become sessions when they are complete.

use retain_core::{
    DraftId, Head, LogHeader, NewEvent, Result, ScopedState, SessionKey, duration_us,
    store_rules::{self, DRAFT_TTL_US},
};
use rusqlite::{Connection, params};

use super::{
    append::insert_event,
    create::clear_key,
    failed,
    fork::is_in_order,
    rows::event_key,
    state::{add_shared, set_initial, set_session_keys, state_bytes},
    usage::log_bytes,
};
use crate::sql::SessionRow;

/// Creates an empty draft, which expires if the import stops.
pub(super) fn begin(connection: &Connection, key: &SessionKey, now_us: i64) -> Result<DraftId> {
    let sql = "INSERT INTO logs (purge_after_us, app, user) VALUES (?1, ?2, ?3)";
    let inserted = connection.execute(sql, (now_us + DRAFT_TTL_US, &key.app, &key.user));
    inserted.map_err(|e| failed("begin an import", e))?;
    Ok(DraftId(connection.last_insert_rowid() as u64))
}

/// Adds events to a draft and extends its TTL.
pub(super) fn extend(
    connection: &Connection,
    draft: DraftId,
    events: &[(u64, NewEvent)],
    now_us: i64,
) -> Result<()> {
    let log = draft.0 as i64;
    let sql = "UPDATE logs SET purge_after_us = ?2 WHERE number = ?1 AND purge_after_us > 0";
    let updated = connection.execute(sql, (log, now_us + DRAFT_TTL_US));
    if updated.map_err(|e| failed("import events", e))? == 0 {
        return Err(store_rules::draft_gone());
    }
    for (position, new) in events {
        let (event, key) = (&new.event, event_key(log, *position));
        let (id, invocation) = (&event.id, &event.invocation_id);
        insert_event(connection, key, id, invocation, event.timestamp, &new.body)
            .map_err(|e| failed("import events", e))?;
        set_session_keys(connection, log, *position, 0, &new.changes)?;
    }
    Ok(())
}

/// Turns the draft into a session.
pub(super) fn finish(
    connection: &Connection,
    draft: DraftId,
    header: &LogHeader,
    shared: &ScopedState,
    now_us: i64,
) -> Result<Head> {
    let (log, head, key) = (draft.0 as i64, &header.head, &header.head.key);
    clear_key(connection, key, now_us)?;
    let finished = || -> rusqlite::Result<bool> {
        let sql = "UPDATE logs SET purge_after_us = NULL, app = NULL, user = NULL \
                   WHERE number = ?1 AND purge_after_us > 0";
        if connection.execute(sql, [log])? == 0 {
            return Ok(false);
        }
        let initial = retain_core::Json::from(header.initial.clone()).to_string();
        insert_event(
            connection,
            event_key(log, 0),
            "",
            "",
            head.create_time,
            &initial,
        )?;
        for (name, value) in &store_rules::session_keys(&header.initial) {
            set_initial(connection, log, name, &value.to_string())?;
        }
        add_shared(connection, &key.app, &key.user, shared)?;
        let bytes = state_bytes(connection, log)?;
        let in_order = is_in_order(connection, log, head.position, head.last_update_time)?;
        let log_bytes = log_bytes(connection, log, 0, head.position)?;
        let ttl_us = head.ttl.map(duration_us);
        let origin = head.origin.as_ref();
        connection.execute(
            "INSERT INTO sessions (number, app, user, id, position, last_update, create_time, \
             touched_us, ttl_us, lease_token, in_order, state_bytes, origin_id, \
             origin_position, log_bytes, sized_to) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?1 << 32, ?10, ?11, ?12, ?13, ?14, ?5)",
            params![
                log,
                key.app,
                key.user,
                key.id,
                head.position,
                head.last_update_time,
                head.create_time,
                store_rules::imported_touched_us(head, now_us),
                ttl_us,
                in_order,
                bytes,
                origin.map(|origin| &origin.session_id),
                origin.map(|origin| origin.position),
                log_bytes,
            ],
        )?;
        Ok(true)
    };
    if !finished().map_err(|e| failed("finish an import", e))? {
        return Err(store_rules::draft_gone());
    }
    Ok(SessionRow::get(connection, "finish an import", key, now_us)?.head(key.clone()))
}
