//! `ContentsCache`: assembles the contents of a growing session at the cost of its new events.
//!
//! Each model call needs the contents of the whole history, though only a few events are new. The
//! cache keeps the contents of a *settled* prefix and assembles only the rest:
//!
//! ```text
//! assemble(prefix ++ rest) == assemble(prefix) ++ assemble(rest)
//! ```
//!
//! A prefix is settled when nothing at its end depends on later events ([`Body::is_closed`]). The
//! rest affects the contents of a settled prefix only if the rest
//!
//! - rewinds or summarizes,
//! - shares a call, response or long-running call id with the prefix, or has a call or response
//!   without an id while the prefix has one too,
//! - is on the branch of a call in the prefix, or makes a call that a branch in the prefix names,
//! - is out of time order while the prefix has a summary, which orders events by time.
//!
//! In these cases the cache assembles everything again. A test appends events to random histories
//! and compares the result with that of [`assemble_contents`] each time.

use std::{collections::HashSet, sync::Arc};

use retain_core::{Event, Events};

use super::{
    Body, ContentsOptions, IncludeContents, IndexedEvent, assemble_body, assemble_contents,
    indexed_events, is_set, paths, task_input,
};
use crate::SharedContent;

/// If fewer events than this follow the prefix and one of their calls is pending, none of them
/// moves into the prefix, because the response usually follows soon.
const OPEN_MAX: usize = 16;

/// Caches the contents of a growing session for one agent. It accepts any list and any options, and
/// is fast if the list extends that of the last call.
///
/// ```
/// use retain_core::{Event, Events};
/// use retain_runtime::contents::{ContentsCache, ContentsOptions, assemble_contents};
/// let (mut cache, mut events) = (ContentsCache::default(), Events::default());
/// let options = ContentsOptions::new("assistant");
/// for position in 1..100 {
///     events.push(position, Event::user_text("again"));
///     assert_eq!(cache.assemble(&events, &options), assemble_contents(&events, &options));
///     assert_eq!(cache.settled(), events.len());
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContentsCache {
    options: OwnedOptions,
    prefix: Prefix,
}

/// The assembled first events of a list.
#[derive(Debug, Clone, Default)]
struct Prefix {
    /// The number of events in the prefix.
    count: usize,
    /// The first and last event of the prefix with their positions, to detect a different list.
    ends: Option<[(u64, Arc<Event>); 2]>,
    contents: Vec<SharedContent>,
    /// The delegated task, if a call in the prefix delegated one.
    task: Option<SharedContent>,
    link_index: LinkIndex,
}

impl ContentsCache {
    /// Like [`assemble_contents`], but reuses the contents of settled events.
    pub fn assemble(
        &mut self,
        events: &Events,
        options: &ContentsOptions<'_>,
    ) -> Vec<SharedContent> {
        if options.include_contents == IncludeContents::None {
            return assemble_contents(events, options);
        }
        if !self.options.matches(options) {
            self.options = OwnedOptions::from_options(options);
            self.prefix = Prefix::default();
        }
        if !self.prefix.is_prefix_of(events) {
            self.prefix = Prefix::default();
        }
        let rest = indexed_events(events, self.prefix.count);
        if self.prefix.count > 0 && self.prefix.link_index.affects(&rest, options) {
            self.prefix = Prefix::default();
            return self.extend(events, &indexed_events(events, 0), options);
        }
        self.extend(events, &rest, options)
    }

    /// The approximate size of what the cache holds itself, in bytes: contents that differ from
    /// those of the events, and the ids of calls.
    pub(crate) fn bytes(&self) -> usize {
        let contents = self.prefix.contents.iter();
        let contents: usize = contents.map(SharedContent::own_bytes).sum();
        let links = &self.prefix.link_index;
        let ids = links.calls.iter().chain(&links.branches);
        contents + ids.map(|id| id.len() + 64).sum::<usize>()
    }

    /// Returns the number of settled events, which the next call need not assemble again.
    pub fn settled(&self) -> usize {
        self.prefix.count
    }

