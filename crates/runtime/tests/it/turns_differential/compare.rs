//! Makes both sides comparable and finds their first difference.

use retain_core::{Event, Json, JsonMap};

/// Returns the result with ids numbered in order of appearance and without times.
pub(crate) fn comparable(result: &Json) -> Json {
    let mut ids = Vec::new();
    let turns = result["turns"].as_array().unwrap_or_default().iter();
    let turns: Vec<Json> = turns
        .map(|turn| {
            let mut turn = turn.as_object().cloned().unwrap_or_default();
            let events = events(&turn["events"], &mut ids);
            turn.insert("events", events);
            turn.remove("messages");
            if is_value_error(&turn["failed"]) {
                turn.insert("failed", "ValueError");
            }
            turn.into()
        })
        .collect();
    let requests = match &result["requests"] {
        Json::Object(models) => {
            let models = models.iter();
            let models = models.map(|(name, list)| (name.to_owned(), model_requests(list)));
            Json::from(models.collect::<JsonMap>())
        }
        list => model_requests(list),
    };
    JsonMap::from([
        ("turns", Json::from(turns)),
        ("requests", requests),
        ("stored", events(&result["stored"], &mut ids).into()),
    ])
    .into()
}

fn events(list: &Json, ids: &mut Vec<String>) -> Vec<Json> {
    let events = list.as_array().unwrap_or_default().iter();
    events.map(|event| comparable_event(event, ids)).collect()
}

/// Whether the error code denotes Python's `ValueError` or a subclass of it.
fn is_value_error(code: &Json) -> bool {
    let classes = ["CallbackError", "AgentError", "WorkflowDataError"];
    code.as_str().is_some_and(|code| classes.contains(&code))
}

/// Returns the requests of one model.
fn model_requests(list: &Json) -> Json {
    let requests = list.as_array().unwrap_or_default().iter();
    Json::from(requests.map(without_nulls).collect::<Vec<_>>())
}

fn without_nulls(value: &Json) -> Json {
    let mut map = value.as_object().cloned().unwrap_or_default();
    map.retain(|_, value| !value.is_null());
    map.into()
}

fn comparable_event(event: &Json, ids: &mut Vec<String>) -> Json {
    // Convert through Retain's type, which drops meaningless fields on both sides.
    let event = Event::from_json(&event.to_string()).expect("an event is valid");
    let text = event.to_json().expect("an event is JSON");
    let mut json = Json::parse(&text).expect("an event is JSON");
    let map = json.as_object_mut().expect("an event is a map");
    map.remove("timestamp");
    // ADK writes an empty `nodeInfo` into events that no node emitted.
    if map.get("nodeInfo").is_some_and(|info| info["path"] == "") {
        map.remove("nodeInfo");
    }
    // In ADK a partial event shares its actions with the final one, and shows later writes.
    if event.is_partial() {
        map.remove("actions");
    }
    let code = map.get("errorCode").cloned().unwrap_or_default();
    // Retain words these errors differently: they say what to do, and what its own parser found.
    let message = map.get("errorMessage").and_then(Json::as_str);
    let is_about_transfer = message.is_some_and(|it| {
        it.contains("transfer") || it.contains("Transfer") || it.contains("in the agent tree")
    });
    if code == "LlmCallsLimitExceededError" || code == "ValidationError" || is_about_transfer {
        map.remove("errorMessage");
    }
    if is_value_error(&code) {
        map.insert("errorCode", "ValueError");
    }
    number_id(map, "id", ids);
    number_id(map, "invocationId", ids);
    // Number the calls first, because ADK lists pending ones in any order.
    number_calls(&mut json, ids);
    let map = json.as_object_mut().expect("an event is a map");
    let open = map.get_mut("longRunningToolIds");
    if let Some(open) = open.and_then(Json::as_array_mut) {
        open.iter_mut().for_each(|id| *id = id_number(id, ids));
        open.sort_by_key(Json::to_string);
    }
    json
}

