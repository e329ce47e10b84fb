//! Confirmation: delays a call, asks the user to approve it, and runs it once it is approved.
//!
//! The call that runs is the one that the model made, as stored in the history. An answer can
//! approve the call but not change it.

use std::collections::{HashMap, HashSet};

use retain_core::{
    Content, Event, FunctionCall, FunctionResponse, Json, JsonError, JsonMap, LlmResponse, Part,
    ToolConfirmation,
};

use super::{AgentFlow, calls::Confirmations};
use crate::{
    agents::Agent as _,
    context::{InvocationContext, ToolContext},
    error::{Result, RunError},
    interrupts::is_restored,
    tools::{Tool, ToolMap, ToolOutput},
};

/// The name of the call that asks the user.
const REQUEST: &str = "adk_request_confirmation";

/// Returns `None` if the call may run, or else its result for the model. Requests a confirmation if
/// the user has not decided yet.
pub(super) async fn check_confirmation(
    ctx: &ToolContext,
    tool: &dyn Tool,
    args: &JsonMap,
) -> Option<ToolOutput> {
    if !tool.requires_confirmation(ctx, args).await {
        return None;
    }
    let message = match ctx.tool_confirmation() {
        Some(decision) if decision.confirmed => return None,
        Some(_) => "This tool call is rejected.",
        None => {
            let hint = format!(
                "Please approve or reject the tool call {}() by responding with a \
                 FunctionResponse with an expected ToolConfirmation payload.",
                tool.name()
            );
            ctx.request_confirmation(hint, None);
            // If the result were summarized, the model would call the tool again.
            ctx.update_actions(|actions| actions.skip_summarization = Some(true));
            "This tool call requires confirmation, please approve or reject."
        }
    };
    Some(Json::from(JsonMap::from([("error", message)])).into())
}

/// Creates the event that asks the user about the calls in `call_event` for which `answered`
/// requests a confirmation; `None` if there are none.
pub(super) fn confirmation_request(
    ctx: &InvocationContext,
    call_event: &Event,
    answered: &Event,
) -> Option<Event> {
    let wanted = answered.actions.requested_tool_confirmations.as_object()?;
    let mut parts: Vec<Part> = Vec::new();
    let mut waiting = Vec::new();
    for (id, confirmation) in wanted.iter() {
        let calls = call_event.function_calls();
        let call = calls
            .into_iter()
            .find(|call| call.id.as_deref() == Some(id));
        let Some(call) = call.and_then(call_json) else {
            continue;
        };
        let request = FunctionCall {
            id: Some(format!("adk-{}", ctx.shared.ids.new_id())),
            name: Some(REQUEST.to_owned()),
            args: Some(JsonMap::from([
                ("originalFunctionCall", call),
                ("toolConfirmation", confirmation.clone()),
            ])),
            ..FunctionCall::default()
        };
        waiting.extend(request.id.clone());
        parts.push(request.into());
    }
    (!wanted.is_empty()).then(|| Event {
        response: LlmResponse::from_content(Content::new("model", parts)),
        long_running_tool_ids: Some(waiting.iter().map(String::as_str).collect()),
        ..ctx.new_event()
    })
}

/// Whether any call of the event has a final answer and does not wait for the user.
pub(super) fn has_final_answer(answered: &Event) -> bool {
    let waiting = answered.actions.requested_tool_confirmations.as_object();
    let waits = |response: &FunctionResponse| {
        let id = response.id.as_deref().unwrap_or_default();
        waiting.is_some_and(|waiting| waiting.contains_key(id))
    };
    answered
        .function_responses()
        .iter()
        .any(|response| !waits(response))
}

fn call_json(call: &FunctionCall) -> Option<Json> {
    Json::parse(&call.to_json().ok()?).ok()
}

