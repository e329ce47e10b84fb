//! Writes a list of sessions in the form of ADK's HTTP API while a store reads them.
//!
//! A list of ten thousand sessions is common. The store lends each session, which is written at
//! once, so that no session is held in memory.

use std::collections::HashMap;

use crate::{
    error::{Result, SessionError},
    json::{Json, JsonError, JsonMap, Writer},
    session::{SessionKey, SessionMeta},
    state::StateScope,
};

/// Bytes reserved for a session with little state, and the most sessions to reserve for.
const LISTED_BYTES: usize = 128;
const LISTED_MAX: usize = 100_000;

/// The session's own state as JSON, ready to copy into a list. A store may cache it until a state
/// key changes.
///
/// Every key has a comma before it, so that such texts can be concatenated.
///
/// ```
/// use retain_core::SessionStateText;
/// let mut keys = SessionStateText::default();
/// keys.push("number", &1.into()).unwrap();
/// assert_eq!(keys.as_str(), r#","number":1"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStateText(String);

impl SessionStateText {
    /// Adds a key. Adds nothing if the value has no JSON form.
    pub fn push(&mut self, key: &str, value: &Json) -> Result<(), JsonError> {
        let before = self.0.len();
        let mut writer = Writer::onto(std::mem::take(&mut self.0));
        writer.member(key, value);
        let (text, wrong) = writer.into_parts();
        self.0 = text;
        if let Some(wrong) = wrong {
            self.0.truncate(before);
            return Err(wrong);
        }
        Ok(())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SessionStateText> for String {
    fn from(keys: SessionStateText) -> String {
        keys.0
    }
}

/// A session borrowed from a store, for a list.
#[derive(Debug, Clone, Copy)]
pub struct ListedSession<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its user.
    pub user: &'a str,
    /// Its own state, as [`SessionStateText`] writes it.
    pub state_text: &'a str,
    /// When it last changed.
    pub last_update_time: f64,
}

/// A list under construction: camelCase, with states and without events.
///
/// ```
/// use retain_core::{JsonMap, ListText, ListedSession};
/// let mut text = ListText::new("app", &["hidden-"]);
/// text.share("ada", &JsonMap::from([("tone", "warm")]), &JsonMap::new()).unwrap();
/// let session = ListedSession { id: "s", user: "ada", state_text: r#","n":1"#, last_update_time: 2.5 };
/// text.add(session).unwrap();
/// text.add(ListedSession { id: "hidden-1", ..session }).unwrap();
/// assert_eq!(
///     text.finish(),
///     r#"[{"id":"s","appName":"app","userId":"ada","state":{"n":1,"app:tone":"warm"},"events":[],"lastUpdateTime":2.5}]"#,
/// );
/// ```
#[derive(Debug)]
pub struct ListText {
    out: String,
    app: String,
    hidden: &'static [&'static str],
    /// The shared state of each user, in the form of [`SessionStateText`].
    shared: HashMap<String, String>,
    /// The text between id and state for the last user. Most lists have only one user.
    between: Option<UserText>,
}

#[derive(Debug)]
struct UserText {
    user: String,
    /// From the end of the id to the first key of the state.
    names: String,
    shared: String,
}

