//! Models over HTTP: Gemini, OpenAI-compatible servers and Anthropic, as implementations of the
//! runtime's `Model`.
//!
//! A provider (`provider`) translates without I/O: a request to an HTTP call, and the received
//! bytes to responses. `http` handles the network and its errors for all of them. `registry`
//! selects models by name.

mod anthropic;
#[cfg(test)]
mod differential;
mod embed;
mod gemini;
mod http;
mod names;
mod openai;
mod provider;
mod registry;
mod settings;
mod signers;
#[cfg(test)]
#[path = "../tests/it/support/mod.rs"]
mod testing;

pub use anthropic::Claude;
pub use embed::{EmbedderSpec, GeminiEmbedder, OpenAiEmbedder};
pub use gemini::{
    Gemini, GeminiAccess, GeminiSettings, GoogleCredentials, ServiceAccount, UserCredentials,
};
pub use http::{Http, HttpSettings, Retries, Secret};
pub use openai::{OpenAi, OpenAiServer};
pub use registry::{Models, SuggestedModel};
pub use settings::ModelSettings;
