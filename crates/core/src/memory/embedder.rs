//! `Embedder`: the port to an embedding model.

use std::fmt;

use async_trait::async_trait;

use crate::error::BoxError;

/// Computes embeddings of texts.
#[async_trait]
pub trait Embedder: fmt::Debug + Send + Sync + 'static {
    /// Returns the id of the model, which is stored with each vector. It must change when the model
    /// computes other vectors.
    fn id(&self) -> &str;

    /// Returns the number of dimensions of a vector.
    fn dims(&self) -> usize;

    /// Computes one vector per text, in the order of the texts.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError>;
}
