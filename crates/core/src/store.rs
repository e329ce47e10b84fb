//! `SessionStore`: what a database must do. The seam between rules and bytes.
//!
//! Everything here arrives decided: ids and times are filled in, `temp:` keys are gone, deltas are
//! cut by scope, sizes are checked. A store writes all of it or none, and reads in one snapshot.

use std::{collections::HashMap, fmt, ops::AddAssign, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    error::{Conflict, Result, SessionError},
    event::Event,
    json::{Json, JsonMap},
    lease::LeaseUse,
    list_text::ListText,
    session::{ListCursor, Origin, SessionKey, SessionMeta, Window},
    state::State,
    transfer_store::TransferStore,
};

/// What one event changes, by scope. Keys are without prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// App keys to set.
    pub app: JsonMap,
    /// User keys to set.
    pub user: JsonMap,
    /// Session keys to set, or (`None`) to make absent.
    pub session: Vec<(String, Option<Json>)>,
}

/// An event that is ready to be written.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The event, with id and time and without `temp:` keys.
    pub event: Arc<Event>,
    /// The event as stored: ADK's HTTP form.
    pub body: String,
    /// Whether the caller gave the time. If not, a repeat may have another one.
    pub time_given: bool,
    /// Whether the caller gave the id. One that was made is new.
    pub id_given: bool,
    /// What it changes.
    pub changes: Changes,
}

impl NewEvent {
    /// Whether `stored` is this very event, appended before.
    pub fn is_repeat_of(&self, stored: &Event) -> bool {
        if self.time_given {
            return *self.event == *stored;
        }
        let mut same_time = Event::clone(&self.event);
        same_time.timestamp = stored.timestamp;
        same_time == *stored
    }

    /// `stored` stands at `position` under this event's id: fine if it is this event, else a conflict.
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

/// Events to be written together, or not at all.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The events, in order.
    pub events: Vec<NewEvent>,
    /// Which of the sessions that ever had the address is meant, if the caller knows.
    pub incarnation: Option<u64>,
    /// Where the log must end, if the caller cares.
    pub expected: Option<u64>,
    /// What the writer wants with the run lease.
    pub lease: LeaseUse,
    /// How many bytes of keys and values a scope may grow to.
    pub state_bytes_max: usize,
}

/// What a store answers to a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// All events are in the log, some perhaps since an earlier call.
    Done {
        /// Each event of the batch as it stands in the log, with its position.
        events: Vec<(u64, Arc<Event>)>,
        /// The run token, if the caller holds the lease now.
        token: Option<u64>,
    },
    /// Another run holds the session or is first in line; nothing was written but a ticket.
    Busy {
        /// When the holder's lease ends if it is not renewed, by the store's clock.
        until_us: i64,
        /// What time it is by the store's clock.
        now_us: i64,
    },
}

/// A session to be created. Also the first record of its log: position 0.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its address.
    pub key: SessionKey,
    /// The state given at creation, with prefixes, without `temp:` keys.
    pub initial: JsonMap,
    /// The same, cut by scope.
    pub changes: Changes,
    /// When it is created, in seconds since 1970.
    pub create_time: f64,
    /// How long it lives after the last write.
    pub ttl: Option<Duration>,
    /// How many bytes of keys and values a scope may grow to.
    pub state_bytes_max: usize,
}

/// A session without its events.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Its address.
    pub key: SessionKey,
    /// Told apart from an earlier session with the same id.
    pub incarnation: u64,
    /// The last position of the log.
    pub position: u64,
    /// When it was created.
    pub create_time: f64,
    /// When it last changed: the time of the last event, or of creation.
    pub last_update_time: f64,
    /// How long it lives after the last write.
    pub ttl: Option<Duration>,
    /// When it expires if nothing is written, in microseconds by the store's clock.
    pub expires_us: Option<i64>,
    /// Where it was forked from.
    pub origin: Option<Origin>,
}

/// State by scope, keys without prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScopedState {
    /// The app's keys.
    pub app: JsonMap,
    /// The user's keys.
    pub user: JsonMap,
    /// The session's own keys.
    pub session: JsonMap,
}

/// How much of a session a read brings beside the events asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The state of all scopes too.
    State,
    /// Events only; the state comes back empty.
    EventsOnly,
}

/// What a read brings, all from one snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The session.
    pub head: Head,
    /// Its state now.
    pub state: ScopedState,
    /// The events asked for, by position.
    pub events: Vec<(u64, Arc<Event>)>,
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListQuery {
    /// Of this app.
    pub app: String,
    /// Of this user only.
    pub user: Option<String>,
    /// Behind this place.
    pub after: Option<ListCursor>,
    /// At most so many.
    pub limit: usize,
    /// With their state.
    pub with_state: bool,
}