    fn extend(
        &mut self,
        events: &Events,
        rest: &[IndexedEvent<'_>],
        options: &ContentsOptions<'_>,
    ) -> Vec<SharedContent> {
        let body = assemble_body(events, rest, options);
        let task = self.prefix.task.clone();
        let task = task.or_else(|| match options.isolation_scope {
            Some(_) => task_input::task_content(rest, options),
            None => None,
        });
        let mut contents = Vec::with_capacity(self.prefix.contents.len() + body.contents.len() + 1);
        contents.extend(task);
        contents.extend_from_slice(&self.prefix.contents);
        contents.extend_from_slice(&body.contents);
        self.settle(events, rest, body, options);
        contents
    }

    /// Moves the settled events of the rest into the prefix.
    fn settle(
        &mut self,
        events: &Events,
        rest: &[IndexedEvent<'_>],
        body: Body,
        options: &ContentsOptions<'_>,
    ) {
        let link_index = LinkIndex::from_events(rest, &body, options);
        if body.is_closed && link_index.unanswered == 0 {
            return self.prefix.absorb(events, rest, body, link_index, options);
        }
        if rest.len() < OPEN_MAX {
            return;
        }
        // Events before the user's newest message are the most likely to be settled.
        let is_message = |one: &IndexedEvent<'_>| {
            one.event.author == "user" && !super::include::has_responses(one.event)
        };
        let (done, open) = rest.split_at(rest.iter().rposition(is_message).unwrap_or(0));
        let done_body = assemble_body(events, done, options);
        let done_link_index = LinkIndex::from_events(done, &done_body, options);
        if !done.is_empty() && done_body.is_closed && !done_link_index.affects(open, options) {
            self.prefix
                .absorb(events, done, done_body, done_link_index, options);
        } else if body.is_closed {
            self.prefix.absorb(events, rest, body, link_index, options);
        }
    }
}

impl Prefix {
    /// Whether this list starts with the events of the prefix.
    fn is_prefix_of(&self, events: &Events) -> bool {
        let Some([first, last]) = &self.ends else {
            return true;
        };
        let is_at = |index: usize, (position, event): &(u64, Arc<Event>)| {
            events.position(index) == Some(*position)
                && (events.get_shared(index)).is_some_and(|it| Arc::ptr_eq(&it, event))
        };
        is_at(0, first) && is_at(self.count - 1, last)
    }

