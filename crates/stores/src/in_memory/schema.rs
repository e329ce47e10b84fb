//! The data structures of the in-memory store, its equivalent of tables.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use retain_core::{
    Event, Head, Lease, NewEvent, Origin, PendingWork, Result, SessionError, SessionKey,
    SessionMeta, SessionStatus, State, seconds, store_rules,
};

use super::state::{OwnState, SharedState};

/// All sessions, drafts and shared state of a store.
#[derive(Debug, Default)]
pub(super) struct SessionTables {
    pub(super) logs: BTreeMap<SessionKey, SessionLog>,
    pub(super) shared: SharedState,
    /// The holder of each task's lease, and when the lease expires.
    pub(super) task_leases: HashMap<String, (String, i64)>,
    pub(super) drafts: HashMap<u64, LogDraft>,
    /// The last number assigned to a session or draft. Numbers are never reused.
    last_number: u64,
}

/// The log of an unfinished import.
#[derive(Debug)]
pub(super) struct LogDraft {
    pub(super) key: SessionKey,
    pub(super) log: SessionLog,
    /// When the draft expires. Adding events extends it.
    pub(super) until_us: i64,
}

/// One session's log, with its current state, id index and lease.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionLog {
    pub(super) incarnation: u64,
    pub(super) initial: retain_core::JsonMap,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) ids: HashMap<String, u64>,
    /// For each event, the bytes of the log up to it.
    pub(super) bytes_to: Vec<u64>,
    pub(super) state: OwnState,
    /// Bytes of the current state keys and values.
    pub(super) state_bytes: usize,
    pub(super) create_time: f64,
    pub(super) last_update_time: f64,
    pub(super) ttl: Option<Duration>,
    /// The time from which the TTL counts.
    pub(super) touched_us: i64,
    pub(super) origin: Option<Origin>,
    pub(super) lease: Lease,
    /// The work that must follow the events, and the last event that needs it.
    pub(super) pending_work: PendingWork,
    pub(super) pending_to: u64,
    /// The queue for the lease: tickets and when each expires.
    pub(super) tickets: Vec<(String, i64)>,
}

impl SessionTables {
    /// Assigns a number that was never used before.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn log(&self, key: &SessionKey, now_us: i64) -> Option<&SessionLog> {
        self.logs.get(key).filter(|log| log.is_alive(now_us))
    }

    pub(super) fn log_mut(&mut self, key: &SessionKey, now_us: i64) -> Result<&mut SessionLog> {
        let log = self.logs.get_mut(key).filter(|log| log.is_alive(now_us));
        log.ok_or_else(|| SessionError::NotFound { key: key.clone() })
    }
}

impl SessionLog {
    pub(super) fn position(&self) -> u64 {
        self.events.len() as u64
    }

    pub(super) fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us().is_none_or(|expires| now_us < expires)
    }

    pub(super) fn expires_us(&self) -> Option<i64> {
        self.ttl
            .map(|ttl| store_rules::expires_us(self.touched_us, ttl))
    }

    pub(super) fn head(&self, key: &SessionKey) -> Head {
        Head {
            key: key.clone(),
            incarnation: self.incarnation,
            position: self.position(),
            create_time: self.create_time,
            last_update_time: self.last_update_time,
            ttl: self.ttl,
            expires_us: self.expires_us(),
            origin: self.origin.clone(),
        }
    }

    pub(super) fn meta(
        &self,
        app: &str,
        user: &str,
        id: &str,
        state: Option<State>,
    ) -> SessionMeta {
        SessionMeta {
            id: id.to_owned(),
            app_name: app.to_owned(),
            user_id: user.to_owned(),
            last_update_time: self.last_update_time,
            create_time: self.create_time,
            position: self.position(),
            state,
            origin: self.origin.clone(),
            expire_time: self.expires_us().map(seconds),
        }
    }

    pub(super) fn status<'a>(&'a self, key: &'a SessionKey, now_us: i64) -> SessionStatus<'a> {
        let first = self.tickets.iter().find(|(_, until)| *until > now_us);
        SessionStatus {
            key,
            incarnation: self.incarnation,
            position: self.position(),
            lease: self.lease,
            first_ticket: first.map(|(ticket, _)| ticket.as_str()),
            now_us,
        }
    }

    pub(super) fn push(&mut self, new: &NewEvent) {
        self.events.push(Arc::clone(&new.event));
        let bytes_before = self.bytes_to.last().copied().unwrap_or_default();
        self.bytes_to.push(bytes_before + new.body.len() as u64);
        let position = self.position();
        self.ids.insert(new.event.id.clone(), position);
        self.state.set(position, &new.changes.session);
        self.last_update_time = new.event.timestamp;
    }
}
