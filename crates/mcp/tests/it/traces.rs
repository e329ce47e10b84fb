//! A call sends its trace context to the server.

use std::sync::Arc;

use retain_mcp::McpToolset;

use crate::support::{AgentRun, child_process};

#[tokio::test]
async fn call_outside_a_trace_sends_no_trace_context() {
    let folder = retain_testkit::scratch::folder();
    let set = Arc::new(McpToolset::new(child_process(folder.path())));
    let run = AgentRun::calling_tool(&set, "trace", "{}").await;
    assert_eq!(run.text(), "none");
}

#[cfg(feature = "otel")]
mod collected {
    use std::sync::Mutex;

    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{SdkTracerProvider, SpanData, SpanExporter},
    };
    use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};

    use super::*;

    /// An exporter that collects finished spans.
    #[derive(Debug, Clone, Default)]
    struct SpanCollector(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for SpanCollector {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    /// Runs on one thread, because the subscriber is set for this thread only.
    #[tokio::test]
    async fn call_sends_the_trace_context_of_its_span() {
        let spans = SpanCollector::default();
        let provider = SdkTracerProvider::builder();
        let provider = provider.with_simple_exporter(spans.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        retain_testkit::callsites::enable_for_all_threads();
        let _guard = tracing_subscriber::registry().with(layer).set_default();
        let folder = retain_testkit::scratch::folder();
        let set = Arc::new(McpToolset::new(child_process(folder.path())));
        let run = AgentRun::calling_tool(&set, "trace", "{}").await;
        let spans = spans.0.lock().unwrap();
        let span = spans.iter().find(|span| span.name == "execute_tool trace");
        let span = &span.unwrap_or_else(|| panic!("{spans:?}")).span_context;
        let expected = format!("00-{}-{}-01", span.trace_id(), span.span_id());
        assert_eq!(run.text(), expected);
    }
}