    fn absorb(
        &mut self,
        events: &Events,
        rest: &[IndexedEvent<'_>],
        body: Body,
        link_index: LinkIndex,
        options: &ContentsOptions<'_>,
    ) {
        let Some(count) = rest.last().map(|last| last.index + 1) else {
            return;
        };
        let end = |index| Some((events.position(index)?, events.get_shared(index)?));
        self.ends = end(0)
            .zip(end(count - 1))
            .map(|(first, last)| [first, last]);
        self.count = if self.ends.is_some() { count } else { 0 };
        self.contents.extend(body.contents);
        if self.task.is_none() {
            self.task = task_input::task_from_call(rest, options);
        }
        self.link_index.add(link_index);
    }
}

/// The ids, branches and times that link some events to others. A later event that refers to any of
/// them can change how these events are assembled.
#[derive(Debug, Clone, Default)]
struct LinkIndex {
    /// Ids of calls, responses and long-running calls.
    calls: HashSet<String>,
    /// Call ids in branches below the agent's branch: the text after an `@`.
    branches: HashSet<String>,
    /// Whether there are calls or responses without an id.
    has_missing_ids: bool,
    /// The number of calls without a response.
    unanswered: usize,
    /// The latest timestamp.
    newest: f64,
    /// Whether events are ordered by time, because there is a summary.
    is_by_time: bool,
}

impl LinkIndex {
    fn from_events(
        listed: &[IndexedEvent<'_>],
        body: &Body,
        options: &ContentsOptions<'_>,
    ) -> LinkIndex {
        let mut link_index = LinkIndex::default();
        let (mut called, mut answered) = (HashSet::new(), HashSet::new());
        for one in listed {
            for link in links(one.event, options) {
                match link {
                    Link::Call(id) => drop(called.insert(id)),
                    Link::Response(id) => drop(answered.insert(id)),
                    Link::LongRunning(id) => drop(link_index.calls.insert(id.to_owned())),
                    Link::WithoutId => link_index.has_missing_ids = true,
                    Link::Branch(id) => drop(link_index.branches.insert(id.to_owned())),
                }
            }
        }
        link_index.unanswered = called.difference(&answered).count();
        link_index
            .calls
            .extend(called.union(&answered).map(|id| (*id).to_owned()));
        link_index.newest = latest_time(listed);
        link_index.is_by_time = body.has_compaction;
        link_index
    }

    fn add(&mut self, more: LinkIndex) {
        self.calls.extend(more.calls);
        self.branches.extend(more.branches);
        self.has_missing_ids |= more.has_missing_ids;
        self.newest = self.newest.max(more.newest);
        self.is_by_time |= more.is_by_time;
    }

    /// Whether the contents of `rest` and of these events depend on each other, so that they must
    /// be assembled together.
    fn affects(&self, rest: &[IndexedEvent<'_>], options: &ContentsOptions<'_>) -> bool {
        let is_rewind_or_summary = |one: &IndexedEvent<'_>| {
            let actions = &one.event.actions;
            is_set(&actions.rewind_before_invocation_id) || actions.compaction.is_some()
        };
        rest.iter().any(is_rewind_or_summary)
            || self.is_reordered_by(rest)
            || self.has_link_to(rest, options)
    }

    /// Whether ordering by time would reorder the rest or move it between these events.
    fn is_reordered_by(&self, rest: &[IndexedEvent<'_>]) -> bool {
        let is_later = |one: &IndexedEvent<'_>| one.event.timestamp > self.newest;
        let is_in_order =
            |pair: &[IndexedEvent<'_>]| pair[0].event.timestamp <= pair[1].event.timestamp;
        let is_behind = rest.iter().all(is_later) && rest.windows(2).all(is_in_order);
        self.is_by_time && !is_behind
    }

    fn has_link_to(&self, rest: &[IndexedEvent<'_>], options: &ContentsOptions<'_>) -> bool {
        let mut links = rest.iter().flat_map(|one| links(one.event, options));
        links.any(|link| match link {
            Link::Call(id) | Link::Response(id) | Link::LongRunning(id) => {
                self.calls.contains(id) || self.branches.contains(id)
            }
            Link::Branch(id) => self.calls.contains(id),
            Link::WithoutId => self.has_missing_ids,
        })
    }
}

/// Returns the latest timestamp in the events, including the spans of summaries.
fn latest_time(listed: &[IndexedEvent<'_>]) -> f64 {
    let times = listed.iter().flat_map(|one| {
        let span = one.event.actions.compaction.as_ref();
        let span = span.map(|span| [span.start_timestamp, span.end_timestamp]);
        let event = [one.event.timestamp].into_iter();
        event.chain(span.into_iter().flatten())
    });
    times.fold(f64::MIN, |latest, time| match time.is_nan() {
        // NaN cannot be ordered.
        true => f64::INFINITY,
        false => latest.max(time),
    })
}

/// A reference from an event to other events.
enum Link<'a> {
    Call(&'a str),
    Response(&'a str),
    LongRunning(&'a str),
    /// A call or response without an id.
    WithoutId,
    Branch(&'a str),
}

/// Returns the references in `event`, including those in its summary.
fn links<'a>(event: &'a Event, options: &ContentsOptions<'_>) -> impl Iterator<Item = Link<'a>> {
    let summary = event.actions.compaction.as_ref();
    let contents = [
        event.content(),
        summary.map(|summary| &summary.compacted_content),
    ];
    let parts = contents
        .into_iter()
        .flatten()
        .flat_map(|content| content.parts());
    let call_ids = parts.flat_map(|part| {
        let call = part.function_call.as_ref();
        let response = part.function_response.as_ref();
        [
            call.map(|call| link(&call.id, Link::Call)),
            response.map(|response| link(&response.id, Link::Response)),
        ]
    });
    let later = event
        .long_running_tool_ids
        .iter()
        .flat_map(|ids| ids.iter());
    let segments = match &event.branch {
        Some(branch) => paths::segments_below(options.branch, branch).collect(),
        None => Vec::new(),
    };
    let branches = segments
        .into_iter()
        .filter_map(|segment| segment.rsplit_once('@'));
    call_ids
        .flatten()
        .chain(later.map(Link::LongRunning))
        .chain(branches.map(|(_, id)| Link::Branch(id)))
}

fn link<'a>(id: &'a Option<String>, named: fn(&'a str) -> Link<'a>) -> Link<'a> {
    match id.as_deref() {
        None | Some("") => Link::WithoutId,
        Some(id) => named(id),
    }
}

/// The options that the prefix was assembled with. The user content is not among them, because it
/// is not in the prefix.
#[derive(Debug, Clone, Default, PartialEq)]
struct OwnedOptions {
    agent_name: String,
    branch: Option<String>,
    isolation_scope: Option<String>,
    node_path: Option<String>,
    keep_call_ids: bool,
    thoughts_of_other_agents: bool,
    is_single_turn: bool,
}

impl OwnedOptions {
    fn from_options(options: &ContentsOptions<'_>) -> OwnedOptions {
        OwnedOptions {
            agent_name: options.agent_name.to_owned(),
            branch: options.branch.map(str::to_owned),
            isolation_scope: options.isolation_scope.map(str::to_owned),
            node_path: options.node_path.map(str::to_owned),
            keep_call_ids: options.keep_call_ids,
            thoughts_of_other_agents: options.thoughts_of_other_agents,
            is_single_turn: options.is_single_turn,
        }
    }

    fn matches(&self, options: &ContentsOptions<'_>) -> bool {
        self.agent_name == options.agent_name
            && self.branch.as_deref() == options.branch
            && self.isolation_scope.as_deref() == options.isolation_scope
            && self.node_path.as_deref() == options.node_path
            && self.keep_call_ids == options.keep_call_ids
            && self.thoughts_of_other_agents == options.thoughts_of_other_agents
            && self.is_single_turn == options.is_single_turn
    }
}
