//! The default summarizer's prompt: the events as lines of text, in ADK's words.

use std::sync::Arc;

use retain_core::{Event, JsonMap, Part};

use retain_core::python_text::python_repr_map;

/// The request for a summary, which precedes the transcript. It is byte-identical to ADK's, so that
/// models write similar summaries.
const REQUEST: &str = concat!(
    "The following is a conversation history between a user and an AI agent. It may or may not ",
    "start from a compacted history. Please identify and reiterate the user request, summarize ",
    "the context so far, focusing on key decisions made and information obtained, as well as any ",
    "unresolved questions or tasks. CRITICAL INSTRUCTIONS: 1. Explicitly identify and state the ",
    "primary language used by the user at the top of your summary (e.g., \"Conversation Language: ",
    "English\"). 2. If the agent called any tools, accurately list the exact tool names used to ",
    "maintain tool grounding. The rest of the summary should be concise and capture the essence ",
    "of the interaction.\n\n",
);

/// Maximum number of characters in a call's arguments or an answer. Longer ones are truncated.
const TOOL_CHARS: usize = 2000;

/// Returns the prompt that asks a model to summarize the events.
pub fn prompt(events: &[Arc<Event>]) -> String {
    REQUEST.to_owned() + &transcript(events)
}

/// Returns the events as lines of text: messages, thoughts, calls and answers.
pub fn transcript(events: &[Arc<Event>]) -> String {
    let mut lines = Vec::new();
    for event in events.iter().filter(|event| !is_about_credentials(event)) {
        for part in parts(event) {
            push_lines(&mut lines, event, part);
        }
    }
    lines.join("\n")
}

fn push_lines(lines: &mut Vec<String>, event: &Event, part: &Part) {
    let author = &event.author;
    if let Some(text) = part.text.as_ref().filter(|text| !text.is_empty()) {
        match part.thought == Some(true) {
            false => lines.push(format!("{author}: {text}")),
            // Skip the thoughts of the model that wrote this earlier summary.
            true if event.actions.compaction.is_some() => {}
            true => lines.push(format!("{author} (thought): {text}")),
        }
    }
    if let Some(call) = &part.function_call {
        let args = shorten(call.args.as_ref());
        let name = call.name.as_deref().unwrap_or("None");
        lines.push(format!("{author} called tool: {name}({args})"));
    }
    if let Some(answer) = &part.function_response {
        let response = shorten(answer.response.as_ref());
        let name = answer.name.as_deref().unwrap_or("None");
        lines.push(format!("Tool response from {name}: {response}"));
    }
}

fn shorten(map: Option<&JsonMap>) -> String {
    let text = map.map_or_else(|| "None".to_owned(), python_repr_map);
    match text.char_indices().nth(TOOL_CHARS) {
        None => text,
        Some((end, _)) => {
            let (shown, rest) = text.split_at(end);
            format!("{shown}... [truncated {} chars]", rest.chars().count())
        }
    }
}

fn parts(event: &Event) -> &[Part] {
    event
        .content()
        .map(|content| content.parts())
        .unwrap_or_default()
}

/// Whether the event requests or contains the user's credentials, which no model must see.
fn is_about_credentials(event: &Event) -> bool {
    parts(event).iter().any(|part| {
        let call = part.function_call.as_ref().map(|call| &call.name);
        let answer = part.function_response.as_ref().map(|answer| &answer.name);
        let mut names = [call, answer].into_iter().flatten();
        names.any(|name| name.as_deref() == Some("adk_request_credential"))
    })
}
