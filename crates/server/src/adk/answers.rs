//! ADK's objects as responses: camelCase JSON without secrets.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use retain_core::{Event, Json, JsonMap, Session, State};

use super::{errors::AdkError, redact};

/// Creates a JSON response with the content type that FastAPI uses.
pub(super) fn json_response(text: String) -> Response {
    let mut response = text.into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Returns the response of a route without a result.
pub(super) fn null_response() -> Response {
    json_response("null".to_owned())
}

/// Encodes an event as JSON, without internal metadata and secrets.
pub(super) fn event_text(event: &Event) -> Result<String, AdkError> {
    let text = match redact::has_internal_metadata(event) {
        true => redact::without_internal_metadata(event).to_json(),
        false => event.to_json(),
    };
    let mut text = text.map_err(|error| AdkError::internal(&error))?;
    // ADK 2 writes `nodeInfo` into every event, and its clients expect it.
    if event.node_info.is_none() && text.pop() == Some('}') {
        text.push_str(r#","nodeInfo":{"path":""}}"#);
    }
    Ok(redact::redacted(text)?)
}

/// Encodes a list of events as JSON.
pub(super) fn events_text<'a>(
    events: impl IntoIterator<Item = &'a Event>,
) -> Result<String, AdkError> {
    let mut text = String::from("[");
    for (at, event) in events.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&event_text(event)?);
    }
    text.push(']');
    Ok(text)
}

/// Encodes a session with its loaded events as JSON.
pub(super) fn session_text(session: &Session) -> Result<String, AdkError> {
    session_object(
        [&session.id, &session.app_name, &session.user_id],
        &session.state,
        &events_text(session.events.iter())?,
        session.last_update_time,
    )
}

fn session_object(
    [id, app, user]: [&str; 3],
    state: &State,
    events: &str,
    last_update_time: f64,
) -> Result<String, AdkError> {
    let quoted = |text: &str| Json::from(text).to_string();
    let state: JsonMap = state.to_delta();
    let state = Json::from(state).to_json();
    let state = state.map_err(|error| AdkError::internal(&error))?;
    let state = redact::redacted(state)?;
    let (id, app, user) = (quoted(id), quoted(app), quoted(user));
    let time = Json::from(last_update_time);
    Ok(format!(
        r#"{{"id":{id},"appName":{app},"userId":{user},"state":{state},"events":{events},"lastUpdateTime":{time}}}"#
    ))
}

#[cfg(test)]
mod tests {
    use retain_core::{Event, Json, Session, State, adk::table};

    use super::session_text;

    /// The server assembles the response from encoded parts instead of serializing `Session`.
    #[test]
    fn session_response_equals_the_session_in_adks_table() {
        let mut session = Session::new("a\"p", "ü\n", "s");
        session.state = State::from([("app:k", Json::from(1.0)), ("l", Json::Null)]);
        session.last_update_time = 1e20;
        let text = session_text(&session).unwrap();
        assert_eq!(text, session.to_json().unwrap());
        let event = r#"{"invocationId":"e","author":"user","actions":{"stateDelta":{},"artifactDelta":{},"requestedAuthConfigs":{},"requestedToolConfirmations":{}},"nodeInfo":{"path":""},"id":"1","timestamp":1.0}"#;
        session.events.push(1, Event::from_json(event).unwrap());
        let text = session_text(&session).unwrap();
        assert_eq!(text, session.to_json().unwrap());
        let keys = Json::parse(&text).unwrap();
        let keys: Vec<&str> = keys.as_object().unwrap().keys().collect();
        let fields: Vec<&str> = table::SESSION
            .fields
            .iter()
            .map(|field| field.camel)
            .collect();
        assert_eq!(keys, fields);
    }
}
