//! Trace context of a call, for servers that record their own spans.

use rmcp::model::RequestMetaObject;

/// Returns the metadata of a call with the trace context; `None` if no spans are collected.
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
        // The W3C Trace Context format.
        meta.set_traceparent(format!("00-{trace}-{span_id}-{flags:02x}"));
        let state = span.trace_state().header();
        if !state.is_empty() {
            meta.set_tracestate(state);
        }
        meta
    })
}

/// Returns no metadata: spans are collected only with the feature `otel`.
#[cfg(not(feature = "otel"))]
pub(super) fn meta() -> Option<RequestMetaObject> {
    None
}
