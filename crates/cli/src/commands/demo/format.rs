//! Output of the demo: chapters, events and states.

use retain::{Event, Json, Session, State, model::Part};

use crate::output::say;

/// Prints the title of a chapter.
pub(super) fn print_chapter(number: u32, title: &str) -> anyhow::Result<()> {
    say!("\n{number}. {title}");
    Ok(())
}

/// Prints the events of a session as they are stored.
pub(super) fn print_events(session: &Session) -> anyhow::Result<()> {
    for (position, event) in session.events.iter_with_positions() {
        say!(
            "  {position:>3}  {:<8} {}",
            event.author,
            content_text(event)
        );
    }
    Ok(())
}

/// Formats a state in one line.
pub(super) fn state_text(state: &State) -> String {
    let pairs = state.iter().map(|(key, value)| format!("{key}={value}"));
    let mut pairs: Vec<String> = pairs.collect();
    pairs.sort();
    pairs.join(", ")
}

/// Formats a state value; `-` if it is absent.
pub(super) fn value_text(state: &State, key: &str) -> String {
    let value = state.get(key);
    let text = |value: &Json| value.as_str().map_or(value.to_string(), str::to_owned);
    value.map_or("-".to_owned(), text)
}

/// Describes the content of an event.
fn content_text(event: &Event) -> String {
    let parts = event.content().map(|content| content.parts());
    let texts: Vec<String> = parts.unwrap_or_default().iter().map(part_text).collect();
    texts.join(" ")
}

fn part_text(part: &Part) -> String {
    if let Some(call) = &part.function_call {
        let args = Json::from(call.args.clone().unwrap_or_default());
        return format!("calls {}({args})", call.name.as_deref().unwrap_or("?"));
    }
    if let Some(response) = &part.function_response {
        let name = response.name.as_deref().unwrap_or("?");
        let answer = Json::from(response.response.clone().unwrap_or_default());
        let found = answer["result"]["memories"].as_array().unwrap_or_default();
        let first = found
            .first()
            .map(|memory| &memory["content"]["parts"][0]["text"]);
        let first = first.map(|text| format!(", first {text}"));
        return format!("{name} found {}{}", found.len(), first.unwrap_or_default());
    }
    part.text.clone().unwrap_or_default()
}
