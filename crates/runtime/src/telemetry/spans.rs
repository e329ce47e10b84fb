//! The spans of runs, agents, tools and summaries. An attribute whose value is known only later
//! starts empty and is recorded once.

use retain_core::{Event, Json, JsonMap, SessionKey};
use tracing::{Span, field::Empty, info_span};

use super::{
    CONTENT, SPANS, Telemetry,
    content::{answer_text, answers_text, arguments_text, record_content},
    provider::google_api_name,
};
use crate::{
    compaction::Compactor,
    context::InvocationContext,
    error::{Result, RunError},
    tools::Tool,
};

/// Marks a span as failed. Records the code and not the message, which may quote the conversation.
pub(crate) fn mark_failed(span: &Span, code: &str) {
    span.record("error.type", code);
    span.record("otel.status_description", code);
}

/// Creates the span of a run.
pub(crate) fn invocation(session: &str) -> Span {
    info_span!(
        target: SPANS,
        "invocation",
        "otel.name" = "invocation",
        "gen_ai.conversation.id" = session,
        "gcp.vertex.agent.invocation_id" = Empty,
        "error.type" = Empty,
        "otel.status_description" = Empty,
    )
}

/// Records the run's id, and sends the session's owner in an event to layers of this process.
pub(crate) fn record_invocation(
    span: &Span,
    telemetry: Telemetry,
    key: &SessionKey,
    invocation: &str,
) {
    span.record("gcp.vertex.agent.invocation_id", invocation);
    if telemetry.content_in_process && !span.is_disabled() {
        let SessionKey { app, user, id } = key;
        tracing::trace!(
            target: CONTENT, parent: span,
            app = app.as_str(), user = user.as_str(), session = id.as_str(), invocation,
        );
    }
}

/// Creates the span of an agent in a run.
pub(crate) fn agent(ctx: &InvocationContext) -> Span {
    info_span!(
        target: SPANS,
        "invoke_agent",
        "otel.name" = %format_args!("invoke_agent {}", ctx.agent_name()),
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.agent.description" = ctx.agent.description(),
        "gen_ai.agent.name" = ctx.agent_name(),
        "gen_ai.conversation.id" = ctx.session_key().id.as_str(),
        "error.type" = Empty,
        "otel.status_description" = Empty,
    )
}

/// Creates the span of a tool call.
pub(crate) fn tool(ctx: &InvocationContext, tool: &dyn Tool, call: Option<&str>) -> Span {
    info_span!(
        target: SPANS,
        "execute_tool",
        "otel.name" = %format_args!("execute_tool {}", tool.name()),
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.description" = tool.description(),
        "gen_ai.tool.name" = tool.name(),
        "gen_ai.tool.type" = tool.kind(),
        "gen_ai.agent.name" = ctx.agent_name(),
        "gen_ai.tool.call.id" = call.unwrap_or("<not specified>"),
        // ADK's web UI expects these in every span from which an event was made.
        "gcp.vertex.agent.llm_request" = "{}",
        "gcp.vertex.agent.llm_response" = "{}",
        "gcp.vertex.agent.tool_call_args" = Empty,
        "gcp.vertex.agent.tool_response" = Empty,
        "gcp.vertex.agent.event_id" = Empty,
        "error.type" = Empty,
        "otel.status_description" = Empty,
    )
}

/// A finished tool call.
pub(crate) struct ToolCallOutcome<'a> {
    pub(crate) args: &'a JsonMap,
    pub(crate) result: &'a Result<Option<Event>>,
    /// Whether the tool exists.
    pub(crate) is_known: bool,
}

