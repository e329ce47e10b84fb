//! ADK's objects as responses: camelCase JSON without secrets.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use retain_core::{Event, Json, JsonMap, Session, State};

use super::{errors::AdkError, redact};

/// JSON with its content type, as FastAPI writes it.
pub(super) fn json_response(text: String) -> Response {
    let mut response = text.into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The response of a route without a result.
pub(super) fn null_response() -> Response {
    json_response("null".to_owned())
}

/// An event as clients may see it.
pub(super) fn event_text(event: &Event) -> Result<String, AdkError> {
    let text = match redact::has_internal_notes(event) {
        true => redact::without_internal_notes(event).to_json(),
        false => event.to_json(),
    };
    let mut text = text.map_err(|error| AdkError::internal(&error))?;
    // ADK 2 writes it into every event, and its clients read it there.
    if event.node_info.is_none() && text.pop() == Some('}') {
        text.push_str(r#","nodeInfo":{"path":""}}"#);
    }
    Ok(redact::redacted(text))
}

/// A list of events.
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

/// A session with its loaded events.
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
    let state = redact::redacted(state);
    let (id, app, user) = (quoted(id), quoted(app), quoted(user));
    let time = Json::from(last_update_time);
    Ok(format!(
        r#"{{"id":{id},"appName":{app},"userId":{user},"state":{state},"events":{events},"lastUpdateTime":{time}}}"#
    ))
}
