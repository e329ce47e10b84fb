//! Models: the [`Model`] trait, its requests and its responses.
//!
//! With the feature `models`, models over HTTP are selected by name (`gemini-…`, `openai/…`,
//! `ollama/…`, `claude-…` and more) or constructed in one line:
//!
//! ```
//! # #[cfg(feature = "models")] {
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use retain::{LlmAgent, model::{ModelSettings, Models}};
//! // Models::from_env() reads API keys from the usual environment variables.
//! let models = Models::new(ModelSettings::from_variables([("GOOGLE_API_KEY", "AIza…")]))?;
//! let agent = LlmAgent::builder("assistant")
//!     .models(models.registry())
//!     .model("gemini-3.5-flash")
//!     .build()?;
//! # let _ = agent;
//! # Ok(()) }
//! # main().unwrap(); }
//! ```

pub use retain_core::{
    Blob, Bytes, CodeExecutionResult, Content, ExecutableCode, Extra, FileData, FunctionCall,
    FunctionDeclaration, FunctionResponse, GenerateContentConfig, LlmResponse, ModelTool, Part,
    ShapeOf, Shaped, Transcription, UsageMetadata, VideoMetadata, wire_shapes,
};
#[cfg(feature = "models")]
pub use retain_models::{
    Claude, Gemini, GeminiAccess, GeminiSettings, GoogleCredentials, Http, HttpSettings,
    ModelSettings, Models, OpenAi, OpenAiServer, Retries, Secret, ServiceAccount, SuggestedModel,
    UserCredentials,
};
pub use retain_runtime::{
    IntoModel, LlmRequest, Model, ModelCapabilities, ModelError, ModelRegistry, ModelSpec,
    ModelStream, OfflineModel, SharedContent, StreamAggregator,
};
