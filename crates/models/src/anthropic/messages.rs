//! Converts contents to messages. Roles alternate, and tool results come first in their message.

use retain_core::{Json, JsonMap};
use retain_runtime::{ModelError, SharedContent};

use super::{
    blocks::{self, Block},
    ids::CallIds,
    tool_result,
};

/// The text that replaces a blank user message, which the API rejects. Without the message, the
/// conversation could end with the assistant, and Claude would continue its own sentence.
const BLANK_USER_TEXT: &str = ".";

/// ADK's prompt for an empty conversation.
const EMPTY_CONVERSATION_PROMPT: &str =
    "Handle the requests as specified in the System Instruction.";
/// ADK's prompt for a conversation that ends with the model.
const CONTINUE_PROMPT: &str = "Continue processing previous requests as instructed. Exit or provide a summary if no more \
     outputs are needed.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// Returns the messages for a conversation.
pub(super) fn messages(contents: &[SharedContent]) -> Result<Json, ModelError> {
    let mut ids = CallIds::default();
    let mut messages: Vec<(Role, Vec<Block>)> = Vec::new();
    for content in contents {
        let role = match content.role.as_deref() {
            Some("model" | "assistant") => Role::Assistant,
            _ => Role::User,
        };
        let continues_last = messages.last().is_some_and(|(last, _)| *last == role);
        if role == Role::Assistant && !continues_last {
            ids.begin_message();
        }
        let mut blocks = Vec::new();
        let mut had_empty_text = false;
        for part in content.parts() {
            had_empty_text |= blocks::is_empty_text(part);
            blocks.extend(blocks::block(part, role == Role::User, &mut ids)?);
        }
        if blocks.is_empty() && had_empty_text && role == Role::User {
            blocks.push(Block::text(BLANK_USER_TEXT));
        }
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, last_blocks)) if *last == role => last_blocks.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    match messages.last() {
        None => messages.push((Role::User, vec![Block::text(EMPTY_CONVERSATION_PROMPT)])),
        Some((Role::Assistant, _)) => {
            messages.push((Role::User, vec![Block::text(CONTINUE_PROMPT)]))
        }
        Some((Role::User, _)) => {}
    }
    add_missing_results(&mut messages);
    let messages = messages
        .into_iter()
        .map(|(role, blocks)| message(role, blocks));
    Ok(messages.collect::<Vec<Json>>().into())
}

/// Adds a placeholder result to the next message for each call that has no result in it.
fn add_missing_results(messages: &mut [(Role, Vec<Block>)]) {
    for index in 1..messages.len() {
        let (before, rest) = messages.split_at_mut(index);
        let (Some((_, calls)), Some((_, results))) = (before.last(), rest.first_mut()) else {
            return;
        };
        let has_result = |id: &str| {
            results
                .iter()
                .any(|block| block.answered_call() == Some(id))
        };
        let unanswered = calls.iter().filter_map(Block::call_id);
        let unanswered: Vec<&str> = unanswered.filter(|id| !has_result(id)).collect();
        for id in unanswered {
            tracing::warn!(
                id,
                "a call in the history has no result; sending a placeholder result"
            );
            results.push(Block {
                json: tool_result::placeholder(id),
            });
        }
    }
}

fn message(role: Role, mut blocks: Vec<Block>) -> Json {
    // The sort is stable, so results keep their order among themselves, and so do the other blocks.
    blocks.sort_by_key(|block| block.answered_call().is_none());
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let blocks: Vec<Json> = blocks.into_iter().map(|block| block.json).collect();
    JsonMap::from([("role", Json::from(role)), ("content", blocks.into())]).into()
}
