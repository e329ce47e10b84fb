//! The runner, which runs an agent for a message and stores the events, and its configuration.

pub use retain_runtime::{
    BlockingRun, CompactionConfig, CompactionError, EventSummarizer, HookResult,
    LlmEventSummarizer, Plugin, ReadMessage, RunConfig, RunError, RunHandle, RunRequest, RunStream,
    Runner, RunnerBuilder, SaveFilesAsArtifactsPlugin, StreamingMode, Summary,
    compaction::{SlidingWindow, TokenThreshold},
    telemetry,
};
