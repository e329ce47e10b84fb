//! Spans of what happens in a run, with ADK's names and attributes and those of OpenTelemetry's
//! conventions for generative AI.
//!
//! ```text
//! invocation                      runner/mod.rs      a run
//!   invoke_agent NAME             agents/lifecycle   an agent's part of it
//!     call_llm                    flow/model_call    a request, with the callbacks around it
//!       generate_content MODEL                       the model's own part of that
//!     execute_tool NAME           flow/calls         a call, with the callbacks around it
//!     execute_tool (merged)                          the answers of several calls, in one event
//!     compact_events TRIGGER      compaction/        a summary
//! ```
//!
//! They are spans of the crate `tracing` with the target [`SPANS`]: whoever has a layer that listens
//! gets them, and where nobody does, they cost next to nothing. The name of a `tracing` span is
//! fixed, so the whole name is in its field `otel.name`.
//!
//! What is said in a conversation is in a span only if [`Telemetry::content_in_spans`] is set. For
//! layers that keep it in this process there are events with the target [`CONTENT`].

mod content;
mod model_call;
mod provider;
mod settings;
mod spans;

pub(crate) use model_call::CallSpans;
pub use settings::Telemetry;
pub(crate) use spans::{
    RanTool, agent, compaction, compaction_made, failed, invocation, invocation_begun, merged, tool,
};

/// The target of all spans of runs.
pub const SPANS: &str = "retain::spans";

/// The target of events that tell the content of a span, and whose it is, to layers of this process.
/// They are not for export. Each is a child of the span that it is about; its fields are `attribute`
/// and `value`, or for an `invocation` once `app`, `user`, `session` and `invocation`.
pub const CONTENT: &str = "retain::content";
