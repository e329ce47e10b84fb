//! `Session`: a conversation as loaded in memory, and the types that read and list sessions.

use std::{fmt, sync::Arc};

use crate::{
    event::Event,
    events::Events,
    json::{Json, JsonMap, Writer},
    state::{State, StateDelta},
    wire::{self, Extra},
};

/// The address of a session. A session id is unique only within its app and user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// The app.
    pub app: String,
    /// The user of the app.
    pub user: String,
    /// The session of the user.
    pub id: String,
}

impl SessionKey {
    /// Creates the address of session `id` of `user` in `app`.
    pub fn new(
        app: impl Into<String>,
        user: impl Into<String>,
        id: impl Into<String>,
    ) -> SessionKey {
        SessionKey {
            app: app.into(),
            user: user.into(),
            id: id.into(),
        }
    }
}

impl fmt::Display for SessionKey {
    /// Formats the address as `"app"/"user"/"id"`, quoted so that no two addresses print alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}/{:?}", self.app, self.user, self.id)
    }
}

/// One conversation: its identity, its state and its events.
///
/// Cheap to clone, however long the history. Only appended events change the stored session;
/// setting `state` changes this copy only.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The session id, unique among the user's sessions.
    pub id: String,
    /// The app.
    pub app_name: String,
    /// The user.
    pub user_id: String,
    /// The session's own state, and shared state under `app:` and `user:`.
    pub state: State,
    /// The loaded events, oldest first.
    pub events: Events,
    /// When it last changed, in seconds since 1970.
    pub last_update_time: f64,
    /// The log position that `state` reflects: every event up to it has been applied.
    pub position: u64,
    /// A number that distinguishes this session from an earlier one with the same id; 0 if the
    /// session was not read from a store.
    pub incarnation: u64,
}

/// Two sessions are equal if their address and content are equal; the incarnation does not count.
impl PartialEq for Session {
    fn eq(&self, other: &Session) -> bool {
        self.key() == other.key()
            && self.state == other.state
            && self.events == other.events
            && self.last_update_time == other.last_update_time
            && self.position == other.position
    }
}

impl Session {
    /// Creates an empty session that is not stored anywhere.
    pub fn new(
        app_name: impl Into<String>,
        user_id: impl Into<String>,
        id: impl Into<String>,
    ) -> Session {
        Session {
            app_name: app_name.into(),
            user_id: user_id.into(),
            id: id.into(),
            ..Session::default()
        }
    }

    /// Returns the address of the session.
    pub fn key(&self) -> SessionKey {
        SessionKey::new(&self.app_name, &self.user_id, &self.id)
    }

    /// Encodes the session in ADK's HTTP form: camelCase.
    pub fn to_json(&self) -> Result<String, crate::JsonError> {
        wire::to_text(&WireSession::from(self), crate::json::Spelling::Camel)
    }

    /// Encodes the session in ADK's storage form: snake_case.
    pub fn to_snake_json(&self) -> Result<String, crate::JsonError> {
        wire::to_text(&WireSession::from(self), crate::json::Spelling::Snake)
    }

    /// Parses a session in either spelling and numbers its events from 1. As in ADK, unknown fields
    /// are an error.
    pub fn from_json(text: &str) -> Result<Session, crate::JsonError> {
        let wire: WireSession = wire::from_text(text)?;
        if let Some((name, _)) = wire.extra.iter().next() {
            let message = format!("unknown session field {name:?}");
            return Err(crate::JsonError::new(message, 0));
        }
        let events: Events = (1..).zip(wire.events.0).collect();
        Ok(Session {
            id: wire.id,
            app_name: wire.app_name,
            user_id: wire.user_id,
            state: wire.state.into(),
            position: events.len() as u64,
            events,
            last_update_time: wire.last_update_time,
            incarnation: 0,
        })
    }

    /// Applies a stored event: its `temp:` keys and its changes. An event that the session already
    /// has changes nothing.
    ///
    /// Events that were appended together may arrive in any order; this restores the order of the
    /// log.
    pub(crate) fn apply(&mut self, stored: &StoredEvent) {
        self.state.apply(&stored.temp);
        // A repeat of an old event: the state already reflects it, even if the event is not loaded.
        if stored.position <= self.position {
            return;
        }
        let newest_first = self.events.iter_with_positions().rev();
        let later = newest_first
            .take_while(|(position, _)| *position > stored.position)
            .count();
        let index = self.events.len() - later;
        if index > 0 && self.events.position(index - 1) == Some(stored.position) {
            return;
        }
        let after: Vec<_> = (index..self.events.len())
            .filter_map(|at| Some((self.events.position(at)?, self.events.get_shared(at)?)))
            .collect();
        self.events.truncate(index);
        self.push(stored.position, Arc::clone(&stored.event), &stored.changes);
        for (position, event) in after {
            self.push(position, event, &[]);
        }
    }

