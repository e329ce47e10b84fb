//! Converts contents to messages: user and assistant alternate, and results come first.

use retain_core::{Json, JsonMap};
use retain_runtime::{ModelError, SharedContent};

use super::{
    blocks::{self, Block},
    ids::CallIds,
    tool_result,
};

/// Replaces an empty user message. Without it the conversation would end with the assistant, and
/// Claude would continue its own sentence.
const EMPTY_TURN: &str = ".";

/// ADK's texts for an empty conversation and for a conversation that ends with the model.
const NOTHING_SAID: &str = "Handle the requests as specified in the System Instruction.";
const GO_ON: &str = "Continue processing previous requests as instructed. Exit or provide a \
                     summary if no more outputs are needed.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// Returns the messages for a conversation.
pub(super) fn messages(contents: &[SharedContent]) -> Result<Json, ModelError> {
    let mut ids = CallIds::default();
    let mut turns: Vec<(Role, Vec<Block>)> = Vec::new();
    for content in contents {
        let role = match content.role.as_deref() {
            Some("model" | "assistant") => Role::Assistant,
            _ => Role::User,
        };
        let goes_on = turns.last().is_some_and(|(last, _)| *last == role);
        if role == Role::Assistant && !goes_on {
            ids.begin_turn();
        }
        let mut blocks = Vec::new();
        let mut had_empty_text = false;
        for part in content.parts() {
            had_empty_text |= blocks::is_empty_text(part);
            blocks.extend(blocks::block(part, role == Role::User, &mut ids)?);
        }
        if blocks.is_empty() && had_empty_text && role == Role::User {
            blocks.push(Block::text(EMPTY_TURN));
        }
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, known)) if *last == role => known.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    match turns.last() {
        None => turns.push((Role::User, vec![Block::text(NOTHING_SAID)])),
        Some((Role::Assistant, _)) => turns.push((Role::User, vec![Block::text(GO_ON)])),
        Some((Role::User, _)) => {}
    }
    answer_all_calls(&mut turns);
    let turns = turns
        .into_iter()
        .map(|(role, blocks)| message(role, blocks));
    Ok(turns.collect::<Vec<Json>>().into())
}

/// Ensures that every call has its result in the next turn.
fn answer_all_calls(turns: &mut [(Role, Vec<Block>)]) {
    for place in 1..turns.len() {
        let (before, rest) = turns.split_at_mut(place);
        let (Some((_, calls)), Some((_, results))) = (before.last(), rest.first_mut()) else {
            return;
        };
        let has_result = |id: &str| results.iter().any(|block| block.result_of() == Some(id));
        let open = calls.iter().filter_map(Block::call);
        let open: Vec<&str> = open.filter(|id| !has_result(id)).collect();
        for id in open {
            tracing::warn!(
                id,
                "a call in the history has no result; sending a placeholder result"
            );
            results.push(Block {
                json: tool_result::missing(id),
            });
        }
    }
}

fn message(role: Role, mut blocks: Vec<Block>) -> Json {
    // The sort is stable, so results keep their order, and so do the other blocks.
    blocks.sort_by_key(|block| block.result_of().is_none());
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let blocks: Vec<Json> = blocks.into_iter().map(|block| block.json).collect();
    JsonMap::from([("role", Json::from(role)), ("content", blocks.into())]).into()
}
