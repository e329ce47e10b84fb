//! Settings for recording the content of conversations. By default none is recorded.

use std::env;

/// ADK's environment variable for content in its own spans. In ADK, the default is to record it.
const ADK: &str = "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS";

/// OpenTelemetry's environment variable for generative AI.
const OTEL: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Where the content of a conversation may be recorded: requests, answers, arguments and results.
///
/// The default is nowhere. A runner without this setting uses [`Telemetry::from_env`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Telemetry {
    /// Whether spans contain content, and so every exporter receives it.
    pub content_in_spans: bool,
    /// Whether events with the target [`CONTENT`](super::CONTENT) carry content to layers that keep
    /// it in this process, such as the traces of the development server.
    pub content_in_process: bool,
}

impl Telemetry {
    /// Reads the environment. `ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS` takes precedence if set.
    /// Otherwise `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` enables capture if it is
    /// `SPAN_ONLY` or `SPAN_AND_EVENT`. As in ADK, `true` means log records only, which Retain does
    /// not write.
    pub fn from_env() -> Telemetry {
        let read = |name: &str| env::var(name).ok();
        Telemetry::from_values(read(ADK).as_deref(), read(OTEL).as_deref())
    }

    /// Sets whether content is recorded in spans.
    pub fn with_content_in_spans(mut self, record: bool) -> Telemetry {
        self.content_in_spans = record;
        self
    }

    /// Sets whether content is recorded in events for layers of this process.
    pub fn with_content_in_process(mut self, record: bool) -> Telemetry {
        self.content_in_process = record;
        self
    }

    fn from_values(adk: Option<&str>, otel: Option<&str>) -> Telemetry {
        let adk = adk.map(|value| value.trim().to_ascii_lowercase());
        let otel = otel.unwrap_or_default().trim().to_ascii_uppercase();
        let content_in_spans = match adk.as_deref() {
            Some(value) if !value.is_empty() => matches!(value, "true" | "1"),
            _ => matches!(&*otel, "SPAN_ONLY" | "SPAN_AND_EVENT"),
        };
        Telemetry {
            content_in_spans,
            content_in_process: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_capture_is_off_by_default_and_enabled_by_variables() {
        let is_on = |adk, otel| Telemetry::from_values(adk, otel).content_in_spans;
        assert!(!is_on(None, None));
        for value in ["", "no", "false", "0", "NO_CONTENT", "EVENT_ONLY"] {
            assert!(!is_on(Some(value), None), "{value}");
            assert!(!is_on(None, Some(value)), "{value}");
        }
        assert!(
            !is_on(None, Some("true")),
            "`true` enables only log records"
        );
        assert!(is_on(Some(" True "), None) && is_on(Some("1"), None));
        assert!(is_on(None, Some("span_only")) && is_on(None, Some("SPAN_AND_EVENT")));
        assert!(
            !is_on(Some("false"), Some("SPAN_ONLY")),
            "ADK's variable takes precedence"
        );
        assert!(
            is_on(Some(""), Some("SPAN_ONLY")),
            "an empty variable counts as unset"
        );
    }
}
