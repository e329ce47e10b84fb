//! Step: converts other agents' events to quoted data in user contents.
//!
//! Users and tools can influence another agent's text, so it is untrusted. It is enclosed in
//! markers that it cannot contain, and a preamble says that it is data.

use std::collections::HashMap;

use retain_core::{
    Content, Part,
    prompt_text::{QUOTED_AGENT, QUOTED_AGENT_PREAMBLE},
    python_text::{python_repr_map, python_repr_sorted, python_strip},
};

use super::{ContentsOptions, event_view::EventView};

/// Quotes other agents' events. Drops an event if nothing in it can be quoted.
pub(super) fn with_others_quoted<'a>(
    views: Vec<EventView<'a>>,
    options: &ContentsOptions<'_>,
) -> Vec<EventView<'a>> {
    let is_own = |author: &str| author == options.agent_name || author == "user";
    if views
        .iter()
        .all(|view| is_own(view.author) && !is_of_other_agent(view, options))
    {
        return views;
    }
    // A response belongs to the agent that made the call.
    let callers = callers(&views);
    let answers_other = |view: &EventView<'a>| {
        let mut callers = view
            .responses()
            .filter_map(|it| callers.get(it.id.as_deref()?));
        callers.any(|caller| !caller.is_empty() && !is_own(caller))
    };
    let quote = |view: &EventView<'a>| match is_of_other_agent(view, options) || answers_other(view)
    {
        true => quote_view(view.clone(), options.thoughts_of_other_agents),
        false => Some(view.clone()),
    };
    views.iter().filter_map(quote).collect()
}

fn is_of_other_agent(view: &EventView<'_>, options: &ContentsOptions<'_>) -> bool {
    match view.is_event() {
        true => options.is_of_other_agent(view.author, view.event),
        // A summary counts as the agent's own event.
        false => false,
    }
}

/// Returns the author of each call, by call id. A reused id belongs to its last author.
fn callers<'t>(views: &'t [EventView<'_>]) -> HashMap<&'t str, &'t str> {
    let mut callers = HashMap::new();
    for view in views {
        for call in view.calls() {
            if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
                callers.insert(id, view.author);
            }
        }
    }
    callers
}

fn quote_view(view: EventView<'_>, thoughts: bool) -> Option<EventView<'_>> {
    if view.parts().is_empty() {
        return Some(view);
    }
    let author = view.author;
    let mut parts = vec![Part::text(QUOTED_AGENT_PREAMBLE)];
    parts.extend(
        view.parts()
            .iter()
            .filter_map(|part| quoted_part(part, author, thoughts)),
    );
    (parts.len() > 1).then(|| view.into_quote(Content::new("user", parts)))
}

/// Returns a part as text that names its author. Media and code stay unchanged, because they would
/// be useless as text.
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
