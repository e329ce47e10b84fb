//! The last step before export: converts the finish reason to a list, which a `tracing` field
//! cannot hold.

use std::time::Duration;

use opentelemetry::{Array, StringValue, Value};
use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};

/// The attribute that OpenTelemetry defines as a list of strings.
const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Converts [`FINISH_REASONS`] to a list and exports the spans.
#[derive(Debug)]
pub(super) struct Exporter(pub(super) OtlpExporter);

impl SpanExporter for Exporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            convert_finish_reasons(span);
        }
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn convert_finish_reasons(span: &mut SpanData) {
    let mut attributes = span.attributes.iter_mut();
    if let Some(reasons) = attributes.find(|it| it.key.as_str() == FINISH_REASONS)
        && let Value::String(reason) = &reasons.value
    {
        let list = vec![StringValue::from(reason.as_str().to_owned())];
        reasons.value = Value::Array(Array::String(list));
    }
}