/// What a list brings, all from one snapshot. What sessions share stands there once.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The sessions. Their states, where asked for, hold their own keys only.
    pub sessions: Vec<SessionMeta>,
    /// The app's keys.
    pub app: JsonMap,
    /// The keys of each user who has a session in the list.
    pub users: HashMap<String, JsonMap>,
}

impl Listing {
    /// Puts what sessions share into the state of each.
    pub(crate) fn spread_shared(&mut self) {
        let users_have_none = self.users.values().all(JsonMap::is_empty);
        if self.app.is_empty() && users_have_none {
            return;
        }
        let none = JsonMap::new();
        for session in &mut self.sessions {
            let user = self.users.get(&session.user_id).unwrap_or(&none);
            let own = session.state.take();
            session.state = own.map(|own| State::merged(own.into(), &self.app, user));
        }
    }
}

/// What an erase removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EraseReceipt {
    /// Sessions.
    pub sessions: u64,
    /// Events.
    pub events: u64,
    /// State keys of those sessions and of the user.
    pub state_keys: u64,
    /// Versions of artifacts, where the store keeps some.
    pub artifacts: u64,
    /// Memories, where the store keeps some.
    pub memories: u64,
}

impl AddAssign for EraseReceipt {
    fn add_assign(&mut self, more: EraseReceipt) {
        self.sessions += more.sessions;
        self.events += more.events;
        self.state_keys += more.state_keys;
        self.artifacts += more.artifacts;
        self.memories += more.memories;
    }
}

/// What a database must do. Rules live in [`StoreSessionService`](crate::StoreSessionService);
/// nothing here decides. Every method is atomic: it happens as a whole or not at all.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync + 'static {
    /// The store's name in errors, e.g. `sqlite`.
    fn name(&self) -> &'static str;

    /// Creates a session and gives it as it then is; `AlreadyExists` if there is one.
    async fn create(&self, new: NewSession) -> Result<Snapshot>;

    /// Reads a session; `None` if there is none. Costs what it returns.
    async fn read(&self, key: &SessionKey, window: Window, want: Want) -> Result<Option<Snapshot>>;

    /// Lists sessions ordered by (last update, user, id), with their state if asked.
    async fn list(&self, query: &ListQuery) -> Result<Listing>;

    /// Writes the sessions of a list, with their states, behind what `text` has. A store that can
    /// write them while it reads them does so.
    async fn list_text(&self, query: &ListQuery, mut text: ListText) -> Result<ListText> {
        let mut listing = self.list(query).await?;
        listing.spread_shared();
        text.reserve(listing.sessions.len());
        for session in &listing.sessions {
            text.add_meta(session)?;
        }
        Ok(text)
    }

    /// Deletes a session and its log; false if there is none.
    async fn delete(&self, key: &SessionKey) -> Result<bool>;

    /// Appends a batch. In this order: a batch of repeats succeeds; [`Lease::admit`](crate::Lease)
    /// decides about the rest; `expected` is compared. Positions are dense and start at 1.
    /// Keys that no change names keep their value, whoever else writes.
    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<Written>;

    /// Prolongs (`Some`) or gives back (`None`) the lease of the run that holds `token`.
    async fn renew(&self, key: &SessionKey, token: u64, ttl: Option<Duration>) -> Result<()>;

    /// Takes a caller's ticket out of the queue for the lease.
    async fn withdraw(&self, key: &SessionKey, ticket: &str) -> Result<()>;

    /// The keys of an app, or of a user of it.
    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap>;

    /// The session's own keys as they were after `position`.
    async fn state_at(&self, key: &SessionKey, position: u64) -> Result<JsonMap>;

    /// The positions of the events with these ids; `None` where there is none.
    async fn positions_of(&self, key: &SessionKey, ids: &[String]) -> Result<Vec<Option<u64>>>;

    /// The first position whose event belongs to the invocation.
    async fn first_of_invocation(&self, key: &SessionKey, invocation: &str) -> Result<Option<u64>>;

    /// Copies a log up to `position` into a new session `id` of the same user.
    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head>;

    /// Deletes up to `limit` sessions whose time is up, and says how many.
    async fn sweep(&self, limit: usize) -> Result<u64>;

    /// Removes everything of a user, leaving no byte of it behind.
    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt>;

    /// Waits until the session may have changed behind `position`, or for some time. Waking too
    /// often is allowed, missing a change is not.
    async fn changed(&self, key: &SessionKey, position: u64);

    /// Looks for damage. An empty list is a clean bill.
    async fn check(&self) -> Result<Vec<String>>;

    /// Returns when everything acknowledged is as durable as it gets.
    async fn flush(&self) -> Result<()>;

    /// Whether it can be used now: it is there, and its form is the one that this program knows.
    async fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// The store's bulk transfer. Import, export and migration fail on a store that has none.
    fn transfer(&self) -> Result<&dyn TransferStore> {
        Err(SessionError::Store {
            store: self.name(),
            operation: "transfer sessions",
            source: "unsupported: this store does not implement TransferStore".into(),
        })
    }
}
