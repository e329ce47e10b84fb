//! Assembles the contents of a model request from the events of a session.
//!
//! [`assemble_contents`] is a pure function that applies named steps. Each step is a file:
//!
//! ```text
//! rewind         drops events that a later rewind undid
//! single_turn    a single-turn node sees its own branch and path only
//! include        drops empty events, other branches, other scopes, internal calls
//! compaction     summaries replace the events that they summarize
//! transcription  speech becomes text
//! quoting        events of other agents become quoted data in user contents
//! in_order       (skips the next three if nothing needs them, as is usual)
//! orphans        drops responses without a call and calls without a response
//! latest         the newest response moves to its call
//! history        all older responses move to their calls
//! call_ids       removes ids that only ADK knows
//! task_input     a delegated task comes first
//! ```
//!
//! [`ContentsCache`] returns the same contents, but assembles only new events.
//!
//! The function is total: any history gives contents. Its result equals that of ADK 2.13, which the
//! differential test checks.

mod cache;
mod call_ids;
mod compaction;
mod current_turn;
mod event_view;
mod history;
mod in_order;
mod include;
mod latest;
mod merge;
mod orphans;
mod paths;
mod placement;
mod quoting;
mod recovery;
mod rewind;
mod single_turn;
pub(crate) mod spans;
mod task_input;
mod transcription;

#[cfg(test)]
mod tests;

pub use cache::ContentsCache;
pub use placement::{insertion_point_before_user_turn, place_of_user_content};
use std::sync::Arc;

use retain_core::{Content, Event, Events};

use crate::SharedContent;

/// How much of the history an agent sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeContents {
    /// All events that concern the agent.
    #[default]
    Default,
    /// Only the current turn: the last message of the user or of another agent, and everything
    /// after it.
    None,
}

/// The agent that sees the events, and how it sees them.
///
/// ```
/// use retain_core::{Event, Events};
/// use retain_runtime::contents::{ContentsOptions, assemble_contents};
/// let events: Events = [
///     (1, Event::user_text("How is the weather?")),
///     (2, Event::model_text("assistant", "Sunny.")),
/// ]
/// .into_iter()
/// .collect();
/// let contents = assemble_contents(&events, &ContentsOptions::new("assistant"));
/// assert_eq!(contents.len(), 2);
/// assert_eq!(contents[1].text_concat(), "Sunny.");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct ContentsOptions<'a> {
    /// The agent whose model is called. If the name is empty, no event belongs to another agent.
    pub agent_name: &'a str,
    /// The branch that the agent runs on. It sees the events of this branch and of those above it.
    pub branch: Option<&'a str>,
    /// The delegated task that the agent works on. It sees only events with exactly this scope.
    pub isolation_scope: Option<&'a str>,
    /// The workflow node that the agent runs as.
    pub node_path: Option<&'a str>,
    /// How much of the history the agent sees.
    pub include_contents: IncludeContents,
    /// Whether generated call ids stay, for models that pair calls and responses by id.
    pub keep_call_ids: bool,
    /// Whether the agent sees other agents' thoughts. Ignored with [`IncludeContents::None`].
    pub thoughts_of_other_agents: bool,
    /// Whether the agent must finish without asking the user.
    pub is_single_turn: bool,
    /// The user content. It becomes the agent's task if no call delegated one.
    pub user_content: Option<&'a Content>,
}

impl<'a> ContentsOptions<'a> {
    /// Creates the default options for the agent of this name.
    pub fn new(agent_name: &'a str) -> ContentsOptions<'a> {
        ContentsOptions {
            agent_name,
            ..ContentsOptions::default()
        }
    }

    /// Whether `event` belongs to another agent.
    ///
    /// In a live session, all events except those of the user do: the live server would take
    /// contents after a function response for its own output and not answer.
    fn is_of_other_agent(&self, author: &str, event: &Event) -> bool {
        if is_set(&event.response.live_session_id) {
            return author != "user";
        }
        !self.agent_name.is_empty() && author != self.agent_name && author != "user"
    }
}

/// An event and its index in the session's list.
#[derive(Clone, Copy)]
struct IndexedEvent<'a> {
    index: usize,
    event: &'a Event,
}

