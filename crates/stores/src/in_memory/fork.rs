//! Forks a session: copies its log up to a position.

use retain_core::{Head, Lease, Origin, PendingWork, Result, SessionKey, store_rules};

use super::{
    create::clear_key,
    schema::{SessionLog, SessionTables},
};

pub(super) fn fork(
    tables: &mut SessionTables,
    origin: &SessionKey,
    position: u64,
    id: &str,
    create_time: f64,
    now_us: i64,
) -> Result<Head> {
    let log = tables.log_mut(origin, now_us)?;
    store_rules::check_position(origin, position, log.position())?;
    let mut fork = SessionLog {
        tickets: Vec::new(),
        pending_work: PendingWork::NONE,
        create_time,
        last_update_time: create_time,
        touched_us: now_us,
        origin: Some(Origin {
            session_id: origin.id.clone(),
            position,
        }),
        ..log.clone()
    };
    fork.events.truncate(position as usize);
    fork.bytes_to.truncate(position as usize);
    fork.ids.retain(|_, at| *at <= position);
    for values in fork.state.values_mut().values_mut() {
        values.retain(|(at, _)| *at <= position);
    }
    fork.state_bytes = fork.count_state_bytes();
    let key = SessionKey::new(&origin.app, &origin.user, id);
    clear_key(tables, &key, now_us)?;
    fork.incarnation = tables.next_number();
    fork.lease = Lease::of_new_session(fork.incarnation);
    let head = fork.head(&key);
    tables.logs.insert(key, fork);
    Ok(head)
}
