//! The parts of a session that are compared.

use retain_core::{Event, Json, JsonMap, Session};

/// Return the compared parts of a session: owner, state and events. Ids that each run generates
/// become numbers in order of appearance, so that references must still match.
pub(crate) fn comparable_session(session: &Session) -> Json {
    let events = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
    let mut ids = Ids::default();
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

/// The ids seen so far.
#[derive(Default)]
struct Ids(Vec<String>);

impl Ids {
    fn number(&mut self, holder: &mut JsonMap, key: &str) {
        if let Some(id) = holder.get_mut(key) {
            *id = self.numbered(id);
        }
    }

    /// Ids that the model assigned stay unchanged.
    fn numbered(&mut self, id: &Json) -> Json {
        let text = id.as_str().expect("an id is a text");
        if !text.starts_with("adk-") && !text.starts_with("e-") {
            return id.clone();
        }
        let known = self.0.iter().position(|known| known == text);
        let number = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        format!("id {number}").into()
    }
}

fn comparable_event(event: &Event, ids: &mut Ids) -> Json {
    let text = event.to_snake_json().expect("an event can be written");
    let mut json = Json::parse(&text).expect("it can be read back");
    let map = json.as_object_mut().expect("an event is a map");
    map.remove("id");
    map.remove("timestamp");
    ids.number(map, "invocation_id");
    if let Some(actions) = map.get_mut("actions").and_then(Json::as_object_mut) {
        actions.remove("requested_auth_configs");
        actions.remove("requested_tool_confirmations");
    }
    let content = map.get_mut("content").and_then(Json::as_object_mut);
    let parts = content.and_then(|content| content.get_mut("parts"));
    for part in parts.and_then(Json::as_array_mut).into_iter().flatten() {
        let part = part.as_object_mut().expect("a part is a map");
        part.remove("thought_signature");
        for call in ["function_call", "function_response"] {
            if let Some(call) = part.get_mut(call).and_then(Json::as_object_mut) {
                ids.number(call, "id");
            }
        }
    }
    let open = map.get_mut("long_running_tool_ids");
    if let Some(open) = open.and_then(Json::as_array_mut) {
        let mut numbers: Vec<Json> = open.iter().map(|id| ids.numbered(id)).collect();
        numbers.sort_by_key(Json::to_string);
        *open = numbers;
    }
    json
}

/// Convert a recorded session to our types.
pub(crate) fn recorded_session(recorded: &Json) -> Session {
    Session::from_json(&recorded.to_string()).expect("a session is recorded")
}
