//! `SessionStore`: the trait that a database backend implements.
//!
//! The service has already decided everything that arrives here: ids and times are filled in,
//! `temp:` keys are removed, deltas are split by scope, and sizes are checked. A store writes a
//! batch completely or not at all, and reads from one snapshot.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    erase::{EraseReceipt, StoreLabel},
    error::{Conflict, Result, SessionError},
    event::Event,
    json::{Json, JsonMap},
    lease::LeaseUse,
    list::SessionRows,
    maintenance::{MaintenanceStore, PendingWork},
    quota::{QuotaRoom, Usage, count_log_bytes, count_usage},
    session::{ListCursor, Origin, SessionKey, SessionMeta, Window},
    state::State,
    transfer_store::TransferStore,
};

/// State changes of one event, by scope. State keys have no prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// App state keys to set.
    pub app: JsonMap,
    /// User state keys to set.
    pub user: JsonMap,
    /// Session state keys to set, or (`None`) to remove.
    pub session: Vec<(String, Option<Json>)>,
}

/// An event that is ready to be written.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The event, with id and time and without `temp:` keys.
    pub event: Arc<Event>,
    /// The event as stored, in ADK's HTTP form.
    pub body: String,
    /// Whether the caller set the time. If not, a retry may carry another time.
    pub time_given: bool,
    /// Whether the caller set the id. A generated id cannot be in the log yet.
    pub id_given: bool,
    /// The state changes that the event makes.
    pub changes: Changes,
}

impl NewEvent {
    /// Whether `stored` is this event from an earlier append.
    pub fn is_repeat_of(&self, stored: &Event) -> bool {
        if self.time_given {
            return *self.event == *stored;
        }
        let mut same_time = Event::clone(&self.event);
        same_time.timestamp = stored.timestamp;
        same_time == *stored
    }

    /// Accepts `stored`, found at `position` under this event's id, if it is the same event;
    /// otherwise returns a conflict.
    pub fn check_repeat(&self, key: &SessionKey, position: u64, stored: &Event) -> Result<()> {
        if self.is_repeat_of(stored) {
            return Ok(());
        }
        Err(SessionError::Conflict {
            key: key.clone(),
            conflict: Conflict::EventId {
                id: self.event.id.clone(),
                position,
            },
        })
    }
}

/// Events that are written together, or not at all.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The events, in order.
    pub events: Vec<NewEvent>,
    /// The expected incarnation, which distinguishes this session from earlier ones with the same
    /// address. `None` accepts any.
    pub incarnation: Option<u64>,
    /// The position at which the log must end. `None` accepts any.
    pub expected: Option<u64>,
    /// How the append uses the lease of the session.
    pub lease: LeaseUse,
    /// The work that must follow the new events. A store without [`MaintenanceStore`] ignores it.
    pub pending_work: PendingWork,
    /// Maximum size of the state of one scope, in bytes of state keys and values.
    pub state_bytes_max: usize,
    /// The room that is left under quotas, if the new events might not fit. A quota that is not
    /// listed has room for all of them.
    pub rooms: Vec<QuotaRoom>,
}

/// The result of writing a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum AppendOutcome {
    /// All events are in the log, some perhaps from an earlier append.
    Done {
        /// Each event of the batch as stored, with its position. A new event is the batch's own
        /// `Arc`, as in the [`Plan`](crate::Plan); quotas count these.
        events: Vec<(u64, Arc<Event>)>,
        /// The run token, if the caller now holds the lease.
        token: Option<u64>,
    },
    /// Another run holds the lease or is first in the queue. The store wrote at most a ticket.
    Busy {
        /// When the holder's lease expires unless it is renewed, by the store's clock.
        until_us: i64,
        /// The current time by the store's clock.
        now_us: i64,
    },
}

/// A session to create. It is also the first record of its log, at position 0.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its address.
    pub key: SessionKey,
    /// The state given at creation, with prefixes, without `temp:` keys.
    pub initial: JsonMap,
    /// The same state, split by scope.
    pub changes: Changes,
    /// The creation time, in seconds since 1970.
    pub create_time: f64,
    /// The time to live after the last write.
    pub ttl: Option<Duration>,
    /// Maximum size of the state of one scope, in bytes of state keys and values.
    pub state_bytes_max: usize,
}

