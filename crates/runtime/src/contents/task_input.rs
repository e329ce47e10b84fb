//! Step: an agent that works on a delegated task is told the task first.
//!
//! The call that delegated it lies outside of the agent's scope, so what it asked for is said by
//! the user, ahead of everything else.

use retain_core::{Content, FunctionCall, Part};

use super::{ContentsOptions, Listed};
use crate::{SharedContent, python_text::python_json_map};

/// Word for word ADK's.
const SINGLE_TURN_NUDGE: &str = "Important: You will not receive any user replies or \
     clarifications. Complete the task using only the information provided above.";

/// The contents with the task ahead of them, if the agent works on one.
pub(super) fn with_task_first(
    mut contents: Vec<SharedContent>,
    listed: &[Listed<'_>],
    options: &ContentsOptions<'_>,
) -> Vec<SharedContent> {
    if let Some(scope) = options.isolation_scope
        && let Some(task) = task(scope, listed, options)
    {
        contents.insert(0, task.into());
    }
    contents
}

/// The arguments of the call that the scope is named after, or else what the user said.
fn task(scope: &str, listed: &[Listed<'_>], options: &ContentsOptions<'_>) -> Option<Content> {
    let calls = listed.iter().filter_map(|one| one.event.content());
    let mut calls = calls.flat_map(|content| content.function_calls());
    let delegates = |call: &&FunctionCall| {
        call.id.as_deref() == Some(scope) && call.args.as_ref().is_some_and(|args| !args.is_empty())
    };
    let delegation = calls.find(delegates).and_then(|call| call.args.as_ref());
    let mut parts = match delegation {
        Some(args) => vec![Part::text(python_json_map(args))],
        None => options.user_content?.parts().to_vec(),
    };
    if parts.is_empty() {
        return None;
    }
    if options.is_single_turn {
        parts.push(Part::text(SINGLE_TURN_NUDGE));
    }
    Some(Content::new("user", parts))
}
