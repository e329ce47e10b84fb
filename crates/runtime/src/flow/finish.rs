//! Converts a model's answer to an event: empty answers become errors, calls get ids.

use std::sync::PoisonError;

use retain_core::{Content, Event, IdSet, LlmResponse, Part};

use super::model_call::Call;
use crate::{context::InvocationContext, models::LlmRequest, runner::StreamingMode};

const NO_CONTENT: &str = "MODEL_RETURNED_NO_CONTENT";
const NO_CONTENT_AT_ALL: &str =
    "The model returned no content (finish_reason=STOP with empty parts).";
const NO_CONTENT_OF_USE: &str = "The model returned no actionable content (finish_reason=STOP \
    with thought-only or whitespace-only parts).";

/// Marks an answer that ends normally but has no content as an error, so that the run does not end
/// without an answer. In a stream, a last chunk without parts only marks the end.
pub(super) fn mark_empty(mode: StreamingMode, response: &mut LlmResponse) {
    let parts = response.content.as_ref().map(Content::parts);
    let has_parts = parts.is_some_and(|parts| !parts.is_empty());
    let is_empty = response.partial != Some(true)
        && response.error_code.is_none()
        && response.finish_reason.as_deref() == Some("STOP")
        && !parts.unwrap_or_default().iter().any(has_content)
        && (mode != StreamingMode::Sse || has_parts);
    if !is_empty {
        return;
    }
    response.error_code = Some(NO_CONTENT.to_owned());
    if response.error_message.as_ref().is_none_or(String::is_empty) {
        let message = if has_parts {
            NO_CONTENT_OF_USE
        } else {
            NO_CONTENT_AT_ALL
        };
        response.error_message = Some(message.to_owned());
    }
}

fn has_content(part: &Part) -> bool {
    let is_text = |text: &String| !text.trim().is_empty();
    part.function_call.is_some()
        || part.function_response.is_some()
        || part.executable_code.is_some()
        || part.code_execution_result.is_some()
        || part.inline_data.is_some()
        || part.file_data.is_some()
        || (part.thought != Some(true) && part.text.as_ref().is_some_and(is_text))
}

/// Creates the event for an answer.
pub(super) fn answer_event(
    ctx: &InvocationContext,
    call: &mut Call,
    response: LlmResponse,
) -> Box<Event> {
    let mut event = Box::new(ctx.new_event());
    let id = call.event_id.take();
    event.id = id.unwrap_or_else(|| ctx.shared.ids.new_id());
    let actions = call.actions.lock().unwrap_or_else(PoisonError::into_inner);
    event.actions = actions.clone();
    drop(actions);
    event.response = response;
    if event.is_partial() {
        call.event_id = Some(event.id.clone());
    }
    if event.function_calls().is_empty() {
        return event;
    }
    assign_call_ids(ctx, &mut event);
    event.long_running_tool_ids = Some(long_running(&event, &call.request));
    event
}

/// Gives an id to every call without one.
fn assign_call_ids(ctx: &InvocationContext, event: &mut Event) {
    let content = event.response.content.as_mut();
    let parts = content.and_then(|content| content.parts.as_mut());
    let calls = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.function_call.as_mut());
    for call in calls {
        if call.id.as_ref().is_none_or(String::is_empty) {
            call.id = Some(format!("adk-{}", ctx.shared.ids.new_id()));
        }
    }
}

/// Returns the ids of long-running calls, whose answers come later.
fn long_running(event: &Event, request: &LlmRequest) -> IdSet {
    let is_long = |name: &str| {
        let tool = request.tools.get(name);
        tool.is_some_and(|tool| tool.is_long_running())
    };
    let calls = event.function_calls();
    let long = calls
        .iter()
        .filter(|call| call.name.as_deref().is_some_and(is_long));
    long.filter_map(|call| call.id.as_deref()).collect()
}
