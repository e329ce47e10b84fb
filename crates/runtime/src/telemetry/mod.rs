//! Spans of a run, with ADK's names and attributes and those of OpenTelemetry's conventions for
//! generative AI.
//!
//! ```text
//! invocation                      runner/mod.rs      a run
//!   invoke_agent NAME             agents/lifecycle   an agent of the run
//!     call_llm                    flow/model_call    a request and its callbacks
//!       generate_content MODEL                       the model call in it
//!     execute_tool NAME           flow/calls         a tool call and its callbacks
//!     execute_tool (merged)                          the answers of several calls in one event
//!     compact_events TRIGGER      compaction/        a summary
//! ```
//!
//! They are spans of the crate `tracing` with the target [`SPANS`]. A layer can subscribe to them;
//! without a subscriber they cost next to nothing. The name of a `tracing` span is fixed, so the
//! field `otel.name` has the complete name.
//!
//! Spans hold the content of a conversation only if [`Telemetry::content_in_spans`] is set. If
//! [`Telemetry::content_in_process`] is set, events with the target [`CONTENT`] carry it to layers
//! that keep it in this process.

mod content;
mod model_call;
mod provider;
mod settings;
mod spans;

pub(crate) use model_call::CallSpans;
pub use settings::Telemetry;
pub(crate) use spans::{
    ToolCallOutcome, agent, compaction, invocation, mark_failed, record_compaction,
    record_invocation, record_merged, tool,
};

/// The target of all run spans.
pub const SPANS: &str = "retain::spans";

/// The target of events that carry a span's content and owner to layers of this process, not for
/// export. Each event is a child of its span. Its fields are `attribute` and `value`, or once per
/// `invocation` the fields `app`, `user`, `session` and `invocation`.
pub const CONTENT: &str = "retain::content";
