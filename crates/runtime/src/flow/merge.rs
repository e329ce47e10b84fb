//! Merges the answers of concurrent calls into one event.

use retain_core::{Content, Event, EventActions, Json, JsonError, JsonMap, LlmResponse};

/// Merges all answers into one event; `None` if there are none. Several answers become a new event
/// with an id from `new_id`. `state` returns the live value of a key.
///
/// Fails if a tool's actions cannot be serialized as JSON.
pub(super) fn merge(
    mut answers: Vec<Event>,
    new_id: impl FnOnce() -> String,
    state: impl Fn(&str) -> Option<Json>,
) -> Result<Option<Event>, JsonError> {
    if answers.len() < 2 {
        return Ok(answers.pop());
    }
    let mut actions = merged_actions(&answers)?;
    apply_latest_writes(&mut actions, &answers, state);
    let contents = answers.iter().filter_map(Event::content);
    let parts = contents.flat_map(|content| content.parts().iter().cloned());
    let response = LlmResponse::from_content(Content::new("user", parts.collect()));
    // Author, timestamp and branch are those of the first answer.
    let first = answers.swap_remove(0);
    Ok(Some(Event {
        id: new_id(),
        response,
        actions,
        ..first
    }))
}

/// Merges all actions. Maps are merged at every depth, so that calls can write different keys of
/// one value.
fn merged_actions(answers: &[Event]) -> Result<EventActions, JsonError> {
    let mut merged = Json::from(JsonMap::default());
    let mut widgets: Vec<Json> = Vec::new();
    for answer in answers {
        let mut actions = Json::parse(&answer.actions.to_json()?)?;
        if let Some(map) = actions.as_object_mut()
            && let Some(shown) = map.remove("renderUiWidgets")
        {
            widgets.extend(shown.as_array().unwrap_or_default().iter().cloned());
        }
        deep_merge(&mut merged, actions);
    }
    if !widgets.is_empty()
        && let Some(map) = merged.as_object_mut()
    {
        map.insert("renderUiWidgets", widgets);
    }
    EventActions::from_json(&merged.to_json()?)
}

/// Merges `over` into `value`: maps are merged, other values replaced.
pub(crate) fn deep_merge(value: &mut Json, over: Json) {
    match (value, over) {
        (Json::Object(into), Json::Object(over)) => {
            let into = std::sync::Arc::make_mut(into);
            for (key, over) in over.iter() {
                match into.get_mut(key) {
                    Some(value) => deep_merge(value, over.clone()),
                    None => drop(into.insert(key, over.clone())),
                }
            }
        }
        (value, over) => *value = over,
    }
}

/// Merges the live value over a list or map that several calls wrote. Calls share the live state,
/// so the later write may extend the earlier one.
fn apply_latest_writes(
    actions: &mut EventActions,
    answers: &[Event],
    state: impl Fn(&str) -> Option<Json>,
) {
    let keys: Vec<String> = actions.state_delta.keys().map(str::to_owned).collect();
    for key in keys {
        let Some(latest @ (Json::Object(_) | Json::Array(_))) = state(&key) else {
            continue;
        };
        let writes = answers
            .iter()
            .filter_map(|answer| answer.actions.state_delta.get(&key));
        let writes: Vec<&Json> = writes.collect();
        if writes.len() > 1
            && writes.contains(&&latest)
            && let Some(value) = actions.state_delta.get_mut(&key)
        {
            deep_merge(value, latest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_with_write(key: &str, value: Json) -> Event {
        let mut event = Event::default();
        event.actions.state_delta.insert(key, value);
        event
    }

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn calls_writing_different_keys_of_one_value_are_merged() {
        let answers = vec![
            event_with_write("cart", json(r#"{"a": {"n": 1}, "x": 1}"#)),
            event_with_write("cart", json(r#"{"a": {"m": 2}, "x": 2}"#)),
        ];
        let merged = merge(answers, String::new, |_| None).unwrap().unwrap();
        let cart = json(r#"{"a": {"n": 1, "m": 2}, "x": 2}"#);
        assert_eq!(merged.actions.state_delta["cart"], cart);
    }

    #[test]
    fn later_write_that_extends_a_list_wins_the_merge() {
        let answers = vec![
            event_with_write("list", json("[1, 2]")),
            event_with_write("list", json("[1]")),
        ];
        let merged = merge(answers, String::new, |_| Some(json("[1, 2]")))
            .unwrap()
            .unwrap();
        assert_eq!(merged.actions.state_delta["list"], json("[1, 2]"));
    }

    #[test]
    fn merge_returns_a_single_answer_unchanged() {
        let mut answer = event_with_write("k", json("1"));
        answer.actions.escalate = Some(true);
        assert_eq!(
            merge(vec![answer.clone()], String::new, |_| None).unwrap(),
            Some(answer)
        );
        assert_eq!(merge(vec![], String::new, |_| None).unwrap(), None);
    }

    #[test]
    fn merge_rejects_a_value_that_json_cannot_represent() {
        let answers = vec![
            event_with_write("good", json("1")),
            event_with_write("bad", Json::from(f64::NAN)),
        ];
        assert!(merge(answers, String::new, |_| None).is_err());
    }
}
