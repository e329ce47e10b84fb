//! The list of a user's sessions in the form of ADK's HTTP API: states, and no events.

use retain_core::{
    EncodedSessions, Json, JsonMap, SessionError, SessionKey, StateScope, StateText, budget::charge,
};

/// The id prefixes of sessions that ADK's evaluations create; lists omit these sessions.
const EVALUATION_PREFIXES: [&str; 2] = ["adk-eval-session-", "___eval___session___"];

/// Bytes to reserve for each session, enough for a small state. Without a reservation, a text of a
/// megabyte is copied several times as it grows.
const SESSION_BYTES: usize = 128;

/// Maximum number of sessions to reserve bytes for.
const RESERVED_MAX: usize = 100_000;

/// Writes the list. It allocates nothing per session, because a user may have ten thousand.
pub(super) fn list_text(
    app: &str,
    user: &str,
    sessions: &EncodedSessions,
) -> Result<String, SessionError> {
    let shared = shared_state(app, user, sessions)?;
    let owner = owner_text(app, user);
    // The text, and its copy without secrets.
    let fixed = owner.len() + shared.len() + SESSION_BYTES;
    let rows = sessions.rows.iter();
    charge(
        2 * rows
            .map(|row| row.id.len() + row.state.len() + fixed)
            .sum::<usize>(),
    )?;
    let mut out = String::from("[");
    out.reserve(sessions.rows.len().min(RESERVED_MAX) * SESSION_BYTES);
    for row in sessions.rows.iter() {
        if EVALUATION_PREFIXES
            .iter()
            .any(|start| row.id.starts_with(start))
        {
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(r#"{"id":"#);
        Json::append_str(&mut out, row.id);
        out.push_str(&owner);
        // Each encoded key starts with a comma; remove that of the first key.
        let first = if row.state.is_empty() {
            &shared
        } else {
            row.state
        };
        out.push_str(first.get(1..).unwrap_or_default());
        if !row.state.is_empty() {
            out.push_str(&shared);
        }
        out.push_str(r#"},"events":[],"lastUpdateTime":"#);
        let written = Json::append_float(&mut out, row.last_update_time);
        written.map_err(|error| SessionError::Corrupt {
            key: SessionKey::new(app, user, row.id),
            place: "last update time".to_owned(),
            source: Box::new(error),
        })?;
        out.push('}');
    }
    out.push(']');
    Ok(out)
}

/// Encodes the `app:` and `user:` state, which all sessions of the user share.
fn shared_state(app: &str, user: &str, sessions: &EncodedSessions) -> Result<String, SessionError> {
    let mut text = StateText::default();
    let scopes: [(StateScope, &JsonMap); 2] = [
        (StateScope::App, &sessions.app),
        (StateScope::User, &sessions.user),
    ];
    for (scope, keys) in scopes {
        for (key, value) in keys {
            let key = format!("{}{key}", scope.prefix());
            let pushed = text.push(&key, value);
            let owner = || SessionKey::new(app, user, "");
            pushed.map_err(|error| SessionError::corrupt_state(&owner(), &key, error))?;
        }
    }
    Ok(text.into())
}

/// Returns the JSON between a session's id and the first key of its state.
fn owner_text(app: &str, user: &str) -> String {
    let mut text = String::from(r#","appName":"#);
    Json::append_str(&mut text, app);
    text.push_str(r#","userId":"#);
    Json::append_str(&mut text, user);
    text.push_str(r#","state":{"#);
    text
}

#[cfg(test)]
mod tests {
    use retain_core::{Session, State};

    use super::*;

    #[test]
    fn session_list_equals_its_sessions_serialized_one_by_one() {
        let mut sessions = EncodedSessions {
            app: JsonMap::from([("x", 1)]),
            user: JsonMap::from([("y", 2)]),
            ..EncodedSessions::default()
        };
        assert_eq!(list_text("a", "u", &sessions).unwrap(), "[]");
        sessions
            .rows
            .push("one", 1.5, r#","k\"":{"deep":[1,1.0,"\u0000"]}"#);
        sessions.rows.push("adk-eval-session-1", 1.5, "");
        sessions.rows.push("\"é", 2.0, "");
        sessions.rows.push("two", 1e20, r#","b":1,"a":2"#);
        let rows = sessions.rows.iter();
        let rows = rows.filter(|row| !row.id.starts_with("adk-eval-session-"));
        let expected = rows.map(|row| {
            let own = row.state.get(1..).unwrap_or_default();
            let own = Json::parse(&format!("{{{own}}}")).unwrap();
            let mut session = Session::new("a\"p", "ü\n", row.id);
            let own = own.as_object().unwrap().clone();
            session.state = State::merged(own, &sessions.app, &sessions.user);
            session.last_update_time = row.last_update_time;
            session.to_json().unwrap()
        });
        let expected: Vec<String> = expected.collect();
        let listed = list_text("a\"p", "ü\n", &sessions).unwrap();
        assert_eq!(listed, format!("[{}]", expected.join(",")));
    }

    #[test]
    fn session_list_writes_shared_state_without_session_state() {
        let mut sessions = EncodedSessions {
            app: JsonMap::from([("x", 1)]),
            ..EncodedSessions::default()
        };
        sessions.rows.push("s", 1.0, "");
        sessions.rows.push("t", 1.0, r#","k":0"#);
        let listed = Json::parse(&list_text("a", "u", &sessions).unwrap()).unwrap();
        let states = [0, 1].map(|at| listed[at]["state"].to_string());
        assert_eq!(states, [r#"{"app:x":1}"#, r#"{"k":0,"app:x":1}"#]);
    }

    #[test]
    fn nan_update_time_is_an_error_that_names_the_session() {
        let mut sessions = EncodedSessions::default();
        sessions.rows.push("s", f64::NAN, "");
        let error = list_text("a", "u", &sessions).unwrap_err().to_string();
        assert!(error.contains("\"s\""), "{error}");
    }
}
