//! Step: shows the events of other agents as quoted data, said by the user.
//!
//! The users and tools of another agent control what it says. So its text is fenced by markers that
//! it cannot contain itself, and a preamble says that it is data.

use std::collections::HashMap;

use retain_core::{
    Content, Part,
    prompt_text::{QUOTED_AGENT, QUOTED_AGENT_PREAMBLE},
    python_text::{python_repr_map, python_repr_sorted, python_strip},
};

use super::{ContentsOptions, turn::Turn};

/// Quotes the turns of other agents, or drops them if nothing in them can be quoted.
pub(super) fn with_others_quoted<'a>(
    turns: Vec<Turn<'a>>,
    options: &ContentsOptions<'_>,
) -> Vec<Turn<'a>> {
    let is_own = |author: &str| author == options.agent_name || author == "user";
    if turns
        .iter()
        .all(|turn| is_own(turn.author) && !is_of_other_agent(turn, options))
    {
        return turns;
    }
    // A response belongs to the agent that made the call.
    let callers = callers(&turns);
    let answers_other = |turn: &Turn<'a>| {
        let mut callers = turn
            .responses()
            .filter_map(|it| callers.get(it.id.as_deref()?));
        callers.any(|caller| !caller.is_empty() && !is_own(caller))
    };
    let quote = |turn: &Turn<'a>| match is_of_other_agent(turn, options) || answers_other(turn) {
        true => quote_turn(turn.clone(), options.thoughts_of_other_agents),
        false => Some(turn.clone()),
    };
    turns.iter().filter_map(quote).collect()
}

fn is_of_other_agent(turn: &Turn<'_>, options: &ContentsOptions<'_>) -> bool {
    match turn.is_event() {
        true => options.is_of_other_agent(turn.author, turn.event),
        // A summary counts as the agent's own.
        false => false,
    }
}

/// The authors of calls, by call id. A reused id belongs to the last author.
fn callers<'t>(turns: &'t [Turn<'_>]) -> HashMap<&'t str, &'t str> {
    let mut callers = HashMap::new();
    for turn in turns {
        for call in turn.calls() {
            if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
                callers.insert(id, turn.author);
            }
        }
    }
    callers
}

fn quote_turn(turn: Turn<'_>, thoughts: bool) -> Option<Turn<'_>> {
    if turn.parts().is_empty() {
        return Some(turn);
    }
    let author = turn.author;
    let mut parts = vec![Part::text(QUOTED_AGENT_PREAMBLE)];
    parts.extend(
        turn.parts()
            .iter()
            .filter_map(|part| quoted_part(part, author, thoughts)),
    );
    (parts.len() > 1).then(|| turn.into_quote(Content::new("user", parts)))
}

/// A part as text that names its author. Media and code stay unchanged, because they would be
/// useless as text.
fn quoted_part(part: &Part, author: &str, thoughts: bool) -> Option<Part> {
    let text = part.text.as_deref();
    let text = text.filter(|text| !python_strip(text).is_empty());
    if part.thought == Some(true) {
        let text = text.filter(|_| thoughts)?;
        return Some(Part::text(format!(
            "[{author}] thought:\n{}",
            QUOTED_AGENT.around(text)
        )));
    }
    if let Some(text) = text {
        return Some(Part::text(format!(
            "[{author}] said:\n{}",
            QUOTED_AGENT.around(text)
        )));
    }
    if let Some(call) = &part.function_call {
        let name = QUOTED_AGENT.without_marks(call.name.as_deref().unwrap_or("None"));
        let args = call.args.as_ref().map(python_repr_sorted);
        let args = QUOTED_AGENT.around(args.as_deref().unwrap_or("None"));
        return Some(Part::text(format!(
            "[{author}] called tool `{name}` with parameters:\n{args}"
        )));
    }
    if let Some(response) = &part.function_response {
        let name = QUOTED_AGENT.without_marks(response.name.as_deref().unwrap_or("None"));
        let result = response.response.as_ref().map(python_repr_map);
        let result = QUOTED_AGENT.around(result.as_deref().unwrap_or("None"));
        return Some(Part::text(format!(
            "[{author}] `{name}` tool returned result:\n{result}"
        )));
    }
    let is_media_or_code = part.inline_data.is_some()
        || part.file_data.is_some()
        || part.executable_code.is_some()
        || part.code_execution_result.is_some();
    is_media_or_code.then(|| part.clone())
}
