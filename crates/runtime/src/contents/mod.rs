//! What of a session's events a model is sent: from the log to the contents of a request.
//!
//! A pure function, [`assemble_contents`], in named steps. Each is a file:
//!
//! ```text
//! rewind         events that a later rewind took back go
//! single_turn    a single-turn node sees its own branch and path only
//! include        empty events, other branches, other scopes, internal calls go
//! compaction     summaries take the place of what they sum up
//! transcription  speech becomes text
//! quoting        turns of other agents become quoted data, said by the user
//! in_order       (nothing to do for the next three, mostly)
//! orphans        responses without a call go, calls without a response too
//! latest         the newest response moves to its call
//! history        all older responses move to their calls
//! call_ids       ids that only ADK knows are taken off
//! task_input     a delegated task stands first
//! ```
//!
//! [`ContentsCache`] gives the same at the cost of what is new.
//!
//! The function is total: any history gives contents. It is equal to ADK 2.13's, which the
//! differential test shows.

mod cache;
mod call_ids;
mod compaction;
mod current_turn;
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
mod turn;

#[cfg(test)]
mod tests;

pub use cache::ContentsCache;
pub use placement::{insertion_point_before_user_turn, place_of_user_content};
pub(crate) use quoting::PREAMBLE as QUOTED_AGENT_PREAMBLE;
use std::sync::Arc;

use retain_core::{Content, Event, Events};

use crate::SharedContent;

/// How much of the history an agent is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeContents {
    /// All of it that concerns the agent.
    #[default]
    Default,
    /// The current turn only: what the user, or another agent, said last, and what followed.
    None,
}

/// Who asks, and how the events are to be shown to him.
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
/// let contents = assemble_contents(&events, &ContentsOptions::of("assistant"));
/// assert_eq!(contents.len(), 2);
/// assert_eq!(contents[1].text_concat(), "Sunny.");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ContentsOptions<'a> {
    /// The agent that the model is asked for. With an empty name nobody is «another agent».
    pub agent_name: &'a str,
    /// The branch it runs on; sees events of this branch and of those above it.
    pub branch: Option<&'a str>,
    /// The delegated task it works on; sees the events of exactly this scope.
    pub isolation_scope: Option<&'a str>,
    /// The workflow node it runs as.
    pub node_path: Option<&'a str>,
    /// How much of the history it is shown.
    pub include_contents: IncludeContents,
    /// Whether ids that ADK gave to calls stay. For models that pair calls and responses by id.
    pub keep_call_ids: bool,
    /// Whether it is shown what other agents thought. Not with [`IncludeContents::None`].
    pub thoughts_of_other_agents: bool,
    /// Whether it has to finish without asking back.
    pub is_single_turn: bool,
    /// What stands for the task if no call delegated it.
    pub user_content: Option<&'a Content>,
}

impl<'a> ContentsOptions<'a> {
    /// For the agent of this name, everything else as by default.
    pub fn of(agent_name: &'a str) -> ContentsOptions<'a> {
        ContentsOptions {
            agent_name,
            ..ContentsOptions::default()
        }
    }

    /// Whether `event` is what another agent said.
    ///
    /// In a live session everything but the user's own words is: the live server takes what
    /// follows a function response for the model's, and would not answer.
    fn is_of_other_agent(&self, author: &str, event: &Event) -> bool {
        if is_set(&event.response.live_session_id) {
            return author != "user";
        }
        !self.agent_name.is_empty() && author != self.agent_name && author != "user"
    }
}

/// An event and its place in the session's list.
#[derive(Clone, Copy)]
struct Listed<'a> {
    index: usize,
    event: &'a Event,
}

/// Python's truth of a text that may be absent.
pub(crate) fn is_set(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

/// The events that no later rewind took back, oldest first.
pub(crate) fn valid_events(events: &Events) -> Vec<&Event> {
    let all = listed(events, 0);
    let valid = rewind::without_rewound(&all);
    valid.iter().map(|one| one.event).collect()
}

/// As [`valid_events`], to be held on to.
pub(crate) fn valid_shared_events(events: &Events) -> Vec<Arc<Event>> {
    let all = listed(events, 0);
    let valid = rewind::without_rewound(&all);
    let shared = valid.iter().filter_map(|one| events.get_shared(one.index));
    shared.collect()
}

/// The contents that the agent's model is sent for these events.
///
/// A content that is sent as it is stored points into its event.
pub fn assemble_contents(events: &Events, options: &ContentsOptions<'_>) -> Vec<SharedContent> {
    let all = listed(events, 0);
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

/// The events from the place `from` on.
fn listed(events: &Events, from: usize) -> Vec<Listed<'_>> {
    let listed = |index| Listed {
        index,
        event: &events[index],
    };
    (from..events.len()).map(listed).collect()
}

fn assemble(
    events: &Events,
    listed: &[Listed<'_>],
    options: &ContentsOptions<'_>,
) -> Vec<SharedContent> {
    let mut contents = assemble_body(events, listed, options).contents;
    if let Some(task) = task_input::task(listed, options) {
        contents.insert(0, task);
    }
    contents
}

/// The contents of some events, without the task ahead of them.
struct Body {
    contents: Vec<SharedContent>,
    /// Whether nothing at the end waits for what comes next: no speech that may go on, no
    /// response that was moved because it is the newest.
    is_closed: bool,
    has_compaction: bool,
}

/// The steps, one after the other, over `listed`, which are some of `events`.
fn assemble_body(events: &Events, listed: &[Listed<'_>], options: &ContentsOptions<'_>) -> Body {
    let live = rewind::without_rewound(listed);
    let live = single_turn::own_and_ancestor_events(live, options);
    let included = include::included(&live, options);
    let has = included.has;
    let mut turns = included.turns;
    if has.compaction {
        let source = turns;
        turns = compaction::with_summaries(&source, options.agent_name);
        turns = recovery::with_compacted_calls(turns, &source);
    }
    let mut is_closed = true;
    if has.transcription {
        (turns, is_closed) = transcription::as_texts(turns);
    }
    turns = quoting::with_others_quoted(turns, options);
    let in_order = in_order::in_order(&turns, has);
    if !in_order.responses {
        let was_moved;
        turns = orphans::without_orphaned_responses(turns);
        (turns, was_moved) = latest::with_latest_response_at_its_call(turns);
        turns = history::with_responses_at_their_calls(turns);
        is_closed &= !was_moved;
    }
    if !(in_order.responses && in_order.calls) {
        turns = orphans::without_orphaned_calls(turns);
    }
    let contents = turns
        .into_iter()
        .filter_map(|turn| turn.into_shared_content(events));
    Body {
        contents: match options.keep_call_ids {
            true => contents.collect(),
            false => contents.map(call_ids::without_client_ids).collect(),
        },
        is_closed,
        has_compaction: has.compaction,
    }
}