    fn push(&mut self, position: u64, event: Arc<Event>, changes: &[(String, Option<Json>)]) {
        self.state.apply(&event.actions.state_delta);
        for (key, value) in changes {
            match value {
                Some(value) => drop(self.state.set(key.as_str(), value.clone())),
                None => drop(self.state.remove(key)),
            }
        }
        self.last_update_time = event.timestamp;
        if position == self.position + 1 {
            self.position = position;
        }
        self.events.push(position, event);
    }
}

/// A stored event, with everything that a live session applies.
#[derive(Debug)]
pub(crate) struct StoredEvent {
    pub(crate) position: u64,
    pub(crate) event: Arc<Event>,
    pub(crate) temp: StateDelta,
    /// The changes of the event to the session's own state. They can be more than the delta of the
    /// event: a rewind also removes keys.
    pub(crate) changes: Vec<(String, Option<Json>)>,
}

wire::wire_object! {
    /// A session in its JSON form.
    pub(crate) struct WireSession: SESSION {
        /// Its id.
        id: String,
        /// The app.
        app_name: String,
        /// The user.
        user_id: String,
        /// The merged state.
        state: JsonMap,
        /// The events.
        events: WireEvents,
        /// When it last changed.
        last_update_time: f64,
    }
}

/// The events of a [`WireSession`], shared with the session that is encoded.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WireEvents(Vec<Arc<Event>>);

impl wire::Wire for WireEvents {
    const TYPE: &'static wire::ValueType = <Vec<Event> as wire::Wire>::TYPE;

    fn read(reader: &mut crate::json::Reader<'_>) -> Result<WireEvents, crate::JsonError> {
        let events = Vec::<Event>::read(reader)?;
        Ok(WireEvents(events.into_iter().map(Arc::new).collect()))
    }

    fn write(&self, writer: &mut Writer) {
        writer.begin_array();
        self.0.iter().for_each(|event| event.write(writer));
        writer.end_array();
    }
}

impl From<&Session> for WireSession {
    fn from(session: &Session) -> WireSession {
        let events = 0..session.events.len();
        WireSession {
            id: session.id.clone(),
            app_name: session.app_name.clone(),
            user_id: session.user_id.clone(),
            state: session.state.to_delta(),
            events: WireEvents(
                events
                    .filter_map(|i| session.events.get_shared(i))
                    .collect(),
            ),
            last_update_time: session.last_update_time,
            extra: Extra::default(),
        }
    }
}

/// Applies an event to a live session as ADK does: sets its `temp:` keys, removes them from the
/// delta, applies the delta, updates the time and adds the event. A partial event changes nothing.
///
/// Returns the event as it would be stored.
pub fn apply_event_to_session(session: &mut Session, mut event: Event) -> Event {
    if event.is_partial() {
        return event;
    }
    let temp = State::take_temp_keys(&mut event.actions.state_delta);
    let last = session.events.iter_with_positions().next_back();
    let last = last.map_or(0, |(position, _)| position);
    session.apply(&StoredEvent {
        position: session.position.max(last) + 1,
        event: Arc::new(event.clone()),
        temp,
        changes: Vec::new(),
    });
    event
}

/// Selects the events that a read of a session returns, as in ADK.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GetSessionConfig {
    /// Maximum number of events, counted from the newest; 0 returns none.
    pub num_recent_events: Option<usize>,
    /// Earliest timestamp of a returned event.
    pub after_timestamp: Option<f64>,
}

/// Selects the events that a read of the log returns. The conditions apply in this order: range,
/// time, newest, oldest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The first position.
    pub first: u64,
    /// The last position, inclusive.
    pub last: u64,
    /// Earliest timestamp of a selected event.
    pub after_timestamp: Option<f64>,
    /// Maximum number of those events, counted from the newest.
    pub newest: Option<usize>,
    /// Maximum number of those events, counted from the oldest; for reading in pages.
    pub oldest: Option<usize>,
    /// Approximate maximum size of those events as JSON, counted from the oldest; at least one event
    /// is returned. It does not apply together with a time.
    pub bytes: Option<usize>,
}

