//! Merges response events into one, because models expect one message to answer all calls of a
//! message.

use std::collections::HashMap;

use retain_core::Part;

use super::event_view::EventView;

/// Merges all events into the first: a later response replaces an earlier one to the same call, and
/// other parts are appended. `None` if there is no event.
pub(super) fn merge_responses<'a>(views: &[EventView<'a>]) -> Option<EventView<'a>> {
    let (first, later) = views.split_first()?;
    let mut parts: Vec<Part> = first.parts().to_vec();
    let mut place_of: HashMap<Option<&str>, usize> = HashMap::new();
    for (place, part) in first.parts().iter().enumerate() {
        if let Some(response) = &part.function_response {
            place_of.insert(response.id.as_deref(), place);
        }
    }
    for part in later.iter().flat_map(|view| view.parts()) {
        let Some(response) = &part.function_response else {
            parts.push(part.clone());
            continue;
        };
        match place_of.get(&response.id.as_deref()) {
            Some(&place) => parts[place] = part.clone(),
            None => {
                place_of.insert(response.id.as_deref(), parts.len());
                parts.push(part.clone());
            }
        }
    }
    Some(first.clone().with_parts(parts))
}