impl ToolCallOutcome<'_> {
    /// Records the result of the call.
    pub(crate) fn record(&self, span: &Span, telemetry: Telemetry) {
        if span.is_disabled() {
            return;
        }
        record_content(span, telemetry, "gcp.vertex.agent.tool_call_args", || {
            arguments_text(self.args)
        });
        let none = Event::default();
        let answer = self.result.as_ref().ok().and_then(Option::as_ref);
        record_content(span, telemetry, "gcp.vertex.agent.tool_response", || {
            answer_text(answer.unwrap_or(&none))
        });
        if let Some(answer) = answer {
            span.record("gcp.vertex.agent.event_id", answer.id.as_str());
        }
        if let Some(code) = self.failure() {
            mark_failed(span, code);
        }
    }

    /// Returns the error code of a failed call, or of an error that the tool returned to the model.
    fn failure(&self) -> Option<&str> {
        let answer = match self.result {
            Err(RunError::Cancelled) | Ok(None) => return None,
            Err(error) => return Some(error.code()),
            // ADK's name for this error.
            Ok(Some(_)) if !self.is_known => return Some("ValueError"),
            Ok(Some(answer)) => answer,
        };
        let actions = &answer.actions;
        let is_asked = |wanted: &Json| wanted.as_object().is_some_and(|it| !it.is_empty());
        let waits = is_asked(&actions.requested_auth_configs)
            || is_asked(&actions.requested_tool_confirmations);
        let answers = answer.function_responses();
        let answer = answers.first().and_then(|it| it.response.as_ref());
        let answer = answer.filter(|_| !waits)?;
        let says = |key: &str| answer.get(key).is_some_and(|value| !is_falsy(value));
        match () {
            () if says("isError") => Some("MCP_TOOL_ERROR"),
            () if says("error") => Some("TOOL_ERROR"),
            () => None,
        }
    }
}

/// Whether a value is false in Python.
fn is_falsy(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => true,
        Json::Bool(true) => false,
        Json::Number(_) => value.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
    }
}

/// Records that the answers of several calls were merged into one event.
pub(crate) fn record_merged(event: &Event, telemetry: Telemetry) {
    let span = info_span!(
        target: SPANS,
        "execute_tool_merged",
        "otel.name" = "execute_tool (merged)",
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = "(merged tools)",
        "gen_ai.tool.description" = "(merged tools)",
        "gen_ai.tool.call.id" = event.id.as_str(),
        "gcp.vertex.agent.tool_call_args" = "N/A",
        "gcp.vertex.agent.event_id" = event.id.as_str(),
        "gcp.vertex.agent.tool_response" = Empty,
        "gcp.vertex.agent.llm_request" = "{}",
        "gcp.vertex.agent.llm_response" = "{}",
    );
    record_content(&span, telemetry, "gcp.vertex.agent.tool_response", || {
        answers_text(event)
    });
}

/// Creates the span of a summary of `events` events.
pub(crate) fn compaction(
    session: &str,
    trigger: &'static str,
    compactor: &Compactor,
    events: usize,
) -> Span {
    let span = info_span!(
        target: SPANS,
        "compact_events",
        "otel.name" = %format_args!("compact_events {trigger}"),
        "gen_ai.system" = google_api_name(),
        "gen_ai.operation.name" = "compact_events",
        "gen_ai.conversation.id" = session,
        "gen_ai.compaction.trigger" = trigger,
        "gen_ai.compaction.summarizer_type" = compactor.summarizer_kind(),
        "gen_ai.compaction.event_count" = to_i64(events),
        "gen_ai.compaction.token_threshold" = Empty,
        "gen_ai.compaction.event_retention_size" = Empty,
        "gen_ai.compaction.compaction_interval" = Empty,
        "gen_ai.compaction.overlap_size" = Empty,
        "gen_ai.compaction.result_event_id" = Empty,
        "gen_ai.compaction.start_timestamp" = Empty,
        "gen_ai.compaction.end_timestamp" = Empty,
        "error.type" = Empty,
        "otel.status_description" = Empty,
    );
    if let Some(threshold) = &compactor.threshold {
        let (tokens, retained) = (threshold.tokens, to_i64(threshold.retained_events));
        span.record("gen_ai.compaction.token_threshold", i64::from(tokens));
        span.record("gen_ai.compaction.event_retention_size", retained);
    }
    if let Some(window) = &compactor.window {
        let (interval, overlap) = (to_i64(window.interval), to_i64(window.overlap));
        span.record("gen_ai.compaction.compaction_interval", interval);
        span.record("gen_ai.compaction.overlap_size", overlap);
    }
    span
}

/// Records the event of the summary.
pub(crate) fn record_compaction(span: &Span, event: &Event) {
    span.record("gen_ai.compaction.result_event_id", event.id.as_str());
    if let Some(summary) = &event.actions.compaction {
        span.record("gen_ai.compaction.start_timestamp", summary.start_timestamp);
        span.record("gen_ai.compaction.end_timestamp", summary.end_timestamp);
    }
}

/// Converts a number for exporters, which support only signed numbers.
fn to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
