//! Creates a session and stores its initial state as position 0 of the log.

use retain_core::{
    Lease, LimitKind, NewSession, Result, SessionError, SessionKey, Snapshot, check_limit,
};

use super::schema::{SessionLog, SessionTables};

pub(super) fn create(tables: &mut SessionTables, new: NewSession, now_us: i64) -> Result<Snapshot> {
    clear_key(tables, &new.key, now_us)?;
    let changes = || std::iter::once(&new.changes);
    let shared = &tables.shared;
    let update = shared.plan_update(&new.key, changes(), new.state_bytes_max)?;
    let incarnation = tables.next_number();
    let mut log = SessionLog {
        incarnation,
        lease: Lease::of_new_session(incarnation),
        initial: new.initial,
        create_time: new.create_time,
        last_update_time: new.create_time,
        ttl: new.ttl,
        touched_us: now_us,
        ..SessionLog::default()
    };
    let bytes = log.state_bytes_after(changes());
    check_limit(LimitKind::SessionState, bytes, new.state_bytes_max)?;
    log.state_bytes = bytes;
    log.state.set(0, &new.changes.session);
    tables.shared.apply_update(&new.key, update);
    let created = Snapshot {
        head: log.head(&new.key),
        state: tables.state(&new.key, &log, u64::MAX),
        events: Vec::new(),
    };
    tables.logs.insert(new.key, log);
    Ok(created)
}

/// Fails if a session with this key exists; deletes an expired one.
pub(super) fn clear_key(tables: &mut SessionTables, key: &SessionKey, now_us: i64) -> Result<()> {
    match tables.logs.get(key) {
        None => {}
        Some(log) if log.is_alive(now_us) => {
            return Err(SessionError::AlreadyExists { key: key.clone() });
        }
        Some(_) => drop(tables.logs.remove(key)),
    }
    Ok(())
}
