//! The spans of a model call: `call_llm` around the whole call, `generate_content` around the
//! model.
//!
//! An answer arrives in chunks, and the last chunk's values count. So the values are collected here
//! and recorded when the call ends, even if its future is dropped.

use std::sync::Arc;

use retain_core::{LlmResponse, UsageMetadata};
use tracing::{Span, field::Empty, info_span};

use super::{
    SPANS, Telemetry,
    content::{is_recorded, record_content, request_text, response_text},
    provider::provider_or_google,
    spans::mark_failed,
};
use crate::{context::InvocationContext, error::Result, models::LlmRequest};

/// The spans of one model call.
#[derive(Debug)]
pub(crate) struct CallSpans {
    telemetry: Telemetry,
    call: Span,
    generate: Span,
    answer: RecordedAnswer,
}

/// The values from the model's answers that spans record.
#[derive(Debug, Default)]
struct RecordedAnswer {
    usage: Option<Usage>,
    finish_reason: Option<String>,
    /// The id of the event that was made from the answer.
    event: Option<String>,
    /// The last answer, if content is recorded.
    response: Option<Arc<LlmResponse>>,
    /// Whether `response` is only a chunk.
    is_piece: bool,
}

/// The token usage of a call, as far as the model reported it.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    input: Option<i64>,
    output: Option<i64>,
    cached: Option<i64>,
    thoughts: Option<i64>,
}

impl CallSpans {
    /// Starts `call_llm`.
    pub(crate) fn begin(ctx: &InvocationContext) -> CallSpans {
        let call = info_span!(
            target: SPANS,
            "call_llm",
            "otel.name" = "call_llm",
            "gen_ai.system" = "gcp.vertex.agent",
            "gen_ai.request.model" = Empty,
            "gcp.vertex.agent.invocation_id" = ctx.invocation_id(),
            "gcp.vertex.agent.session_id" = ctx.session_key().id.as_str(),
            "gcp.vertex.agent.event_id" = Empty,
            "gcp.vertex.agent.llm_request" = Empty,
            "gcp.vertex.agent.llm_response" = Empty,
            "gen_ai.request.top_p" = Empty,
            "gen_ai.request.max_tokens" = Empty,
            "gen_ai.usage.experimental.reasoning_tokens_limit" = Empty,
            "gen_ai.usage.input_tokens" = Empty,
            "gen_ai.usage.output_tokens" = Empty,
            "gen_ai.usage.cache_read.input_tokens" = Empty,
            "gen_ai.usage.reasoning.output_tokens" = Empty,
            "gen_ai.response.finish_reasons" = Empty,
            "error.type" = Empty,
            "otel.status_description" = Empty,
        );
        CallSpans {
            telemetry: ctx.shared.telemetry,
            call,
            generate: Span::none(),
            answer: RecordedAnswer::default(),
        }
    }

    /// Returns the span of the whole call, including callbacks.
    pub(crate) fn call(&self) -> Span {
        self.call.clone()
    }

    /// Returns the span of the model.
    pub(crate) fn generate(&self) -> Span {
        self.generate.clone()
    }

    /// Records the final request.
    pub(crate) fn record_request(&self, request: &LlmRequest) {
        if self.call.is_disabled() {
            return;
        }
        let (span, config) = (&self.call, &request.config);
        span.record("gen_ai.request.model", request.model.as_str());
        if let Some(top_p) = config.top_p.filter(|top_p| *top_p != 0.0) {
            span.record("gen_ai.request.top_p", top_p);
        }
        if let Some(tokens) = config.max_output_tokens.filter(|tokens| *tokens != 0) {
            span.record("gen_ai.request.max_tokens", tokens);
        }
        let thinking = config.thinking_config.as_ref();
        let budget = thinking.and_then(|thinking| {
            let thinking = thinking.as_object()?;
            let budget = thinking.get("thinkingBudget");
            budget.or(thinking.get("thinking_budget"))?.as_i64()
        });
        if let Some(budget) = budget {
            span.record("gen_ai.usage.experimental.reasoning_tokens_limit", budget);
        }
        record_content(span, self.telemetry, "gcp.vertex.agent.llm_request", || {
            request_text(request)
        });
    }