/// A session without its events.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Its address.
    pub key: SessionKey,
    /// A number that distinguishes this session from an earlier one with the same id.
    pub incarnation: u64,
    /// The last position of the log.
    pub position: u64,
    /// The creation time, in seconds since 1970.
    pub create_time: f64,
    /// The time of the last event, or the creation time of a session without events.
    pub last_update_time: f64,
    /// The time to live after the last write.
    pub ttl: Option<Duration>,
    /// When the session expires unless it is written to, in microseconds by the store's clock.
    pub expires_us: Option<i64>,
    /// The session and position that this one was forked from.
    pub origin: Option<Origin>,
}

/// State by scope. State keys have no prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScopedState {
    /// The app state.
    pub app: JsonMap,
    /// The user state.
    pub user: JsonMap,
    /// The session's own state.
    pub session: JsonMap,
}

/// What a read returns in addition to the requested events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadDetail {
    /// The state of all scopes.
    State,
    /// Like [`State`](Self::State), but with the session's own state as it was after this position.
    /// From the last position on, this is the current state.
    StateAt(u64),
    /// Nothing; the returned state is empty.
    EventsOnly,
}

/// A change of a lease or of the queue for it, outside of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseUpdate {
    /// Renews (`Some`) or releases (`None`) the lease of the run that holds `token`.
    Renew {
        /// The run's token.
        token: u64,
        /// How long the lease lasts from now.
        ttl: Option<Duration>,
    },
    /// Removes a caller's ticket from the queue. Succeeds if there is no such ticket or session.
    Withdraw {
        /// The ticket.
        ticket: String,
    },
}

/// Which events of a log to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventLookup {
    /// The events with these ids.
    Ids(Vec<String>),
    /// The first event of an invocation.
    Invocation(String),
}

/// The result of a read, all from one snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The session.
    pub head: Head,
    /// Its state, as far as it was requested.
    pub state: ScopedState,
    /// The requested events, by position.
    pub events: Vec<(u64, Arc<Event>)>,
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ListQuery {
    /// The app whose sessions are listed.
    pub app: String,
    /// The user whose sessions are listed; `None` lists all users.
    pub user: Option<String>,
    /// The cursor after which the list starts.
    pub after: Option<ListCursor>,
    /// Maximum number of sessions.
    pub limit: usize,
    /// What to return of each session.
    pub fields: ListFields,
}

impl ListQuery {
    /// Creates a query for all sessions of this app.
    pub fn new(app: impl Into<String>, fields: ListFields) -> ListQuery {
        ListQuery {
            app: app.into(),
            user: None,
            after: None,
            limit: usize::MAX,
            fields,
        }
    }

    /// Lists only sessions of this user.
    pub fn with_user(mut self, user: impl Into<String>) -> ListQuery {
        self.user = Some(user.into());
        self
    }

    /// Continues after this cursor.
    pub fn with_after(mut self, after: ListCursor) -> ListQuery {
        self.after = Some(after);
        self
    }

    /// Sets the maximum number of sessions.
    pub fn with_limit(mut self, limit: usize) -> ListQuery {
        self.limit = limit;
        self
    }
}

/// What a list returns of each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFields {
    /// Everything except state.
    Metadata,
    /// Everything, including state.
    State,
    /// Id, last update and state. For a list of one user, a store may return [`SessionRows`]
    /// instead of objects, if that is cheaper.
    EncodedState,
}

impl ListFields {
    /// Whether the list returns states.
    pub fn have_state(self) -> bool {
        self != ListFields::Metadata
    }
}

/// The result of a list, all from one snapshot. Shared state is returned once, not per session.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The sessions. If state was requested, each holds its own state keys only.
    pub sessions: Vec<SessionMeta>,
    /// The sessions as text, if [`ListFields::EncodedState`] was requested and the store supports
    /// it. `sessions` is then empty.
    pub rows: SessionRows,
    /// The app state.
    pub app: JsonMap,
    /// The state of each user who has a session in the list.
    pub users: HashMap<String, JsonMap>,
}

impl Listing {
    /// Merges the shared state into the state of each session.
    pub(crate) fn merge_shared(&mut self) {
        let user_states_are_empty = self.users.values().all(JsonMap::is_empty);
        if self.app.is_empty() && user_states_are_empty {
            return;
        }
        let empty = JsonMap::new();
        for session in &mut self.sessions {
            let user = self.users.get(&session.user_id).unwrap_or(&empty);
            let own = session.state.take();
            session.state = own.map(|own| State::merged(own.into(), &self.app, user));
        }
    }
}

