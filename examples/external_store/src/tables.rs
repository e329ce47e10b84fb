//! The data of the store in memory, and how each change alters it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use retain::{
    BoxError, Event, Json, Result, SessionError,
    session::{Origin, SessionKey, SessionMeta},
    state::{JsonMap, ScopedDelta},
    store::{
        Head, Lease, NewEvent, PendingWork, ScopedState, SessionStatus, StateOwner, duration_us,
        seconds,
    },
};

use crate::change::Change;

/// Time after which a ticket in the queue for a lease expires, unless its owner renews it.
const TICKET_TTL_US: i64 = 1_000_000;

/// All sessions and shared state.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) sessions: BTreeMap<SessionKey, SessionLog>,
    /// The state of apps and of their users. Keys have no prefix; an empty state has no entry.
    pub(crate) shared: BTreeMap<StateOwner, JsonMap>,
    /// The highest incarnation of any session, including deleted ones.
    pub(crate) last_incarnation: u64,
    /// The holder of each task's lease, and when the lease expires.
    pub(crate) task_leases: BTreeMap<String, (String, i64)>,
}

/// The log of one session, with views that make reads fast.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionLog {
    /// Distinguishes this session from an earlier one with the same key.
    pub(crate) incarnation: u64,
    /// The state given at creation, with prefixes: position 0 of the log.
    pub(crate) initial: JsonMap,
    /// The event at index 0 has position 1.
    pub(crate) entries: Vec<Entry>,
    pub(crate) create_time: f64,
    pub(crate) last_update_time: f64,
    pub(crate) ttl: Option<Duration>,
    /// The time of the last write by the store's clock. The time to live starts then.
    pub(crate) touched_us: i64,
    pub(crate) origin: Option<Origin>,
    pub(crate) lease: Lease,
    /// The work that must follow the events, and the last event that needs it.
    pub(crate) pending: (PendingWork, u64),
    /// The queue for the lease: each ticket and its expiry, oldest first.
    pub(crate) tickets: Vec<(String, i64)>,
    /// A view: the session's own state after the last event.
    pub(crate) state: JsonMap,
    /// A view: the position of each event id.
    pub(crate) positions: HashMap<String, u64>,
}

/// One event of a log.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) event: Arc<Event>,
    /// The event as JSON, exactly as it arrived.
    pub(crate) body: String,
    /// The state keys of the session that the event sets or (`None`) removes. A rewind removes
    /// keys.
    pub(crate) keys: Vec<(String, Option<Json>)>,
}

impl Entry {
    pub(crate) fn new(new: &NewEvent) -> Entry {
        Entry {
            event: Arc::clone(&new.event),
            body: new.body.clone(),
            keys: new.changes.session.clone(),
        }
    }
}

impl Tables {
    /// Returns a session that has not expired.
    pub(crate) fn find(&self, key: &SessionKey, now_us: i64) -> Option<&SessionLog> {
        self.sessions.get(key).filter(|log| log.is_alive(now_us))
    }

    /// Returns a session as [`find`](Self::find) does, but fails with `NotFound` if there is none.
    pub(crate) fn get(&self, key: &SessionKey, now_us: i64) -> Result<&SessionLog> {
        let found = self.find(key, now_us);
        found.ok_or_else(|| SessionError::NotFound { key: key.clone() })
    }

