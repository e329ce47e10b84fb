//! The trace that a call is part of, for a server that has spans of its own.

use rmcp::model::RequestMetaObject;

/// What a call says besides its arguments; nothing, if nobody collects spans.
#[cfg(feature = "otel")]
pub(super) fn meta() -> Option<RequestMetaObject> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let context = tracing::Span::current().context();
    let span = context.span().span_context().clone();
    span.is_valid().then(|| {
        let mut meta = RequestMetaObject::new();
        let (trace, span_id) = (span.trace_id(), span.span_id());
        let flags = span.trace_flags().to_u8();
        // The format of the W3C.
        meta.set_traceparent(format!("00-{trace}-{span_id}-{flags:02x}"));
        let state = span.trace_state().header();
        if !state.is_empty() {
            meta.set_tracestate(state);
        }
        meta
    })
}

/// What a call says besides its arguments: spans are collected with the feature `otel` only.
#[cfg(not(feature = "otel"))]
pub(super) fn meta() -> Option<RequestMetaObject> {
    None
}
