//! Where contents that belong to one request only are put among those of the log.

use retain_core::Content;

use crate::SharedContent;

/// The place before the user's newest words: the last run of contents of the user without a
/// function response. Dynamic instructions and what was retrieved go there, so that everything
/// before stays as it was and can be cached.
///
/// A request with a static instruction has its first such contents at 0 instead, and all later
/// ones not before those.
pub fn insertion_point_before_user_turn(contents: &[SharedContent]) -> usize {
    let is_plain_user = |content: &SharedContent| {
        content.role.as_deref() == Some("user") && content.function_responses().next().is_none()
    };
    let run = contents.iter().rev().take_while(|it| is_plain_user(it));
    contents.len() - run.count()
}

/// The place of the user's message that the run began with, where context for the model goes in
/// before it; 0 if it is not among the contents.
pub fn place_of_user_content(contents: &[SharedContent], message: Option<&Content>) -> usize {
    let place = message.and_then(|message| contents.iter().rposition(|it| **it == *message));
    place.unwrap_or(0)
}
