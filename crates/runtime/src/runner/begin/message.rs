//! Checks a message and finds the run that it belongs to.

use std::collections::HashMap;

use retain_core::{Content, Event, Events};

use super::resume::{first_event, first_message};
use crate::{
    contents::valid_events,
    error::{Result, RunError},
};

fn invalid_message(reason: impl Into<String>) -> RunError {
    RunError::InvalidMessage {
        reason: reason.into(),
    }
}

/// Validates a message and sets its role to `user`.
pub(crate) fn check_message(mut message: Content) -> Result<Content> {
    if message.parts().is_empty() {
        return Err(invalid_message(
            "has no parts; expected text or a function response",
        ));
    }
    if message.function_calls().next().is_some() {
        return Err(invalid_message(
            "contains a function call; only agents may call functions",
        ));
    }
    let has_text = message
        .parts()
        .iter()
        .any(|part| part.text.as_ref().is_some_and(|text| !text.is_empty()));
    if has_text && message.function_responses().next().is_some() {
        return Err(invalid_message(
            "mixes text with a function response; a response resumes an earlier run, text starts a \
             new one: send them one after the other",
        ));
    }
    message.role = Some("user".to_owned());
    Ok(message)
}

/// The branch and the isolation scope of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallScope {
    pub(crate) branch: Option<String>,
    pub(crate) isolation_scope: Option<String>,
}

/// The calls that a message answers.
#[derive(Debug)]
pub(crate) struct AnsweredCalls {
    /// The run that the message continues.
    pub(crate) invocation_id: String,
    /// The scopes of the answered calls, by call id.
    scopes: HashMap<String, CallScope>,
    /// The message that began that run.
    pub(crate) user_content: Option<Content>,
}

impl AnsweredCalls {
    /// Splits the message by the scopes of the answered calls, so that each agent sees its own
    /// answers. Parts other than answers go with the first answer.
    pub(crate) fn split_by_scope(&self, message: &Content) -> Vec<(CallScope, Content)> {
        let mut split: Vec<(CallScope, Content)> = Vec::new();
        for part in message.parts() {
            let id = part
                .function_response
                .as_ref()
                .and_then(|it| it.id.as_ref());
            let place = id.and_then(|id| self.scopes.get(id));
            let known = split.iter().position(|(scope, _)| Some(scope) == place);
            let at = match (known, place) {
                (Some(at), _) => at,
                (None, None) if !split.is_empty() => 0,
                (None, place) => {
                    let content = Content {
                        parts: Some(Vec::new()),
                        ..message.clone()
                    };
                    split.push((place.cloned().unwrap_or_default(), content));
                    split.len() - 1
                }
            };
            if let Some(parts) = &mut split[at].1.parts {
                parts.push(part.clone());
            }
        }
        split
    }
}

/// Finds the calls that a message answers; `None` if it answers none.
pub(crate) fn find_answered_calls(
    events: &Events,
    message: &Content,
) -> Result<Option<AnsweredCalls>> {
    let ids: Vec<&str> = message
        .function_responses()
        .filter_map(|response| response.id.as_deref())
        .filter(|id| !id.is_empty())
        .collect();
    if ids.is_empty() {
        return match message.function_responses().next() {
            Some(_) => Err(invalid_message(
                "has a function response without an id; set it to the id of the answered call",
            )),
            None => Ok(None),
        };
    }
    let valid = valid_events(events);
    let call_events = events_of_calls(&valid, &ids)?;
    let first = call_events[0];
    let is_other = |event: &&Event| event.invocation_id != first.invocation_id;
    if call_events.iter().any(is_other) {
        return Err(invalid_message(
            "answers calls of several runs; send one message per run",
        ));
    }
    let run = valid.into_iter();
    let run: Vec<&Event> = run
        .filter(|event| event.invocation_id == first.invocation_id)
        .collect();
    let scopes = ids.iter().zip(&call_events).map(|(id, event)| {
        let place = CallScope {
            branch: event.branch.clone(),
            isolation_scope: event.isolation_scope.clone(),
        };
        ((*id).to_owned(), place)
    });
    Ok(Some(AnsweredCalls {
        invocation_id: first.invocation_id.clone(),
        scopes: scopes.collect(),
        user_content: first_message(&run).cloned(),
    }))
}

/// Finds the events with these calls. If calls share an id, the newest counts.
fn events_of_calls<'e>(events: &[&'e Event], ids: &[&str]) -> Result<Vec<&'e Event>> {
    let mut by_id: HashMap<&str, &'e Event> = HashMap::new();
    for event in events {
        let calls = event.content().into_iter();
        for call in calls.flat_map(Content::function_calls) {
            by_id.insert(call.id.as_deref().unwrap_or_default(), event);
        }
    }
    let find = |id: &&str| {
        by_id.get(id).copied().ok_or_else(|| {
            invalid_message(format!(
                "answers function call {id:?}, which is not in the session's history"
            ))
        })
    };
    ids.iter().map(find).collect()
}

/// The metadata key for the digest of a message that a plugin has replaced.
pub(crate) const DIGEST: &str = "retain_request";

/// Returns a short hash of a content, which is the same in every process (FNV-1a of its JSON).
pub(crate) fn digest(content: &Content) -> String {
    let text = content.to_json().unwrap_or_default();
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

/// Whether the run has already stored this message, so that the request is a retry. Fails if the
/// run began with another message.
pub(crate) fn is_stored(events: &Events, invocation_id: &str, message: &Content) -> Result<bool> {
    let mut run = valid_events(events);
    run.retain(|event| event.invocation_id == invocation_id);
    if let Some(answered) = find_answered_calls(events, message)? {
        if answered.invocation_id != invocation_id {
            return Err(invalid_message(format!(
                "answers a call of run {:?}, but the request names run {invocation_id:?}",
                answered.invocation_id
            )));
        }
        let stored = run.iter().filter(|event| event.author == "user");
        let stored: Vec<_> = stored
            .flat_map(|event| event.function_responses())
            .collect();
        let mut responses = message.function_responses();
        return Ok(responses.all(|response| stored.contains(&response)));
    }
    let Some(began) = first_event(&run) else {
        return Ok(false);
    };
    let metadata = began.response.custom_metadata.as_ref();
    let stored = metadata.and_then(|metadata| metadata.get(DIGEST)?.as_str());
    let is_same = match stored {
        Some(stored) => stored == digest(message),
        None => began.content() == Some(message),
    };
    match is_same {
        true => Ok(true),
        false => Err(invalid_message(format!(
            "differs from the message that started run {invocation_id:?}; to resume that run, send \
             no message; to start a new run, omit the run id"
        ))),
    }
}
