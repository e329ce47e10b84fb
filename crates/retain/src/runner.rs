//! The runner: from a message to stored events, and what can be set around that.

pub use retain_runtime::{
    BlockingRun, CompactionConfig, CompactionError, EventSummarizer, HookResult,
    LlmEventSummarizer, Plugin, ReadMessage, RunConfig, RunError, RunHandle, RunRequest, RunStream,
    Runner, RunnerBuilder, SaveFilesAsArtifactsPlugin, StreamingMode, Summary,
    compaction::{SlidingWindow, TokenThreshold},
    telemetry,
};
