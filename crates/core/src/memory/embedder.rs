//! `Embedder`: the port behind which a model says what texts mean, as vectors.

use std::fmt;

use async_trait::async_trait;

use crate::error::BoxError;

/// Says what texts mean, as vectors that are near where meanings are.
#[async_trait]
pub trait Embedder: fmt::Debug + Send + Sync + 'static {
    /// What the vectors are stored under. It must change when the vectors do.
    fn id(&self) -> &str;

    /// How many dimensions a vector has.
    fn dims(&self) -> usize;

    /// A vector a text, in their order.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError>;
}
