//! Step: drops events that a later rewind undid, and the rewinds themselves.

use std::{borrow::Cow, collections::HashMap};

use super::{IndexedEvent, is_set};

/// Returns the events of `listed` that no rewind undid.
///
/// Walks back from the newest event. A rewind drops everything back to the first event of the run
/// that it names, so a rewind that was itself undone has no effect.
pub(super) fn without_rewound<'l, 'a>(
    listed: &'l [IndexedEvent<'a>],
) -> Cow<'l, [IndexedEvent<'a>]> {
    if !listed.iter().any(is_rewind) {
        return Cow::Borrowed(listed);
    }
    let mut first_of_invocation = HashMap::new();
    for (place, one) in listed.iter().enumerate() {
        let id = one.event.invocation_id.as_str();
        if !id.is_empty() {
            first_of_invocation.entry(id).or_insert(place);
        }
    }
    let mut valid = Vec::with_capacity(listed.len());
    let mut end = listed.len();
    while let Some(place) = end.checked_sub(1) {
        end = place;
        if !is_rewind(&listed[place]) {
            valid.push(listed[place]);
            continue;
        }
        let target = &listed[place].event.actions.rewind_before_invocation_id;
        let target = target.as_deref().unwrap_or_default();
        if let Some(&first) = first_of_invocation.get(target) {
            end = first.min(place);
        }
    }
    valid.reverse();
    Cow::Owned(valid)
}

fn is_rewind(one: &IndexedEvent<'_>) -> bool {
    is_set(&one.event.actions.rewind_before_invocation_id)
}