    /// Fails if a session has this key. An expired session does not count: `Put` replaces it.
    pub(crate) fn check_free(&self, key: &SessionKey, now_us: i64) -> Result<()> {
        match self.find(key, now_us) {
            Some(_) => Err(SessionError::AlreadyExists { key: key.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the shared keys of an app or a user.
    pub(crate) fn shared(&self, owner: &StateOwner) -> JsonMap {
        self.shared.get(owner).cloned().unwrap_or_default()
    }

    /// Returns the state of all scopes that a session sees.
    pub(crate) fn state(&self, key: &SessionKey, log: &SessionLog) -> ScopedState {
        ScopedState {
            app: self.shared(&StateOwner::app(&key.app)),
            user: self.shared(&StateOwner::user(&key.app, &key.user)),
            session: log.state.clone(),
        }
    }

    /// Applies a change from the journal. This fails only if the journal is corrupt.
    pub(crate) fn apply(&mut self, change: Change) -> Result<(), BoxError> {
        match change {
            Change::Put { key, log } => {
                self.last_incarnation = self.last_incarnation.max(log.incarnation);
                self.sessions.insert(key, *log);
            }
            Change::Delete { key } => drop(self.sessions.remove(&key)),
            Change::Append {
                key,
                entries,
                now_us,
            } => {
                let log = self.existing_log(&key)?;
                entries.into_iter().for_each(|entry| log.push(entry));
                log.touched_us = now_us;
            }
            Change::SetShared { owner, keys } => {
                let state = self.shared.entry(owner).or_default();
                for (key, value) in &keys {
                    state.insert(key, value.clone());
                }
            }
            Change::SetLease { key, lease } => self.existing_log(&key)?.lease = lease,
            Change::SetPending {
                key,
                work,
                position,
            } => self.existing_log(&key)?.pending = (work, position),
            Change::SetTaskLease {
                task,
                holder,
                until_us,
            } => drop(self.task_leases.insert(task, (holder, until_us))),
            Change::Queue {
                key,
                ticket,
                now_us,
            } => self.existing_log(&key)?.queue(ticket, now_us),
            Change::Withdraw { key, ticket } => {
                let log = self.existing_log(&key)?;
                log.tickets.retain(|(queued, _)| *queued != ticket);
            }
        }
        Ok(())
    }

    fn existing_log(&mut self, key: &SessionKey) -> Result<&mut SessionLog, BoxError> {
        let log = self.sessions.get_mut(key);
        log.ok_or_else(|| format!("a change of session {key}, which does not exist").into())
    }

    /// Returns transactions that build the same data from an empty store.
    pub(crate) fn snapshot(&self) -> impl Iterator<Item = Vec<Change>> {
        let shared = self.shared.iter().map(|(owner, keys)| {
            vec![Change::SetShared {
                owner: owner.clone(),
                keys: keys.clone(),
            }]
        });
        let sessions = self.sessions.iter().map(|(key, log)| {
            let put = Change::Put {
                key: key.clone(),
                log: Box::new(log.clone()),
            };
            let tickets = log.tickets.iter().map(|(ticket, until_us)| Change::Queue {
                key: key.clone(),
                ticket: ticket.clone(),
                now_us: until_us - TICKET_TTL_US,
            });
            std::iter::once(put).chain(tickets).collect()
        });
        let task_leases = self.task_leases.iter().map(|(task, (holder, until_us))| {
            vec![Change::SetTaskLease {
                task: task.clone(),
                holder: holder.clone(),
                until_us: *until_us,
            }]
        });
        shared.chain(sessions).chain(task_leases)
    }
}

impl SessionLog {
    /// Returns a log without events, at position 0.
    pub(crate) fn new(incarnation: u64, initial: JsonMap) -> SessionLog {
        SessionLog {
            incarnation,
            lease: Lease::of_new_session(incarnation),
            state: ScopedDelta::from_delta(&initial).session,
            initial,
            ..SessionLog::default()
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        set_keys(&mut self.state, &entry.keys);
        self.last_update_time = entry.event.timestamp;
        let position = self.position() + 1;
        self.positions.insert(entry.event.id.clone(), position);
        self.entries.push(entry);
    }

    fn queue(&mut self, ticket: String, now_us: i64) {
        self.tickets
            .retain(|(queued, until_us)| *until_us > now_us || *queued == ticket);
        let until_us = now_us + TICKET_TTL_US;
        match self
            .tickets
            .iter_mut()
            .find(|(queued, _)| *queued == ticket)
        {
            Some(queued) => queued.1 = until_us,
            None => self.tickets.push((ticket, until_us)),
        }
    }

    pub(crate) fn position(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn expires_us(&self) -> Option<i64> {
        let ttl_us = self.ttl.map(duration_us);
        ttl_us.map(|ttl_us| self.touched_us.saturating_add(ttl_us))
    }

    pub(crate) fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us().is_none_or(|expires| now_us < expires)
    }

    /// Returns the session's own keys as they were after `position`.
    pub(crate) fn state_at(&self, position: u64) -> JsonMap {
        let mut state = ScopedDelta::from_delta(&self.initial).session;
        for entry in self.entries.iter().take(position as usize) {
            set_keys(&mut state, &entry.keys);
        }
        state
    }

    pub(crate) fn event(&self, position: u64) -> Option<(u64, Arc<Event>)> {
        let entry = self.entries.get((position as usize).checked_sub(1)?)?;
        Some((position, Arc::clone(&entry.event)))
    }

    pub(crate) fn head(&self, key: &SessionKey) -> Head {
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

    pub(crate) fn meta(&self, key: &SessionKey, with_state: bool) -> SessionMeta {
        SessionMeta {
            id: key.id.clone(),
            app_name: key.app.clone(),
            user_id: key.user.clone(),
            last_update_time: self.last_update_time,
            create_time: self.create_time,
            position: self.position(),
            state: with_state.then(|| self.state.clone().into()),
            origin: self.origin.clone(),
            expire_time: self.expires_us().map(seconds),
        }
    }

    /// Returns the status of the session for `plan_append` and `plan_renewal`.
    pub(crate) fn status<'a>(&'a self, key: &'a SessionKey, now_us: i64) -> SessionStatus<'a> {
        let mut tickets = self.tickets.iter();
        let first = tickets.find(|(_, until_us)| *until_us > now_us);
        SessionStatus {
            key,
            incarnation: self.incarnation,
            position: self.position(),
            lease: self.lease,
            first_ticket: first.map(|(ticket, _)| ticket.as_str()),
            now_us,
        }
    }
}

/// Sets or (`None`) removes keys of a session's state.
pub(crate) fn set_keys(state: &mut JsonMap, keys: &[(String, Option<Json>)]) {
    for (key, value) in keys {
        match value {
            Some(value) => state.insert(key, value.clone()),
            None => state.remove(key),
        };
    }
}
