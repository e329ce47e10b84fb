//! `Session`: one conversation as a program holds it, and how it is asked for.

use std::{fmt, sync::Arc};

use crate::{
    event::Event,
    events::Events,
    json::{Json, JsonMap, Writer},
    state::{State, StateDelta},
    wire::{self, Extra},
};

/// The address of a session. A session id alone addresses nothing.
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
    /// The address of session `id` of `user` in `app`.
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
    /// `"app"/"user"/"id"`, quoted so that no id can pass for another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}/{:?}", self.app, self.user, self.id)
    }
}

/// One conversation: its identity, its state and its events.
///
/// Cheap to clone, however long the history. It changes only through appended events: setting
/// `state` here is seen by nobody else.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// Unique among the user's sessions.
    pub id: String,
    /// The app.
    pub app_name: String,
    /// The user.
    pub user_id: String,
    /// The session's own keys, and the shared ones under `app:` and `user:`.
    pub state: State,
    /// The events that were asked for, oldest first.
    pub events: Events,
    /// When it last changed, in seconds since 1970.
    pub last_update_time: f64,
    /// The state is that of this position; everything the log has up to it was seen.
    pub position: u64,
    /// Tells this session from an earlier one of the same id. 0 if it was not read from a store.
    pub incarnation: u64,
}

/// Two sessions are equal when they say the same, wherever they are stored.
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
    /// An empty session that is stored nowhere.
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

    /// The address of the session.
    pub fn key(&self) -> SessionKey {
        SessionKey::new(&self.app_name, &self.user_id, &self.id)
    }

    /// Writes ADK's HTTP form: camelCase.
    pub fn to_json(&self) -> Result<String, crate::JsonError> {
        wire::to_text(&WireSession::from(self), crate::json::Form::Camel)
    }

    /// Writes ADK's storage form: snake_case.
    pub fn to_snake_json(&self) -> Result<String, crate::JsonError> {
        wire::to_text(&WireSession::from(self), crate::json::Form::Snake)
    }

    /// Reads a session in either spelling. Events are numbered from 1. As in ADK, a session has no
    /// other fields than these.
    pub fn from_json(text: &str) -> Result<Session, crate::JsonError> {
        let wire: WireSession = wire::from_text(text)?;
        if let Some((name, _)) = wire.extra.iter().next() {
            let message = format!("a session has no field {name:?}");
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

    /// Applies a stored event: its `temp:` keys and its changes. An event that the session has
    /// already changes nothing.
    ///
    /// Events that were stored together may come in any order; this restores the order of the log.
    pub(crate) fn apply(&mut self, stored: &StoredEvent) {
        self.state.apply(&stored.temp);
        // A repeat of something old: the state has it already, whether its event is loaded or not.
        if stored.position <= self.position {
            return;
        }
        let known = self.events.iter_with_positions().rev();
        let later = known
            .take_while(|(position, _)| *position > stored.position)
            .count();
        let place = self.events.len() - later;
        if place > 0 && self.events.position(place - 1) == Some(stored.position) {
            return;
        }
        let after: Vec<_> = (place..self.events.len())
            .filter_map(|at| Some((self.events.position(at)?, self.events.get_shared(at)?)))
            .collect();
        self.events.truncate(place);
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

/// A stored event with what a live session applies.
#[derive(Debug)]
pub(crate) struct StoredEvent {
    pub(crate) position: u64,
    pub(crate) event: Arc<Event>,
    pub(crate) temp: StateDelta,
    /// What it did to the session's own keys, where its delta does not say it all.
    pub(crate) changes: Vec<(String, Option<Json>)>,
}

wire::wire_object! {
    /// A session on the wire.
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

/// Events that are shared with the session they are written for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WireEvents(Vec<Arc<Event>>);

impl wire::Wire for WireEvents {
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

/// ADK's pure rule of what an event does to a live session: `temp:` keys into the live state, the
/// delta trimmed of them and applied, time bumped, event pushed. Partial events do nothing.
///
/// Gives back the event as it would be stored.
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

/// Which events a read of a session brings, as in ADK.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GetSessionConfig {
    /// Only the newest so many. 0 brings none.
    pub num_recent_events: Option<usize>,
    /// Only events with this timestamp or a later one.
    pub after_timestamp: Option<f64>,
}

/// Which events a read of the log brings. Conditions add up: range, then time, then newest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// From this position on.
    pub first: u64,
    /// Up to this position.
    pub last: u64,
    /// Only events with this timestamp or a later one.
    pub after_timestamp: Option<f64>,
    /// Of those, only the newest so many.
    pub newest: Option<usize>,
    /// Of those, only the oldest so many: for reading on in steps.
    pub oldest: Option<usize>,
}

impl Window {
    /// Every event.
    pub const ALL: Window = Window {
        first: 1,
        last: u64::MAX,
        after_timestamp: None,
        newest: None,
        oldest: None,
    };

    /// No event: identity and state only.
    pub const NONE: Window = Window {
        newest: Some(0),
        ..Window::ALL
    };

    /// The newest `n` events.
    pub const fn newest(n: usize) -> Window {
        Window {
            newest: Some(n),
            ..Window::ALL
        }
    }

    /// The events behind `position`.
    pub const fn after(position: u64) -> Window {
        Window {
            first: position.saturating_add(1),
            ..Window::ALL
        }
    }

    /// The events at `first` to `last`, both included.
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
    /// The session's id; app and user are the same.
    pub session_id: String,
    /// The last position it shares with its origin.
    pub position: u64,
}

/// A session in a list: who and when, without events.
#[derive(Debug, Clone, PartialEq)]
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
    /// The merged state, if it was asked for.
    pub state: Option<State>,
    /// Where it was forked from.
    pub origin: Option<Origin>,
    /// When it expires if nothing is written, in seconds since 1970.
    pub expire_time: Option<f64>,
}

impl SessionMeta {
    /// The address of the session.
    pub fn key(&self) -> SessionKey {
        SessionKey::new(&self.app_name, &self.user_id, &self.id)
    }
}

/// The answer to a list, ordered by (last update, user, id) as in ADK.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListSessionsResponse {
    /// The sessions.
    pub sessions: Vec<SessionMeta>,
    /// Give this to the next call to go on; `None` at the end.
    pub next: Option<ListCursor>,
}

/// Where a list goes on. Opaque; print it and parse it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListCursor {
    /// Last update of the last session listed.
    pub last_update_time: f64,
    /// Its user.
    pub user: String,
    /// Its id.
    pub id: String,
}

const NO_CURSOR: &str = "is not one that a list gave out; leave it away to start over";

impl ListCursor {
    /// Fails unless a list can have given this out: no address holds a NUL character, and not every
    /// store can compare with one.
    pub(crate) fn check(&self) -> crate::Result<()> {
        match self.user.contains('\0') || self.id.contains('\0') {
            true => Err(crate::SessionError::invalid("list cursor", NO_CURSOR)),
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
        parse().ok_or_else(|| crate::SessionError::invalid("list cursor", NO_CURSOR))
    }
}