impl AgentFlow<'_> {
    /// Whether the user's last message confirms or rejects calls.
    pub(super) fn is_confirmation(&self) -> bool {
        let events = self.ctx.events();
        let message = self.ctx.last_user_message(&events);
        let responses = message.map(Event::function_responses).unwrap_or_default();
        responses
            .iter()
            .any(|response| response.name.as_deref() == Some(REQUEST))
    }

    /// Runs the calls that the user has approved and answers those that the user has rejected.
    /// Returns whether the agent continues with a model call.
    pub(super) async fn run_confirmed(&mut self, tools: &ToolMap) -> Result<bool> {
        let events = self.ctx.events();
        let message = self.ctx.last_user_message(&events);
        let events: Vec<&Event> = events.iter().collect();
        let is_message = |event: &&Event| message.is_some_and(|it| std::ptr::eq(it, *event));
        let Some(at) = events.iter().rposition(is_message) else {
            return Ok(true);
        };
        let answers = read_decisions(events[at]);
        let mut answers = answers.map_err(|reason| self.confirmation_error(reason))?;
        if answers.is_empty() {
            return Ok(true);
        }
        // Drop handled requests before the checks, because their tools may have been removed since.
        let handled = handled_requests(&events, &answers);
        answers.retain(|request, _| !handled.contains_key(request));
        if answers.is_empty() {
            let is_handled_since = handled.values().any(|handled_at| *handled_at > at);
            let continues = is_handled_since
                || events[at]
                    .function_responses()
                    .iter()
                    .any(is_other_response);
            if !continues {
                // The answer is a duplicate, so nothing is left to do.
                self.ctx.end_invocation();
            }
            return Ok(continues);
        }
        let decisions = self.find_decided_calls(&events, &answers, tools).await?;
        if decisions.is_empty() {
            return Ok(true);
        }
        let calls: Vec<&FunctionCall> = decisions.iter().map(|it| it.call).collect();
        let confirmations = decisions
            .iter()
            .map(|it| (it.id.to_owned(), it.decision.clone()));
        let confirmations: Confirmations = confirmations.collect();
        let event = self
            .run_decided_calls(&calls, tools, &confirmations)
            .await?;
        Ok(!event.is_some_and(|event| event.is_final_response()))
    }

    /// Finds the calls that the user has decided about. Each must equal the call that the model
    /// made.
    async fn find_decided_calls<'e>(
        &self,
        events: &[&'e Event],
        answers: &HashMap<String, ToolConfirmation>,
        tools: &ToolMap,
    ) -> Result<Vec<CallDecision<'e>>> {
        let mut decisions = Vec::new();
        for event in events
            .iter()
            .filter(|event| event.author == self.agent.name())
        {
            for request in event.function_calls() {
                let decision = request.id.as_ref().and_then(|id| answers.get(id));
                let original = request
                    .args
                    .as_ref()
                    .and_then(|args| args.get("originalFunctionCall"));
                let (Some(decision), Some(original)) = (decision, original) else {
                    continue;
                };
                if request.name.as_deref() != Some(REQUEST) {
                    continue;
                }
                if is_restored(event) {
                    // Accepting an imported confirmation request would execute its call.
                    return Err(self.confirmation_error(
                        "the request was imported, and imported calls are never executed",
                    ));
                }
                if let Some(one) = self.check_call(events, original, decision, tools).await? {
                    decisions.push(one);
                }
            }
        }
        Ok(decisions)
    }

    async fn check_call<'e>(
        &self,
        events: &[&'e Event],
        original: &Json,
        decision: &ToolConfirmation,
        tools: &ToolMap,
    ) -> Result<Option<CallDecision<'e>>> {
        let Some(id) = original["id"].as_str().filter(|id| !id.is_empty()) else {
            return Err(self.confirmation_error("the original call has no id"));
        };
        let is_it = |call: &&FunctionCall| {
            call.id.as_deref() == Some(id) && call.name.as_deref() != Some(REQUEST)
        };
        let found = events.iter().rev().find_map(|event| {
            let call = event.function_calls().into_iter().find(is_it)?;
            Some((*event, call))
        });
        let Some((event, call)) = found else {
            return Err(self.confirmation_error(format!("call {id:?} is not in the history")));
        };
        if event.author != self.agent.name() {
            return Ok(None);
        }
        if is_restored(event) {
            return Err(self.confirmation_error(format!(
                "call {id:?} was imported, and imported calls are never executed"
            )));
        }
        let args = call.args.clone().unwrap_or_default();
        let same_args = *original.get("args").unwrap_or(&Json::Null) == Json::from(args.clone())
            || (args.is_empty() && original.get("args").is_none());
        if original["name"].as_str() != call.name.as_deref() || !same_args {
            return Err(
                self.confirmation_error(format!("call {id:?} differs from the original call"))
            );
        }
        let name = call.name.as_deref().unwrap_or_default();
        let Some(tool) = tools.get(name) else {
            return Err(self.confirmation_error(format!("tool {name:?} no longer exists")));
        };
        let ctx = ToolContext::new(self.ctx, Some(id.to_owned()));
        let mut own = events.iter().filter(|event| !is_restored(event));
        let was_requested = own.any(|event| {
            let requested = event.actions.requested_tool_confirmations.as_object();
            requested.is_some_and(|requested| requested.contains_key(id))
        });
        if !was_requested && !tool.requires_confirmation(&ctx, &args).await {
            return Err(
                self.confirmation_error(format!("tool {name:?} does not require confirmation"))
            );
        }
        let id = call.id.as_deref().unwrap_or_default();
        Ok(Some(CallDecision {
            id,
            call,
            decision: decision.clone(),
        }))
    }

    fn confirmation_error(&self, reason: impl Into<String>) -> RunError {
        RunError::InvalidMessage {
            reason: format!("invalid confirmation: {}", reason.into()),
        }
    }
}

