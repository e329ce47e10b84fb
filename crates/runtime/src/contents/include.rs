//! Step: keeps events that concern the agent; drops empty events, other branches, other scopes and
//! internal calls.

use std::{cell::OnceCell, collections::HashSet};

use retain_core::{Event, Part};

use super::{ContentsOptions, IndexedEvent, event_view::EventView, paths};

/// Names of calls between ADK and its client, which models do not see.
const INTERNAL_CALLS: [&str; 3] = [
    "adk_framework",
    "adk_request_credential",
    "adk_request_confirmation",
];

/// The included events, and what the later steps must look for in them.
pub(super) struct IncludedEvents<'a> {
    pub(super) views: Vec<EventView<'a>>,
    pub(super) has: HistoryFeatures,
}

/// The features that occur in a history. A step without its feature is skipped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HistoryFeatures {
    pub(super) compaction: bool,
    pub(super) calls: bool,
    pub(super) responses: bool,
    /// A transcription in an event without content.
    pub(super) transcription: bool,
}

/// Returns the events of `live` that the agent sees.
pub(super) fn included_events<'a>(
    live: &[IndexedEvent<'a>],
    options: &ContentsOptions<'_>,
) -> IncludedEvents<'a> {
    let mut views = Vec::with_capacity(live.len());
    let mut has = HistoryFeatures::default();
    let call_ids = OnceCell::new();
    for &one in live {
        let event = one.event;
        let thoughts =
            options.thoughts_of_other_agents && options.is_of_other_agent(&event.author, event);
        if !is_included(event, options, thoughts) || is_tool_progress(one, live, options, &call_ids)
        {
            continue;
        }
        has.record(event);
        views.push(EventView::of_event(one));
    }
    IncludedEvents { views, has }
}

impl HistoryFeatures {
    fn record(&mut self, event: &Event) {
        if event.actions.compaction.is_some() {
            // A summary has its own content, which may contain anything.
            *self = HistoryFeatures {
                compaction: true,
                calls: true,
                responses: true,
                ..*self
            };
        }
        let Some(content) = event.content() else {
            self.transcription = true;
            return;
        };
        for part in content.parts() {
            self.calls |= part.function_call.is_some();
            self.responses |= part.function_response.is_some();
        }
    }
}

/// Whether the agent sees an event. `thoughts` also includes events with nothing but thoughts.
pub(super) fn is_included(event: &Event, options: &ContentsOptions<'_>, thoughts: bool) -> bool {
    event.isolation_scope.as_deref() == options.isolation_scope
        && !is_input_of_other_node(event, options)
        && !is_empty(event, thoughts)
        && paths::sees_branch(options.branch, event.branch.as_deref())
        && !is_internal(event)
}

/// Returns the path of the workflow node that emitted the event; empty if there is none.
pub(super) fn node_path(event: &Event) -> &str {
    let info = event.node_info.as_ref();
    info.and_then(|info| info["path"].as_str())
        .unwrap_or_default()
}

/// Whether this is a user message to another node. Tool results from the user are meant for all
/// nodes.
fn is_input_of_other_node(event: &Event, options: &ContentsOptions<'_>) -> bool {
    if event.node_info.is_none() || event.author != "user" {
        return false;
    }
    let path = node_path(event);
    !path.is_empty() && path != options.node_path.unwrap_or_default() && !has_responses(event)
}

pub(super) fn has_responses(event: &Event) -> bool {
    let content = event.content();
    content.is_some_and(|content| content.function_responses().next().is_some())
}

/// Whether the event has nothing that a model sees.
fn is_empty(event: &Event, thoughts: bool) -> bool {
    if event.actions.compaction.is_some() {
        return false;
    }
    let response = &event.response;
    if let Some(content) = &response.content
        && super::is_set(&content.role)
        && content
            .parts()
            .iter()
            .any(|part| is_visible(part, thoughts))
    {
        return false;
    }
    response.input_transcription.is_none() && response.output_transcription.is_none()
}

/// Whether the model sees a part: calls, responses and signatures always, thoughts if requested,
/// and any other part unless it is empty.
fn is_visible(part: &Part, thoughts: bool) -> bool {
    let always = part.function_call.is_some()
        || part.function_response.is_some()
        || (part.thought_signature.as_ref()).is_some_and(|signature| !signature.is_empty())
        || part.tool_call.is_some()
        || part.tool_response.is_some();
    let is_hidden_thought = part.thought == Some(true) && !thoughts;
    let has_something = super::is_set(&part.text)
        || part.inline_data.is_some()
        || part.file_data.is_some()
        || part.executable_code.is_some()
        || part.code_execution_result.is_some();
    always || (has_something && !is_hidden_thought)
}

fn is_internal(event: &Event) -> bool {
    let parts = event.content().map(|content| content.parts());
    parts.unwrap_or_default().iter().any(|part| {
        let call = part.function_call.as_ref();
        let response = part.function_response.as_ref();
        let names = [
            call.and_then(|call| call.name.as_deref()),
            response.and_then(|response| response.name.as_deref()),
        ];
        names
            .into_iter()
            .flatten()
            .any(|name| INTERNAL_CALLS.contains(&name))
    })
}

/// Whether a tool emitted the event as progress for the user, on a branch `tool@call_id` below the
/// agent's branch. The model gets the tool's response instead. A segment with the agent's own name
/// is the branch of the agent itself, run as a tool.
pub(super) fn is_tool_progress<'a>(
    one: IndexedEvent<'a>,
    live: &[IndexedEvent<'a>],
    options: &ContentsOptions<'_>,
    call_ids: &OnceCell<HashSet<&'a str>>,
) -> bool {
    let Some(branch) = &one.event.branch else {
        return false;
    };
    paths::segments_below(options.branch, branch).any(|segment| {
        let Some((name, id)) = segment.rsplit_once('@') else {
            return false;
        };
        name != options.agent_name && call_ids.get_or_init(|| call_ids_of(live)).contains(id)
    })
}

/// Returns the ids of all calls in the events.
pub(super) fn call_ids_of<'a>(listed: &[IndexedEvent<'a>]) -> HashSet<&'a str> {
    let contents = listed.iter().filter_map(|one| one.event.content());
    contents
        .flat_map(|content| content.function_calls())
        .filter_map(|call| call.id.as_deref())
        .filter(|id| !id.is_empty())
        .collect()
}