impl ListText {
    /// Creates an empty list of an app. Skips sessions whose ids begin with one of `hidden`.
    pub fn new(app: &str, hidden: &'static [&'static str]) -> ListText {
        ListText {
            out: String::from("["),
            app: app.to_owned(),
            hidden,
            shared: HashMap::new(),
            between: None,
        }
    }

    /// Reserves space for this many sessions, because growing a text of a megabyte copies it
    /// several times.
    pub fn reserve(&mut self, sessions: usize) {
        self.out.reserve(sessions.min(LISTED_MAX) * LISTED_BYTES);
    }

    /// Sets the shared state of a user. Call this before adding the user's sessions.
    pub fn share(&mut self, user: &str, app: &JsonMap, own: &JsonMap) -> Result<()> {
        let mut keys = SessionStateText::default();
        for (scope, map) in [(StateScope::App, app), (StateScope::User, own)] {
            for (key, value) in map {
                let key = format!("{}{key}", scope.prefix());
                let pushed = keys.push(&key, value);
                pushed.map_err(|e| self.damaged(user, "", &key, e))?;
            }
        }
        self.shared.insert(user.to_owned(), keys.0);
        self.between = None;
        Ok(())
    }

    /// Adds a session at the end.
    pub fn add(&mut self, session: ListedSession<'_>) -> Result<()> {
        if self
            .hidden
            .iter()
            .any(|start| session.id.starts_with(start))
        {
            return Ok(());
        }
        if !session.last_update_time.is_finite() {
            let error = JsonError::new("a time that is not a number", 0);
            return Err(self.damaged(session.user, session.id, "lastUpdateTime", error));
        }
        let between = match self.between.take() {
            Some(between) if between.user == session.user => between,
            _ => self.between(session.user),
        };
        let comma = if self.out.len() > 1 { "," } else { "" };
        let mut writer = Writer::onto(std::mem::take(&mut self.out));
        writer.verbatim(comma);
        writer.verbatim(r#"{"id":"#);
        writer.str(session.id);
        writer.verbatim(&between.names);
        let (own, shared) = (session.state_text, between.shared.as_str());
        // The first key has no comma before it.
        let first = if own.is_empty() { shared } else { own };
        writer.verbatim(first.get(1..).unwrap_or_default());
        if !own.is_empty() {
            writer.verbatim(shared);
        }
        writer.verbatim(r#"},"events":[],"lastUpdateTime":"#);
        writer.float(session.last_update_time);
        writer.verbatim("}");
        (self.out, _) = writer.into_parts();
        self.between = Some(between);
        Ok(())
    }

    /// Adds a session whose state already includes the shared state.
    pub fn add_meta(&mut self, session: &SessionMeta) -> Result<()> {
        let mut keys = SessionStateText::default();
        for (key, value) in session.state.iter().flat_map(|state| state.iter()) {
            let pushed = keys.push(key, value);
            pushed.map_err(|e| SessionError::corrupt_state(&session.key(), key, e))?;
        }
        self.add(ListedSession {
            id: &session.id,
            user: &session.user_id,
            state_text: keys.as_str(),
            last_update_time: session.last_update_time,
        })
    }

    /// Returns the finished list.
    pub fn finish(mut self) -> String {
        self.out.push(']');
        self.out
    }

    fn between(&self, user: &str) -> UserText {
        let mut writer = Writer::camel();
        writer.verbatim(r#","appName":"#);
        writer.str(&self.app);
        writer.verbatim(r#","userId":"#);
        writer.str(user);
        writer.verbatim(r#","state":{"#);
        UserText {
            user: user.to_owned(),
            names: writer.finish_lossy(),
            shared: self.shared.get(user).cloned().unwrap_or_default(),
        }
    }

    fn damaged(&self, user: &str, id: &str, key: &str, error: JsonError) -> SessionError {
        SessionError::corrupt_state(&SessionKey::new(&self.app, user, id), key, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Session, State};

    fn meta(id: &str, state: State) -> SessionMeta {
        SessionMeta {
            id: id.to_owned(),
            app_name: "a\"p".to_owned(),
            user_id: "ü\n".to_owned(),
            last_update_time: 1.5,
            create_time: 1.0,
            position: 0,
            state: Some(state),
            origin: None,
            expire_time: None,
        }
    }

    #[test]
    fn list_text_equals_the_sessions_as_json() {
        let nested = Json::parse(r#"{"deep":[1,1.0,"\u0000"]}"#).unwrap();
        let sessions = [
            meta("one", State::from([("k\"", nested)])),
            meta("", State::new()),
            meta("two", State::from([("b", 1), ("a", 2)])),
        ];
        let mut text = ListText::new("a\"p", &[]);
        for session in &sessions {
            text.add_meta(session).unwrap();
        }
        let alone = sessions.map(|meta| {
            let mut session = Session::new(meta.app_name, meta.user_id, meta.id);
            session.state = meta.state.unwrap();
            session.last_update_time = meta.last_update_time;
            session.to_json().unwrap()
        });
        assert_eq!(text.finish(), format!("[{}]", alone.join(",")));
        assert_eq!(ListText::new("a", &[]).finish(), "[]");
    }

    #[test]
    fn shared_state_is_in_each_session_of_its_user_only() {
        let mut text = ListText::new("a", &[]);
        let app = JsonMap::from([("x", 1)]);
        text.share("u", &app, &[("y", 2)].into()).unwrap();
        text.share("v", &app, &JsonMap::new()).unwrap();
        for (user, state_text) in [("u", ""), ("v", r#","k":0"#), ("u", r#","k":0"#)] {
            let last_update_time = 1.0;
            text.add(ListedSession {
                id: "s",
                user,
                state_text,
                last_update_time,
            })
            .unwrap();
        }
        let listed = Json::parse(&text.finish()).unwrap();
        let states: Vec<String> = (0..3).map(|at| listed[at]["state"].to_string()).collect();
        assert_eq!(
            states,
            [
                r#"{"app:x":1,"user:y":2}"#,
                r#"{"k":0,"app:x":1}"#,
                r#"{"k":0,"app:x":1,"user:y":2}"#
            ]
        );
    }

    #[test]
    fn unwritable_value_is_an_error_that_names_its_place() {
        let mut text = ListText::new("a", &[]);
        let error = text.add_meta(&meta("s", State::from([("k", f64::NAN)])));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("\"s\"") && error.contains("\"k\""),
            "{error}"
        );
        let timeless = ListedSession {
            id: "s",
            user: "u",
            state_text: "",
            last_update_time: f64::NAN,
        };
        assert!(text.add(timeless).is_err());
        assert_eq!(text.finish(), "[]", "nothing is half written");
    }
}
