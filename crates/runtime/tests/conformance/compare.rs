//! What is compared, and how a difference is told.

use std::fmt;

use retain_core::{Content, Event, GenerateContentConfig, Json, JsonMap, Session};
use retain_runtime::LlmRequest;

use crate::case::list;

/// Something that is not as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// In which request, call, event.
    place: String,
    /// Where in it.
    path: String,
    expected: String,
    found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.place, self.path)?;
        writeln!(f, "  expected: {}", self.expected)?;
        write!(f, "  found:    {}", self.found)
    }
}

impl Difference {
    /// One that is told in words.
    pub(crate) fn of(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Difference {
        Difference {
            place: place.into(),
            path: "as a whole".to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// Where two values differ.
pub(crate) fn differences(place: &str, expected: &Json, found: &Json) -> Vec<Difference> {
    let mut all = Vec::new();
    walk(expected, found, "$", &mut |path, expected, found| {
        let (expected, found) = excerpts(expected, found);
        all.push(Difference {
            place: place.to_owned(),
            path: path.to_owned(),
            expected,
            found,
        });
    });
    all
}

type Tell<'a> = &'a mut dyn FnMut(&str, Option<&Json>, Option<&Json>);

fn walk(expected: &Json, found: &Json, path: &str, tell: Tell<'_>) {
    match (expected, found) {
        (Json::Object(expected), Json::Object(found)) => {
            for (key, value) in expected.iter() {
                let path = format!("{path}.{key}");
                match found.get(key) {
                    Some(other) => walk(value, other, &path, tell),
                    None => tell(&path, Some(value), None),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(key)) {
                tell(&format!("{path}.{key}"), None, Some(value));
            }
        }
        (Json::Array(expected), Json::Array(found)) => {
            for at in 0..expected.len().max(found.len()) {
                let path = format!("{path}[{at}]");
                match (expected.get(at), found.get(at)) {
                    (Some(value), Some(other)) => walk(value, other, &path, tell),
                    (value, other) => tell(&path, value, other),
                }
            }
        }
        (expected, found) if expected == found => {}
        (expected, found) => tell(path, Some(expected), Some(found)),
    }
}

/// Both values as texts, from shortly before the first letter that differs.
fn excerpts(expected: Option<&Json>, found: Option<&Json>) -> (String, String) {
    let text = |value: Option<&Json>| value.map_or("nothing".to_owned(), Json::to_string);
    let (expected, found) = (text(expected), text(found));
    let same = expected.chars().zip(found.chars());
    let same = same.take_while(|(a, b)| a == b).count();
    let excerpt = |text: String| -> String {
        let from = if same > 80 { same - 40 } else { 0 };
        let lead = if from > 0 { "…" } else { "" };
        let shown: String = text.chars().skip(from).take(300).collect();
        format!("{lead}{shown}")
    };
    (excerpt(expected), excerpt(found))
}

/// A request of ours in the form of the recordings.
pub(crate) fn request_json(request: &LlmRequest) -> Json {
    let contents = request.contents.iter().map(|content| {
        let text = content.to_snake_json().expect("a content can be written");
        Json::parse(&text).expect("it can be read back")
    });
    let config = request.config.to_snake_json();
    let config = Json::parse(&config.expect("settings can be written"));
    let mut map = JsonMap::from([("model", request.model.as_str())]);
    map.insert("contents", contents.collect::<Vec<Json>>());
    map.insert("config", config.expect("they can be read back"));
    if let Some(id) = &request.previous_interaction_id {
        map.insert("previous_interaction_id", id.as_str());
    }
    map.into()
}

/// A recorded request, spelled as ours is.
pub(crate) fn recorded_request(recorded: &Json) -> Json {
    let contents = list(&recorded["contents"]).into_iter().map(|content| {
        let content = Content::from_json(&content.to_string()).expect("a content is recorded");
        Json::parse(&content.to_snake_json().expect("it can be written")).expect("and read")
    });
    let contents: Vec<Json> = contents.collect();
    let config = GenerateContentConfig::from_json(&recorded["config"].to_string());
    let config = config.expect("settings are recorded").to_snake_json();
    let mut map = recorded.as_object().cloned().unwrap_or_default();
    map.insert("contents", contents);
    map.insert(
        "config",
        Json::parse(&config.expect("they can be written")).expect("and read"),
    );
    map.into()
}

/// What is compared of a request.
pub(crate) fn comparable_request(mut request: Json) -> Json {
    let map = request.as_object_mut().expect("a request is a map");
    map.remove("live_connect_config");
    let config = map.get_mut("config").and_then(Json::as_object_mut);
    let config = config.expect("a request has settings");
    config.remove("http_options");
    config.remove("labels");
    let tools = config.get_mut("tools").and_then(Json::as_array_mut);
    for tool in tools.into_iter().flatten() {
        let declared = tool.as_object_mut().expect("a tool is a map");
        let declared = declared.get_mut("function_declarations");
        for declaration in declared.and_then(Json::as_array_mut).into_iter().flatten() {
            let declaration = declaration.as_object_mut().expect("a declaration is a map");
            normalize_declaration(declaration);
        }
    }
    request
}

/// The model sees a description of the parameters in the tool's own; how a schema says it in
/// addition differs from library to library.
fn normalize_declaration(declaration: &mut JsonMap) {
    declaration.remove("response");
    declaration.remove("response_json_schema");
    if let Some(schema) = declaration.remove("parameters") {
        declaration.insert("parameters_json_schema", schema);
    }
    if let Some(schema) = declaration.get_mut("parameters_json_schema") {
        *schema = comparable_schema(schema);
    }
}

fn comparable_schema(schema: &Json) -> Json {
    let map = match schema {
        Json::Object(map) => map,
        Json::Array(items) => {
            return items
                .iter()
                .map(comparable_schema)
                .collect::<Vec<_>>()
                .into();
        }
        plain => return plain.clone(),
    };
    let mut kept = JsonMap::default();
    for (key, value) in map.iter() {
        match key {
            "title" | "default" | "description" => {}
            // Its keys are the names of parameters, which may be any word.
            "properties" => {
                let properties = value.as_object().expect("properties are a map").iter();
                let properties = properties.map(|(name, schema)| (name, comparable_schema(schema)));
                kept.insert(key, properties.collect::<JsonMap>());
            }
            _ => {
                kept.insert(key, comparable_schema(value));
            }
        }
    }
    kept.into()
}

/// What is compared of a session: owner, state and events. Ids that every run makes anew become
/// numbers in the order in which they are met, so that what belongs together still has to.
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

/// Ids that were met so far.
#[derive(Default)]
struct Ids(Vec<String>);

impl Ids {
    fn number(&mut self, holder: &mut JsonMap, key: &str) {
        if let Some(id) = holder.get_mut(key) {
            *id = self.numbered(id);
        }
    }

    /// An id that the model gave stays as it is.
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

/// A recorded session, in our types.
pub(crate) fn recorded_session(recorded: &Json) -> Session {
    Session::from_json(&recorded.to_string()).expect("a session is recorded")
}