/// The free space of the file system that has a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeSpace {
    /// Free bytes.
    pub free: u64,
    /// Bytes that must stay free. Writes that add data and would leave less fail with
    /// [`SessionError::Full`].
    pub min_free: u64,
    /// Number of writes that failed for this reason.
    pub refused: u64,
    /// Whether such writes fail now.
    pub is_low: bool,
}

impl FreeSpace {
    /// Describes the free space.
    pub fn new(free: u64, min_free: u64, refused: u64, is_low: bool) -> FreeSpace {
        FreeSpace {
            free,
            min_free,
            refused,
            is_low,
        }
    }
}

/// The operations that a database backend implements.
///
/// The rules live in [`StoreSessionService`](crate::StoreSessionService); a store decides nothing.
/// Every method except [`erase_user`](Self::erase_user) is atomic: it takes effect completely or
/// not at all.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the store's name in errors, e.g. `sqlite`.
    fn name(&self) -> &'static str;

    /// Names the store in receipts.
    fn label(&self) -> StoreLabel {
        StoreLabel::new(self.name())
    }

    /// Creates a session and returns it. Fails with `AlreadyExists` if the address is taken.
    async fn create(&self, new: NewSession) -> Result<Snapshot>;

    /// Reads a session; `None` if it does not exist. The cost is proportional to what is returned.
    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        want: ReadDetail,
    ) -> Result<Option<Snapshot>>;

    /// Lists sessions ordered by (last update, user, id), with their state if requested.
    async fn list(&self, query: &ListQuery) -> Result<Listing>;

    /// Deletes a session and its log; returns false if it does not exist.
    async fn delete(&self, key: &SessionKey) -> Result<bool>;

    /// Appends a batch. A batch that repeats stored events succeeds; otherwise
    /// [`Lease::admit`](crate::Lease) decides, and then `expected` is compared. Positions are dense
    /// and start at 1. State keys that the batch does not change keep their value, even if other
    /// writers append at the same time.
    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome>;

    /// Renews or releases a lease, or leaves the queue for it.
    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()>;

    /// Returns the state of an app, or of one of its users.
    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap>;

    /// Returns the position of each event that `lookup` names, in its order; `None` for an event
    /// that the log does not have.
    async fn find_events(&self, key: &SessionKey, lookup: &EventLookup)
    -> Result<Vec<Option<u64>>>;

    /// Copies a log up to `position` into a new session `id` of the same user.
    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head>;

    /// Erases all data of a user irrecoverably: first the sessions, then the user's memories and
    /// artifacts in the same database, as [`MemoryStore::erase_user`](crate::MemoryStore::erase_user)
    /// describes. An erase may be large, so a store may erase in several transactions; an
    /// interrupted erase can be repeated.
    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt>;

    /// Counts the sessions, events and bytes of events of an app or of one of its users, without
    /// expired sessions. The default implementation reads every event.
    async fn usage(&self, app: &str, user: Option<&str>) -> Result<Usage> {
        count_usage(self, app, user).await
    }

    /// Sums the bytes of the events of a log up to `position`. The default implementation reads
    /// them.
    async fn log_bytes(&self, key: &SessionKey, position: u64) -> Result<u64> {
        count_log_bytes(self, key, position).await
    }

    /// Waits until the session may have changed after `position`, or until the store's timeout.
    /// Waking too often is allowed; missing a change is not.
    async fn changed(&self, key: &SessionKey, position: u64);

    /// Waits until every acknowledged write is as durable as the store can make it.
    async fn flush(&self) -> Result<()>;

    /// Fails unless the store is reachable and has the schema version that this program expects.
    async fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the free space of the file system, if the store refuses writes before it is full.
    fn free_space(&self) -> Option<FreeSpace> {
        None
    }

    /// Returns the bulk-transfer operations of the store. Without them, import, export, migration
    /// and checks fail.
    fn transfer(&self) -> Result<&dyn TransferStore> {
        Err(SessionError::Store {
            store: self.name(),
            operation: "transfer sessions",
            source: "unsupported: this store does not implement TransferStore".into(),
        })
    }

    /// Returns the operations for periodic tasks. Without them, sweeps fail, and work that a crash
    /// interrupts waits for the next run of its session.
    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        Err(SessionError::Unsupported {
            store: self.name(),
            operation: "periodic maintenance",
        })
    }
}