    /// Starts `generate_content`.
    pub(crate) fn begin_generating(&mut self, ctx: &InvocationContext, request: &LlmRequest) {
        let _in_call = self.call.enter();
        self.generate = info_span!(
            target: SPANS,
            "generate_content",
            "otel.name" = format!("generate_content {}", request.model).trim(),
            "gen_ai.system" = provider_or_google(&request.model).as_str(),
            "gen_ai.operation.name" = "generate_content",
            "gen_ai.request.model" = request.model.as_str(),
            "gen_ai.request.top_p" = request.config.top_p,
            "gen_ai.request.max_tokens" = request.config.max_output_tokens,
            "gen_ai.agent.name" = ctx.agent_name(),
            "gen_ai.conversation.id" = ctx.session_key().id.as_str(),
            "gcp.vertex.agent.event_id" = Empty,
            "gcp.vertex.agent.invocation_id" = ctx.invocation_id(),
            "gen_ai.response.finish_reasons" = Empty,
            "gen_ai.usage.input_tokens" = Empty,
            "gen_ai.usage.output_tokens" = Empty,
            "gen_ai.usage.cache_read.input_tokens" = Empty,
            "gen_ai.usage.reasoning.output_tokens" = Empty,
            "error.type" = Empty,
            "otel.status_description" = Empty,
        );
    }

    /// Records an answer of the model, or of a callback in its place.
    pub(crate) fn record_answer(&mut self, response: &LlmResponse) {
        if self.call.is_disabled() {
            return;
        }
        let answer = &mut self.answer;
        let is_piece = response.partial == Some(true);
        if let Some(usage) = &response.usage_metadata {
            answer.usage = Some(Usage::from_metadata(usage));
        }
        let reason = response.finish_reason.as_deref();
        if let Some(reason) = reason.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED") {
            answer.finish_reason = Some(reason.to_lowercase());
        }
        if is_recorded(&self.call, self.telemetry)
            && (!is_piece || answer.response.is_none() || answer.is_piece)
        {
            answer.response = Some(Arc::new(response.clone()));
            answer.is_piece = is_piece;
        }
    }

    /// Records the event that was made from the answer. If the model has reported that it is done,
    /// its span ends here, so that tools run outside it.
    pub(crate) fn record_event(&mut self, id: &str) {
        if self.call.is_disabled() {
            return;
        }
        self.answer.event = Some(id.to_owned());
        if self.answer.finish_reason.is_some() {
            self.end_generating();
        }
    }

    /// Returns the result unchanged. An error marks the call as failed.
    pub(crate) fn mark_failure<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            mark_failed(&self.call, error.code());
        }
        result
    }

    /// Records that the model failed.
    pub(crate) fn model_failed(&mut self, code: Option<&str>) {
        mark_failed(&self.generate, code.unwrap_or("ModelError"));
        self.end_generating();
    }

    fn end_generating(&mut self) {
        let generate = std::mem::replace(&mut self.generate, Span::none());
        self.answer.record(&generate);
    }
}

impl RecordedAnswer {
    fn record(&self, span: &Span) {
        if span.is_disabled() {
            return;
        }
        if let Some(event) = &self.event {
            span.record("gcp.vertex.agent.event_id", event.as_str());
        }
        if let Some(reason) = &self.finish_reason {
            span.record("gen_ai.response.finish_reasons", reason.as_str());
        }
        let usage = self.usage.unwrap_or_default();
        let counts = [
            ("gen_ai.usage.input_tokens", usage.input),
            ("gen_ai.usage.output_tokens", usage.output),
            ("gen_ai.usage.cache_read.input_tokens", usage.cached),
            ("gen_ai.usage.reasoning.output_tokens", usage.thoughts),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                span.record(name, count);
            }
        }
    }
}

impl Drop for CallSpans {
    fn drop(&mut self) {
        self.end_generating();
        self.answer.record(&self.call);
        let response = self.answer.response.take();
        if self.answer.event.is_some() || response.is_some() {
            let attribute = "gcp.vertex.agent.llm_response";
            record_content(&self.call, self.telemetry, attribute, || {
                response.as_deref().map(response_text).unwrap_or_default()
            });
        }
    }
}

impl Usage {
    /// Reads the usage. Results of tools that the provider runs count as input, and thoughts as
    /// output.
    fn from_metadata(usage: &UsageMetadata) -> Usage {
        let sum = |one: Option<i64>, other: Option<i64>| match (one, other) {
            (None, None) => None,
            _ => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        let thoughts = usage.thoughts_token_count;
        Usage {
            input: sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
            output: sum(usage.candidates_token_count, thoughts),
            cached: usage.cached_content_token_count,
            thoughts,
        }
    }
}
