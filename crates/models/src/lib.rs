//! Models over HTTP: Gemini, OpenAI-compatible and Anthropic, behind the runtime's port `Model`.
//!
//! A provider is a pure translation ([`provider`]): a request to an HTTP call, bytes to answers.
//! Everything that can go wrong between is in [`http`], once for all of them.

#[allow(dead_code, reason = "the registry comes next")]
mod anthropic;
#[allow(dead_code)]
mod gemini;
mod http;
#[allow(dead_code, reason = "the registry comes next")]
mod names;
#[allow(dead_code, reason = "the providers come next")]
mod provider;
mod schema;
#[allow(dead_code, reason = "the registry comes next")]
mod settings;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod testing;

pub use anthropic::AnthropicModel;
pub use http::{Http, HttpSettings, Retries, Secret};
pub use settings::ModelSettings;
