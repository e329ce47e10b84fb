//! Estimates the length of an agent's next prompt in tokens.

use retain_core::{Content, Event, Events, JsonMap, Part, python_text::python_json_map};

use crate::contents::{ContentsOptions, assemble_contents, valid_events, valid_shared_events};

/// The approximate number of characters per token.
const TOKEN_CHARS: usize = 4;

/// Estimates the number of tokens in the agent's next prompt; `None` if the contents are empty.
///
/// Returns the count that the model last reported for this agent, or for any agent if `agent` has
/// no name. Without a count since the last summary, assumes 4 characters per token.
pub fn prompt_tokens(events: &Events, agent: &ContentsOptions<'_>) -> Option<i64> {
    reported_tokens(events, agent).or_else(|| estimated_tokens(events, agent))
}

fn reported_tokens(events: &Events, agent: &ContentsOptions<'_>) -> Option<i64> {
    let valid = valid_events(events);
    let scoped = valid.into_iter().rev();
    let scoped = scoped.filter(|event| event.isolation_scope.as_deref() == agent.isolation_scope);
    let mut since_summary = scoped.take_while(|event| event.actions.compaction.is_none());
    since_summary.find_map(|event: &Event| {
        let is_its = agent.agent_name.is_empty() || event.author == agent.agent_name;
        let usage = event.response.usage_metadata.as_ref().filter(|_| is_its)?;
        usage.prompt_token_count
    })
}

fn estimated_tokens(events: &Events, agent: &ContentsOptions<'_>) -> Option<i64> {
    let agent = ContentsOptions {
        agent_name: agent.agent_name,
        branch: agent.branch,
        isolation_scope: agent.isolation_scope,
        ..ContentsOptions::default()
    };
    // Skip rewound events: a rewound call must not count as the delegated task.
    let mut live = Events::default();
    for (position, event) in (1..).zip(valid_shared_events(events)) {
        live.push(position, event);
    }
    let contents = assemble_contents(&live, &agent);
    let chars: usize = contents.iter().map(|content| content_chars(content)).sum();
    let tokens = i64::try_from(chars / TOKEN_CHARS).unwrap_or(i64::MAX);
    (chars > 0).then_some(tokens)
}

fn content_chars(content: &Content) -> usize {
    content.parts().iter().map(part_chars).sum()
}

/// Returns the number of characters in a part's text, call and answer. Media do not count.
fn part_chars(part: &Part) -> usize {
    let chars = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
    let call = part.function_call.as_ref();
    let call = call.map_or(0, |call| chars(&call.name) + map_chars(call.args.as_ref()));
    let answer = part.function_response.as_ref();
    let answer = answer.map_or(0, |answer| {
        chars(&answer.name) + map_chars(answer.response.as_ref())
    });
    chars(&part.text) + call + answer
}

/// Returns the number of characters that Python's `json.dumps` writes for a map. It escapes
/// non-ASCII characters.
fn map_chars(map: Option<&JsonMap>) -> usize {
    let Some(map) = map.filter(|map| !map.is_empty()) else {
        return 0;
    };
    let written = python_json_map(map);
    let escaped = |c: char| if c <= '~' { 1 } else { 6 * c.len_utf16() };
    written.chars().map(escaped).sum()
}
