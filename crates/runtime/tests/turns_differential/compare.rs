//! Both sides made comparable, and the first place where they differ.

use retain_core::{Event, Json, JsonMap};

/// What happened, with ids as numbers in the order in which they are met and without times.
pub(crate) fn comparable(told: &Json) -> Json {
    let mut ids = Vec::new();
    let turns = told["turns"].as_array().unwrap_or_default().iter();
    let turns: Vec<Json> = turns
        .map(|turn| {
            let mut turn = turn.as_object().cloned().unwrap_or_default();
            let events = events(&turn["events"], &mut ids);
            turn.insert("events", events);
            if turn["failed"] == "CallbackError" {
                turn.insert("failed", "ValueError");
            }
            turn.into()
        })
        .collect();
    let asked = told["asked"].as_array().unwrap_or_default().iter();
    let asked: Vec<Json> = asked.map(without_nulls).collect();
    JsonMap::from([
        ("turns", Json::from(turns)),
        ("asked", asked.into()),
        ("stored", events(&told["stored"], &mut ids).into()),
    ])
    .into()
}

fn events(list: &Json, ids: &mut Vec<String>) -> Vec<Json> {
    let events = list.as_array().unwrap_or_default().iter();
    events.map(|event| comparable_event(event, ids)).collect()
}

fn without_nulls(value: &Json) -> Json {
    let mut map = value.as_object().cloned().unwrap_or_default();
    map.retain(|_, value| !value.is_null());
    map.into()
}

fn comparable_event(event: &Json, ids: &mut Vec<String>) -> Json {
    // Through our type, so that what means nothing is left out on both sides.
    let event = Event::from_json(&event.to_string()).expect("an event can be read");
    let text = event.to_json().expect("it can be written");
    let mut json = Json::parse(&text).expect("and read again");
    let map = json.as_object_mut().expect("an event is a map");
    map.remove("timestamp");
    // ADK writes an empty one into events that no node made.
    if map.get("nodeInfo").is_some_and(|info| info["path"] == "") {
        map.remove("nodeInfo");
    }
    // In ADK a piece shares its actions with the whole, and shows what is written after it.
    if event.is_partial() {
        map.remove("actions");
    }
    // It says what to do about it, in our words.
    if map
        .get("errorCode")
        .is_some_and(|code| *code == "LlmCallsLimitExceededError")
    {
        map.remove("errorMessage");
    }
    // Python names the class of what a callback raised.
    if map
        .get("errorCode")
        .is_some_and(|code| *code == "CallbackError")
    {
        map.insert("errorCode", "ValueError");
    }
    number(map, "id", ids);
    number(map, "invocationId", ids);
    let content = map.get_mut("content").and_then(Json::as_object_mut);
    let parts = content.and_then(|content| content.get_mut("parts"));
    for part in parts.and_then(Json::as_array_mut).into_iter().flatten() {
        for call in ["functionCall", "functionResponse"] {
            let part = part.as_object_mut();
            let call = part.and_then(|part| part.get_mut(call)?.as_object_mut());
            if let Some(call) = call {
                number(call, "id", ids);
            }
        }
    }
    let open = map.get_mut("longRunningToolIds");
    if let Some(open) = open.and_then(Json::as_array_mut) {
        open.iter_mut().for_each(|id| *id = numbered(id, ids));
        open.sort_by_key(Json::to_string);
    }
    json
}

fn number(holder: &mut JsonMap, key: &str, ids: &mut Vec<String>) {
    if let Some(id) = holder.get_mut(key) {
        *id = numbered(id, ids);
    }
}

fn numbered(id: &Json, ids: &mut Vec<String>) -> Json {
    let text = id.to_string();
    let known = ids.iter().position(|known| *known == text);
    let number = known.unwrap_or_else(|| {
        ids.push(text);
        ids.len() - 1
    });
    format!("#{number}").into()
}

/// The first place where two values differ, and what stands there.
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