impl Window {
    /// Every event.
    pub const ALL: Window = Window {
        first: 1,
        last: u64::MAX,
        after_timestamp: None,
        newest: None,
        oldest: None,
        bytes: None,
    };

    /// No event: identity and state only.
    pub const NONE: Window = Window {
        newest: Some(0),
        ..Window::ALL
    };

    /// Selects the newest `n` events.
    pub const fn newest(n: usize) -> Window {
        Window {
            newest: Some(n),
            ..Window::ALL
        }
    }

    /// Selects the events after `position`.
    pub const fn after(position: u64) -> Window {
        Window {
            first: position.saturating_add(1),
            ..Window::ALL
        }
    }

    /// Selects the next page after `position`, of at most `events` events and about `bytes` bytes.
    pub const fn page(position: u64, events: usize, bytes: usize) -> Window {
        Window {
            oldest: Some(events),
            bytes: Some(bytes),
            ..Window::after(position)
        }
    }

    /// Selects the events at `first` to `last`, both included.
    pub const fn range(first: u64, last: u64) -> Window {
        Window {
            first,
            last,
            ..Window::ALL
        }
    }
}

impl From<GetSessionConfig> for Window {
    fn from(config: GetSessionConfig) -> Window {
        Window {
            after_timestamp: config.after_timestamp,
            newest: config.num_recent_events,
            ..Window::ALL
        }
    }
}

/// Where a forked session comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The id of the original session; its app and user are the same.
    pub session_id: String,
    /// The last position that both sessions share.
    pub position: u64,
}

/// A session in a list, without its events.
#[derive(Debug, Clone, PartialEq)]
// Open on purpose: a new field must stop stores from compiling.
pub struct SessionMeta {
    /// The session's id.
    pub id: String,
    /// The app.
    pub app_name: String,
    /// The user.
    pub user_id: String,
    /// When it last changed, in seconds since 1970.
    pub last_update_time: f64,
    /// When it was created, in seconds since 1970.
    pub create_time: f64,
    /// The last position of its log.
    pub position: u64,
    /// The merged state, if it was requested.
    pub state: Option<State>,
    /// The session and position that this one was forked from.
    pub origin: Option<Origin>,
    /// When the session expires unless it is written to, in seconds since 1970.
    pub expire_time: Option<f64>,
}

impl SessionMeta {
    /// Returns the address of the session.
    pub fn key(&self) -> SessionKey {
        SessionKey::new(&self.app_name, &self.user_id, &self.id)
    }
}

/// One page of a list, ordered by (last update, user, id) as in ADK.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ListSessionsResponse {
    /// The sessions.
    pub sessions: Vec<SessionMeta>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<ListCursor>,
}

/// The position in a list at which the next page starts. Treat its text form as opaque.
#[derive(Debug, Clone, PartialEq)]
pub struct ListCursor {
    /// The last update of the last session on the page.
    pub last_update_time: f64,
    /// The user of that session.
    pub user: String,
    /// The id of that session.
    pub id: String,
}

const INVALID_CURSOR: &str =
    "is not a cursor that a list returned; omit it to start from the beginning";

impl ListCursor {
    /// Rejects a cursor with a NUL character: addresses contain none, and some stores cannot
    /// compare it.
    pub(crate) fn check(&self) -> crate::Result<()> {
        match self.user.contains('\0') || self.id.contains('\0') {
            true => Err(crate::SessionError::invalid("list cursor", INVALID_CURSOR)),
            false => Ok(()),
        }
    }
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = vec![
            self.last_update_time.into(),
            self.user.as_str().into(),
            self.id.as_str().into(),
        ];
        let text = crate::Json::from(parts).to_string();
        f.write_str(&wire::Bytes::from(text.into_bytes()).to_base64())
    }
}

impl std::str::FromStr for ListCursor {
    type Err = crate::SessionError;

    fn from_str(text: &str) -> crate::Result<ListCursor> {
        let parse = || {
            let bytes = wire::Bytes::from_base64(text)?;
            let parts = crate::Json::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
            Some(ListCursor {
                last_update_time: parts[0].as_f64()?,
                user: parts[1].as_str()?.to_owned(),
                id: parts[2].as_str()?.to_owned(),
            })
        };
        parse().ok_or_else(|| {
            let what = format!("list cursor {text:?}");
            crate::SessionError::invalid(what, INVALID_CURSOR)
        })
    }
}
