//! The runner, which runs an agent for a message and stores the events, its configuration, and the
//! maintenance of its services.

pub use retain_runtime::{
    BlockingRun, CompactionConfig, CompactionError, EventSummarizer, FindRunner, HookResult,
    LlmEventSummarizer, Maintenance, MaintenanceReport, MaintenanceStatus, MaintenanceTask, Plugin,
    ReadMessage, RunConfig, RunError, RunHandle, RunRequest, RunStream, Runner, RunnerBuilder,
    SaveFilesAsArtifactsPlugin, StreamingMode, Summary,
    compaction::{SlidingWindow, TokenThreshold},
    telemetry,
};
