//! The parts of a session that are compared.

use retain_core::{Event, Json, JsonMap, Session};

/// Returns the compared parts of a session: owner, state and events. Replaces generated ids with
/// numbers, in order of appearance, so that references between events must still match.
pub(crate) fn comparable_session(session: &Session) -> Json {
    let events = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
    let mut ids = GeneratedIds::default();
    let events: Vec<Json> = events
        .map(|event| comparable_event(&event, &mut ids))
        .collect();
    let mut map = JsonMap::from([
        ("app_name", session.app_name.as_str()),
        ("user_id", session.user_id.as_str()),
    ]);
    map.insert("state", session.state.to_delta());
    map.insert("events", events);
    map.into()
}

/// The generated ids so far. The index of an id is its number.
#[derive(Default)]
struct GeneratedIds(Vec<String>);

impl GeneratedIds {
    fn replace(&mut self, map: &mut JsonMap, key: &str) {
        if let Some(id) = map.get_mut(key) {
            *id = self.number_of(id);
        }
    }

    /// Returns the number of a generated id, and any other id unchanged.
    fn number_of(&mut self, id: &Json) -> Json {
        let text = id.as_str().expect("an id must be a string");
        if !text.starts_with("adk-") && !text.starts_with("e-") {
            return id.clone();
        }
        let index = self.0.iter().position(|it| it == text);
        let number = index.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        format!("id {number}").into()
    }
}

fn comparable_event(event: &Event, ids: &mut GeneratedIds) -> Json {
    let text = event.to_snake_json().expect("the event must be writable");
    let mut json = Json::parse(&text).expect("the event must be valid JSON");
    let map = json.as_object_mut().expect("the event must be an object");
    map.remove("id");
    map.remove("timestamp");
    ids.replace(map, "invocation_id");
    if let Some(actions) = map.get_mut("actions").and_then(Json::as_object_mut) {
        actions.remove("requested_auth_configs");
        actions.remove("requested_tool_confirmations");
    }
    let content = map.get_mut("content").and_then(Json::as_object_mut);
    let parts = content.and_then(|content| content.get_mut("parts"));
    for part in parts.and_then(Json::as_array_mut).into_iter().flatten() {
        let part = part.as_object_mut().expect("the part must be an object");
        part.remove("thought_signature");
        for call in ["function_call", "function_response"] {
            if let Some(call) = part.get_mut(call).and_then(Json::as_object_mut) {
                ids.replace(call, "id");
            }
        }
    }
    let open = map.get_mut("long_running_tool_ids");
    if let Some(open) = open.and_then(Json::as_array_mut) {
        let mut numbers: Vec<Json> = open.iter().map(|id| ids.number_of(id)).collect();
        numbers.sort_by_key(Json::to_string);
        *open = numbers;
    }
    json
}

/// Parses a recorded session.
pub(crate) fn recorded_session(recorded: &Json) -> Session {
    Session::from_json(&recorded.to_string()).expect("the recorded session must be valid")
}
