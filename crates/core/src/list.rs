//! Long lists of sessions in few allocations, with each state as JSON text.
//!
//! A user with ten thousand sessions is common, so a row of a list owns no memory: its id and state
//! are ranges of two shared strings. A server copies the states into its responses without parsing
//! them.

use std::{ops::Range, sync::Arc};

use crate::{
    error::{Result, SessionError},
    json::{Json, JsonError, JsonMap, Writer},
    session::SessionMeta,
    store::Listing,
};

/// State keys and values as JSON text, ready to copy into an object.
///
/// Every key has a comma before it, so that such texts can be concatenated.
///
/// ```
/// use retain_core::StateText;
/// let mut state = StateText::default();
/// state.push("number", &1.into()).unwrap();
/// assert_eq!(state.as_str(), r#","number":1"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateText(String);

impl StateText {
    /// Adds a key. Fails and adds nothing if JSON cannot represent the value.
    pub fn push(&mut self, key: &str, value: &Json) -> Result<(), JsonError> {
        let before = self.0.len();
        let mut writer = Writer::onto(std::mem::take(&mut self.0));
        writer.member(key, value);
        let (text, error) = writer.into_parts();
        self.0 = text;
        if let Some(error) = error {
            self.0.truncate(before);
            return Err(error);
        }
        Ok(())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<StateText> for String {
    fn from(state: StateText) -> String {
        state.0
    }
}

/// One session of [`SessionRows`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionRow<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it last changed.
    pub last_update_time: f64,
    /// Its own state, as [`StateText`] writes it.
    pub state: &'a str,
}

/// The ranges of one session in the two strings of [`SessionRows`].
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRowParts {
    /// The range in the string of ids.
    pub id: Range<usize>,
    /// When the session last changed.
    pub last_update_time: f64,
    /// The range in the string of states.
    pub state: Range<usize>,
}

/// Sessions of one user, in order, each with its own state as text.
///
/// ```
/// use retain_core::SessionRows;
/// let mut rows = SessionRows::default();
/// rows.push("s", 2.5, r#","n":1"#);
/// let row = rows.iter().next().unwrap();
/// assert_eq!((row.id, row.last_update_time, row.state), ("s", 2.5, r#","n":1"#));
/// ```
#[derive(Debug, Clone, Default)]
pub struct SessionRows {
    ids: String,
    states: Arc<String>,
    rows: Vec<SessionRowParts>,
}

impl SessionRows {
    /// Creates rows over strings that a store already has. Panics if a range exceeds its string.
    pub fn from_texts(ids: String, states: Arc<String>, rows: Vec<SessionRowParts>) -> SessionRows {
        let is_within = |row: &SessionRowParts| {
            ids.get(row.id.clone()).is_some() && states.get(row.state.clone()).is_some()
        };
        assert!(
            rows.iter().all(is_within),
            "the id or state of a session row is outside its text"
        );
        SessionRows { ids, states, rows }
    }

    /// Adds a session at the end. `state` has the form of [`StateText`].
    pub fn push(&mut self, id: &str, last_update_time: f64, state: &str) {
        let states = Arc::make_mut(&mut self.states);
        let (id_start, state_start) = (self.ids.len(), states.len());
        self.ids.push_str(id);
        states.push_str(state);
        self.rows.push(SessionRowParts {
            id: id_start..self.ids.len(),
            last_update_time,
            state: state_start..states.len(),
        });
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the sessions, in order.
    pub fn iter(&self) -> impl Iterator<Item = SessionRow<'_>> {
        self.rows.iter().map(|row| SessionRow {
            id: &self.ids[row.id.clone()],
            last_update_time: row.last_update_time,
            state: &self.states[row.state.clone()],
        })
    }

    fn push_meta(&mut self, session: &SessionMeta) -> Result<()> {
        let mut state = StateText::default();
        for (key, value) in session.state.iter().flat_map(|state| state.iter()) {
            let pushed = state.push(key, value);
            pushed.map_err(|e| SessionError::corrupt_state(&session.key(), key, e))?;
        }
        self.push(&session.id, session.last_update_time, state.as_str());
        Ok(())
    }
}

/// All sessions of a user with their states, from one snapshot. Shared state is returned once, not
/// per session.
#[derive(Debug, Clone, Default)]
pub struct EncodedSessions {
    /// The sessions, ordered by (last update, id), each with its own state.
    pub rows: SessionRows,
    /// The app state.
    pub app: JsonMap,
    /// The user state.
    pub user: JsonMap,
}

impl EncodedSessions {
    /// Converts a store's answer: keeps rows that the store encoded, and encodes sessions that it
    /// returned as objects.
    pub(crate) fn of_user(user: &str, mut listing: Listing) -> Result<EncodedSessions> {
        let mut rows = listing.rows;
        for session in &listing.sessions {
            rows.push_meta(session)?;
        }
        Ok(EncodedSessions {
            rows,
            app: listing.app,
            user: listing.users.remove(user).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn meta(id: &str, state: State) -> SessionMeta {
        SessionMeta {
            id: id.to_owned(),
            app_name: "a".to_owned(),
            user_id: "u".to_owned(),
            last_update_time: 1.5,
            create_time: 1.0,
            position: 0,
            state: Some(state),
            origin: None,
            expire_time: None,
        }
    }

    #[test]
    fn list_rows_have_session_state_only_and_shared_state_is_listed_once() {
        let nested = Json::parse(r#"{"deep":[1,1.0,"\u0000"]}"#).unwrap();
        let listing = Listing {
            sessions: vec![
                meta("one", State::from([("k\"", nested)])),
                meta("", State::new()),
                meta("two", State::from([("b", 1), ("a", 2)])),
            ],
            app: JsonMap::from([("x", 1)]),
            users: [("u".to_owned(), JsonMap::from([("y", 2)]))].into(),
            ..Listing::default()
        };
        let list = EncodedSessions::of_user("u", listing).unwrap();
        let states: Vec<_> = list.rows.iter().map(|row| (row.id, row.state)).collect();
        let expected = [
            ("one", r#","k\"":{"deep":[1,1.0,"\u0000"]}"#),
            ("", ""),
            ("two", r#","b":1,"a":2"#),
        ];
        assert_eq!(states, expected);
        assert_eq!(
            (list.app["x"].as_u64(), list.user["y"].as_u64()),
            (Some(1), Some(2))
        );
    }

    #[test]
    fn state_that_json_cannot_represent_is_an_error_with_session_and_key() {
        let listing = Listing {
            sessions: vec![meta("s", State::from([("k", f64::NAN)]))],
            ..Listing::default()
        };
        let error = EncodedSessions::of_user("u", listing)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("\"s\"") && error.contains("\"k\""),
            "{error}"
        );
    }

    #[test]
    #[should_panic(expected = "outside its text")]
    fn session_row_range_beyond_the_text_panics() {
        let row = SessionRowParts {
            id: 0..1,
            last_update_time: 0.0,
            state: 0..2,
        };
        SessionRows::from_texts("s".to_owned(), Arc::default(), vec![row]);
    }
}