/// A call, and the user's decision about it.
struct CallDecision<'e> {
    id: &'e str,
    call: &'e FunctionCall,
    decision: ToolConfirmation,
}

/// Whether a response answers something other than a request for confirmation.
fn is_other_response(response: &&FunctionResponse) -> bool {
    response.name.as_deref() != Some(REQUEST)
}

/// Returns the requests among `answers` whose calls were answered after the user's decision, with
/// the index of the answering event. An answer before the decision only says that the call needs
/// approval.
fn handled_requests(
    events: &[&Event],
    answers: &HashMap<String, ToolConfirmation>,
) -> HashMap<String, usize> {
    let requests = events.iter().flat_map(|event| event.function_calls());
    let requests = requests.filter_map(|call| {
        let (request, _) = answers.get_key_value(call.id.as_deref()?)?;
        let original = call.args.as_ref()?.get("originalFunctionCall")?;
        Some((original["id"].as_str()?, request))
    });
    let requests: HashMap<&str, &String> = requests.collect();
    let mut decided = HashSet::new();
    let mut handled = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        for response in event.function_responses() {
            let id = response.id.as_deref().unwrap_or_default();
            if event.author == "user" {
                decided.insert(id);
            } else if let Some(request) = requests.get(id)
                && decided.contains(request.as_str())
            {
                handled.insert((*request).clone(), at);
            }
        }
    }
    handled
}

/// Returns the decisions in the user's message, by request id.
fn read_decisions(event: &Event) -> Result<HashMap<String, ToolConfirmation>, String> {
    let mut answers = HashMap::new();
    for response in event.function_responses() {
        if response.name.as_deref() != Some(REQUEST) {
            continue;
        }
        if let (Some(id), Some(decision)) = (&response.id, &response.response) {
            let decision = read_decision(decision).map_err(|error| error.to_string())?;
            answers.insert(id.clone(), decision);
        }
    }
    Ok(answers)
}

/// Reads a decision: the fields themselves, or their JSON text under `response`.
fn read_decision(response: &JsonMap) -> Result<ToolConfirmation, JsonError> {
    let wrapped = response.get("response").and_then(Json::as_str);
    match wrapped.filter(|_| response.len() == 1) {
        Some(text) => ToolConfirmation::from_json(text),
        None => ToolConfirmation::from_json(&Json::from(response.clone()).to_json()?),
    }
}