/// Whether a text is set and not empty: Python's truth value of an optional string.
pub(crate) fn is_set(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

/// Returns the events that no later rewind undid, oldest first.
pub(crate) fn valid_events(events: &Events) -> Vec<&Event> {
    let all = indexed_events(events, 0);
    let valid = rewind::without_rewound(&all);
    valid.iter().map(|one| one.event).collect()
}

/// Like [`valid_events`], but returns shared events.
pub(crate) fn valid_shared_events(events: &Events) -> Vec<Arc<Event>> {
    let all = indexed_events(events, 0);
    let valid = rewind::without_rewound(&all);
    let shared = valid.iter().filter_map(|one| events.get_shared(one.index));
    shared.collect()
}

/// Assembles the contents that the agent's model gets for these events.
///
/// A content that no step changes is shared with its event, not copied.
pub fn assemble_contents(events: &Events, options: &ContentsOptions<'_>) -> Vec<SharedContent> {
    let all = indexed_events(events, 0);
    match options.include_contents {
        IncludeContents::Default => assemble(events, &all, options),
        IncludeContents::None => {
            let options = ContentsOptions {
                thoughts_of_other_agents: false,
                ..*options
            };
            let scoped = single_turn::own_events(all.into(), &options);
            match current_turn::start(&scoped, &options) {
                Some(start) => assemble(events, &scoped[start..], &options),
                None => Vec::new(),
            }
        }
    }
}

/// Returns the events from index `from` on.
fn indexed_events(events: &Events, from: usize) -> Vec<IndexedEvent<'_>> {
    let indexed = |index| IndexedEvent {
        index,
        event: &events[index],
    };
    (from..events.len()).map(indexed).collect()
}

fn assemble(
    events: &Events,
    listed: &[IndexedEvent<'_>],
    options: &ContentsOptions<'_>,
) -> Vec<SharedContent> {
    let mut contents = assemble_body(events, listed, options).contents;
    if let Some(task) = task_input::task_content(listed, options) {
        contents.insert(0, task);
    }
    contents
}

/// The contents of some events, without the delegated task that precedes them.
struct Body {
    contents: Vec<SharedContent>,
    /// Whether no later event can change these contents: they do not end with speech that may
    /// continue, and no response was moved because it is the newest.
    is_closed: bool,
    has_compaction: bool,
}

/// Applies the steps to `listed`, which are some of `events`.
fn assemble_body(
    events: &Events,
    listed: &[IndexedEvent<'_>],
    options: &ContentsOptions<'_>,
) -> Body {
    let live = rewind::without_rewound(listed);
    let live = single_turn::own_and_ancestor_events(live, options);
    let included = include::included_events(&live, options);
    let has = included.has;
    let mut views = included.views;
    if has.compaction {
        let source = views;
        views = compaction::with_summaries(&source, options.agent_name);
        views = recovery::with_compacted_calls(views, &source);
    }
    let mut is_closed = true;
    if has.transcription {
        (views, is_closed) = transcription::transcriptions_to_text(views);
    }
    views = quoting::with_others_quoted(views, options);
    let in_order = in_order::check_call_order(&views, has);
    if !in_order.responses {
        let was_moved;
        views = orphans::without_orphaned_responses(views);
        (views, was_moved) = latest::with_latest_response_at_its_call(views);
        views = history::with_responses_at_their_calls(views);
        is_closed &= !was_moved;
    }
    if !(in_order.responses && in_order.calls) {
        views = orphans::without_orphaned_calls(views);
    }
    let contents = views
        .into_iter()
        .filter_map(|view| view.into_shared_content(events));
    Body {
        contents: match options.keep_call_ids {
            true => contents.collect(),
            false => contents.map(call_ids::without_client_ids).collect(),
        },
        is_closed,
        has_compaction: has.compaction,
    }
}
