//! Finds where to insert request-only contents among the contents of the log.

use retain_core::Content;

use crate::SharedContent;

/// Returns the index of the user's newest messages, that is, of the last sequence of user contents
/// without a function response. Dynamic instructions and retrieved data are inserted there, so that
/// everything before them is unchanged and can be cached.
///
/// A request whose static instruction contains data differs: the instructions are inserted at index
/// 0, and later contents go after them.
pub fn insertion_point_before_user_turn(contents: &[SharedContent]) -> usize {
    let is_plain_user = |content: &SharedContent| {
        content.role.as_deref() == Some("user") && content.function_responses().next().is_none()
    };
    let run = contents.iter().rev().take_while(|it| is_plain_user(it));
    contents.len() - run.count()
}

/// Returns the index of the user message that began the run; 0 if it is not among the contents. The
/// caller's context for the model is inserted before it.
pub fn place_of_user_content(contents: &[SharedContent], message: Option<&Content>) -> usize {
    let place = message.and_then(|message| contents.iter().rposition(|it| **it == *message));
    place.unwrap_or(0)
}
