//! Step: an agent that works on a delegated task gets the task as its first content.
//!
//! The agent does not see the call that delegated the task, because the call is outside its scope.
//! So the call's arguments become a user message.

use retain_core::{Content, Part, python_text::python_json_map};

use super::{ContentsOptions, IndexedEvent};
use crate::SharedContent;

/// The text for a single-turn agent, identical to ADK's.
const SINGLE_TURN_NUDGE: &str = "Important: You will not receive any user replies or \
     clarifications. Complete the task using only the information provided above.";

/// Returns the first content for an agent that works on a task; `None` without a task.
pub(super) fn task_content(
    listed: &[IndexedEvent<'_>],
    options: &ContentsOptions<'_>,
) -> Option<SharedContent> {
    options.isolation_scope?;
    task_from_call(listed, options).or_else(|| task_from_user(options))
}

/// Builds the task from the arguments of the first call whose id is the scope.
pub(super) fn task_from_call(
    listed: &[IndexedEvent<'_>],
    options: &ContentsOptions<'_>,
) -> Option<SharedContent> {
    let scope = options.isolation_scope?;
    let contents = listed.iter().filter_map(|one| one.event.content());
    let args = contents
        .flat_map(|content| content.function_calls())
        .filter(|call| call.id.as_deref() == Some(scope))
        .filter_map(|call| call.args.as_ref())
        .find(|args| !args.is_empty())?;
    Some(with_nudge(vec![Part::text(python_json_map(args))], options))
}

/// Builds the task from the user content; used if no call delegated a task.
pub(super) fn task_from_user(options: &ContentsOptions<'_>) -> Option<SharedContent> {
    let parts = options.user_content?.parts();
    (!parts.is_empty()).then(|| with_nudge(parts.to_vec(), options))
}

fn with_nudge(mut parts: Vec<Part>, options: &ContentsOptions<'_>) -> SharedContent {
    if options.is_single_turn {
        parts.push(Part::text(SINGLE_TURN_NUDGE));
    }
    Content::new("user", parts).into()
}
