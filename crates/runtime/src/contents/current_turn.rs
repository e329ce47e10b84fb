//! Finds the start of the current turn, for agents that do not see the history.

use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashSet},
};

use super::{ContentsOptions, IndexedEvent, include, is_set};

/// Returns the index of the event that starts the current turn; `None` if there is none.
///
/// It is the newest event of the user or of another agent. Transfers, tool results from the user
/// and tool progress do not count, because they continue an earlier turn. If the user sent tool
/// results, that is the turn which made the calls.
pub(super) fn start(scoped: &[IndexedEvent<'_>], options: &ContentsOptions<'_>) -> Option<usize> {
    let call_ids: OnceCell<HashSet<&str>> = OnceCell::new();
    let mut unanswered: BTreeSet<&str> = BTreeSet::new();
    (0..scoped.len()).rev().find(|&place| {
        let event = scoped[place].event;
        let content = event.content();
        for call in content.iter().flat_map(|content| content.function_calls()) {
            unanswered.remove(call.id.as_deref().unwrap_or_default());
        }
        let is_user = event.author == "user";
        let is_sent_result = is_user && include::has_responses(event);
        if is_sent_result {
            let responses = content
                .iter()
                .flat_map(|content| content.function_responses());
            let ids = responses.filter_map(|response| response.id.as_deref());
            let calls = call_ids.get_or_init(|| include::call_ids_of(scoped));
            unanswered.extend(ids.filter(|id| calls.contains(id)));
        }
        unanswered.is_empty()
            && !is_sent_result
            && (is_user || options.is_of_other_agent(&event.author, event))
            && !is_transfer(event)
            && include::is_included(event, options, false)
            && !include::is_tool_progress(scoped[place], scoped, options, &call_ids)
    })
}

/// Whether the event transfers to another agent.
fn is_transfer(event: &retain_core::Event) -> bool {
    let calls = event.content().into_iter();
    let mut calls = calls.flat_map(|content| content.function_calls());
    is_set(&event.actions.transfer_to_agent)
        || calls.any(|call| call.name.as_deref() == Some("transfer_to_agent"))
}