/// Numbers call ids wherever they occur: in calls, answers and confirmation requests, and as keys
/// of requested confirmations.
fn number_calls(value: &mut Json, ids: &mut Vec<String>) {
    if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(|item| number_calls(item, ids));
    }
    let Some(map) = value.as_object_mut() else {
        return;
    };
    for call in ["functionCall", "functionResponse", "originalFunctionCall"] {
        if let Some(call) = map.get_mut(call).and_then(Json::as_object_mut) {
            number_id(call, "id", ids);
        }
    }
    let requested = map.get("requestedToolConfirmations");
    if let Some(requested) = requested.and_then(Json::as_object) {
        let numbered = requested.iter().map(|(id, confirmation)| {
            let id = id_number(&id.into(), ids);
            let id = id.as_str().unwrap_or_default().to_owned();
            (id, confirmation.clone())
        });
        let numbered: JsonMap = numbered.collect();
        map.insert("requestedToolConfirmations", numbered);
    }
    let keys: Vec<String> = map.keys().map(ToString::to_string).collect();
    for key in keys {
        if let Some(value) = map.get_mut(&key) {
            number_calls(value, ids);
        }
    }
}

fn number_id(holder: &mut JsonMap, key: &str, ids: &mut Vec<String>) {
    if let Some(id) = holder.get_mut(key) {
        *id = id_number(id, ids);
    }
}

/// Returns the number of an id, `#0` for the first that appears.
fn id_number(id: &Json, ids: &mut Vec<String>) -> Json {
    let text = id.to_string();
    let number = ids.iter().position(|id| *id == text);
    let number = number.unwrap_or_else(|| {
        ids.push(text);
        ids.len() - 1
    });
    format!("#{number}").into()
}

/// Returns the first path where two values differ, with both values.
pub(crate) fn difference(ours: &Json, theirs: &Json, path: &str) -> Option<String> {
    match (ours, theirs) {
        (Json::Object(ours), Json::Object(theirs)) => {
            let keys = ours.keys().chain(theirs.keys());
            keys.into_iter().find_map(|key| {
                let at = format!("{path}.{key}");
                pair(ours.get(key), theirs.get(key), &at)
            })
        }
        (Json::Array(ours), Json::Array(theirs)) => {
            let length = ours.len().max(theirs.len());
            (0..length).find_map(|at| pair(ours.get(at), theirs.get(at), &format!("{path}[{at}]")))
        }
        (ours, theirs) if ours == theirs => None,
        (ours, theirs) => Some(format!("{path}\n  ADK:    {theirs}\n  Retain: {ours}")),
    }
}

fn pair(ours: Option<&Json>, theirs: Option<&Json>, path: &str) -> Option<String> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => difference(ours, theirs, path),
        (None, None) => None,
        (ours, theirs) => {
            let text = |value: Option<&Json>| value.map_or("nothing".to_owned(), Json::to_string);
            let (ours, theirs) = (text(ours), text(theirs));
            Some(format!("{path}\n  ADK:    {theirs}\n  Retain: {ours}"))
        }
    }
}

/// Returns the result as text, one line per event, to help find the cause of a difference.
pub(crate) fn event_lines(result: &Json) -> String {
    let mut lines = String::from("\n");
    for turn in result["turns"].as_array().unwrap_or_default() {
        lines += &format!("  turn, failed: {}\n", turn["failed"]);
        for event in turn["events"].as_array().unwrap_or_default() {
            let parts = &event["content"]["parts"];
            let mut actions = event["actions"].as_object().cloned().unwrap_or_default();
            actions.retain(|_, value| *value != Json::from(JsonMap::default()));
            lines += &format!(
                "    {} [{} {}] {parts} {} {}\n",
                event["author"],
                event["branch"],
                event["nodeInfo"]["path"],
                Json::from(actions),
                event["errorCode"],
            );
        }
    }
    lines
}
