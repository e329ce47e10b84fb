//! Embedders over HTTP: a provider's model turns texts into vectors.
//!
//! Texts are sent in batches (`batch`) and the vectors are checked (`vectors`): one per text, in
//! order, with the requested number of dimensions, and normalized to length 1.

mod batch;
mod gemini;
mod openai;
mod spec;
#[cfg(test)]
mod tests;
mod vectors;

use retain_core::{BoxError, Json};
use retain_runtime::ModelError;

pub use gemini::GeminiEmbedder;
pub use openai::OpenAiEmbedder;
pub use spec::EmbedderSpec;

use self::batch::BatchLimits;
use crate::http::{AttemptError, Auth, Call, Exchange, Http, malformed};
use crate::provider::Failure;

/// Reads an environment variable.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Translates embedding requests into a provider's API.
trait EmbedWire: Send + Sync {
    fn call(&self, texts: &[String]) -> Result<Call, ModelError>;

    /// Parses one vector per text, in order. `count` is the expected number.
    fn vectors(&self, body: &Json, count: usize) -> Result<Vec<Vec<f32>>, ModelError>;

    fn failure(&self, status: u16, body: &str) -> Failure;

    /// Returns the failure that a response with a successful status reports, if any.
    fn failure_in(&self, body: &Json) -> Option<Failure>;

    /// Whether a failure with this code is transient.
    fn is_transient(&self, code: &str) -> bool;
}

/// Requests the vectors of all texts, in batches.
async fn embed(
    wire: &dyn EmbedWire,
    http: &Http,
    auth: &Auth,
    dims: usize,
    limits: BatchLimits,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, BoxError> {
    let mut vectors = Vec::with_capacity(texts.len());
    for texts in batch::batches(texts, limits) {
        let failure = |status, body: &str| wire.failure(status, body);
        let exchange = Exchange::new(wire.call(texts)?, auth, failure);
        let read = |body: &str| {
            let body = Json::parse(body).map_err(|error| {
                malformed(format!("cannot parse the provider's response: {error}"))
            })?;
            if let Some(failure) = wire.failure_in(&body) {
                let is_transient = !failure.is_final && wire.is_transient(&failure.code);
                return Err(AttemptError {
                    is_transient,
                    ..AttemptError::from(failure)
                });
            }
            Ok(wire.vectors(&body, texts.len())?)
        };
        for mut vector in http.call(&exchange, read).await? {
            vectors::normalize(&mut vector, dims)?;
            vectors.push(vector);
        }
    }
    Ok(vectors)
}
