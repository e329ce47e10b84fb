//! Merges response events into one: models expect one message with the answers to one call message.

use std::collections::HashMap;

use retain_core::Part;

use super::turn::Turn;

/// Merges the responses of all turns: those of the first, each replaced by a later one to the same
/// call. Other parts are added at the end. `None` if there is no turn.
pub(super) fn merge_responses<'a>(turns: &[Turn<'a>]) -> Option<Turn<'a>> {
    let (first, later) = turns.split_first()?;
    let mut parts: Vec<Part> = first.parts().to_vec();
    let mut place_of: HashMap<Option<&str>, usize> = HashMap::new();
    for (place, part) in first.parts().iter().enumerate() {
        if let Some(response) = &part.function_response {
            place_of.insert(response.id.as_deref(), place);
        }
    }
    for part in later.iter().flat_map(|turn| turn.parts()) {
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
