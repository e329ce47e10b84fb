//! Embed memories after they are stored. Searches find them by words at once and by embedding
//! later, so a failing embedder delays nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use retain_core::{
    BoxError, Clock, Embedder, MemoryError, MemoryRecord, MemoryScope, MemoryStore, MemoryVector,
    NewEmbedding,
};
use tokio::sync::Notify;

use super::text::spoken_text;

/// Maximum number of texts per embedder call.
const BATCH: usize = 64;
/// Timeout of a batch.
const BATCH_PATIENCE: Duration = Duration::from_secs(300);
/// After this many consecutive failures, the embedder counts as unavailable. Halving a batch down
/// to one rejected text takes seven failures.
const FAILURES: usize = 10;
/// How long after a failure searches do not retry. An ingest retries at once.
const PAUSE_US: i64 = 60_000_000;
/// How long a search waits for the embedding of its query.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);

/// The scopes whose memories are being embedded.
#[derive(Debug, Default)]
pub(super) struct Embedding {
    /// Whether new entries arrived meanwhile, so that the task must check for them.
    scopes: Mutex<HashMap<MemoryScope, bool>>,
    /// The time of the last failure, by scope.
    failed: Mutex<HashMap<MemoryScope, i64>>,
    done: Notify,
}

impl Embedding {
    fn lock(&self) -> MutexGuard<'_, HashMap<MemoryScope, bool>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<MemoryScope, i64>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is too early to retry.
    pub(super) fn is_pausing(&self, scope: &MemoryScope, now_us: i64) -> bool {
        let failed = self.failed();
        let failed_us = failed.get(scope);
        failed_us.is_some_and(|at| now_us.saturating_sub(*at) < PAUSE_US)
    }

    /// Whether the caller must start a task; otherwise the running task embeds the new entries too.
    fn begin(&self, scope: &MemoryScope) -> bool {
        let mut scopes = self.lock();
        let again = scopes.get_mut(scope).map(|again| *again = true);
        if again.is_none() {
            scopes.insert(scope.clone(), false);
        }
        again.is_none()
    }

    fn again(&self, scope: &MemoryScope) -> bool {
        let mut scopes = self.lock();
        let again = scopes.get_mut(scope).is_some_and(std::mem::take);
        if !again {
            scopes.remove(scope);
            self.done.notify_waiters();
        }
        again
    }

    /// Wait until nothing is being embedded.
    pub(super) async fn wait(&self) {
        loop {
            let mut done = std::pin::pin!(self.done.notified());
            done.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            done.await;
        }
    }
}

/// The task of one scope. Dropping it wakes the waiters.
struct EmbeddingTask<S> {
    store: Arc<S>,
    embedder: Arc<dyn Embedder>,
    embedding: Arc<Embedding>,
    scope: MemoryScope,
    clock: Arc<dyn Clock>,
    is_done: bool,
}

/// Consecutive failures of the embedder in one scope.
#[derive(Default)]
struct Failures {
    in_a_row: usize,
    last: Option<MemoryError>,
}

impl<S> Drop for EmbeddingTask<S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.embedding.lock().remove(&self.scope);
            self.embedding.done.notify_waiters();
        }
    }
}

/// Embed the scope's entries that lack a vector, in a new task.
pub(super) fn embed_later<S: MemoryStore>(
    store: &Arc<S>,
    embedder: &Arc<dyn Embedder>,
    embedding: &Arc<Embedding>,
    clock: &Arc<dyn Clock>,
    scope: &MemoryScope,
) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if !embedding.begin(scope) {
        return;
    }
    let task = EmbeddingTask {
        store: Arc::clone(store),
        embedder: Arc::clone(embedder),
        embedding: Arc::clone(embedding),
        scope: scope.clone(),
        clock: Arc::clone(clock),
        is_done: false,
    };
    drop(runtime.spawn(task.work()));
}

impl<S: MemoryStore> EmbeddingTask<S> {
    async fn work(mut self) {
        loop {
            match self.embed_all().await {
                Ok(()) => drop(self.embedding.failed().remove(&self.scope)),
                Err(error) => {
                    let (scope, now_us) = (&self.scope, self.clock.now_us());
                    self.embedding.failed().insert(scope.clone(), now_us);
                    // Log neither the scope nor the server's message: both may contain user data.
                    tracing::warn!("failed to embed memories; retrying later");
                    let (scope, error) = (scope.to_string(), error.to_string());
                    tracing::debug!(?scope, ?error, "failed to embed memories; retrying later");
                }
            }
            if !self.embedding.again(&self.scope) {
                self.is_done = true;
                return;
            }
        }
    }

    async fn embed_all(&self) -> Result<(), MemoryError> {
        let scope = &self.scope;
        let (model, dims) = (self.embedder.id(), self.embedder.dims());
        let (mut generation, mut after) = (0, 0);
        let mut failures = Failures::default();
        loop {
            // Read the mark before the texts: if the user is erased meanwhile, the store rejects
            // the vectors.
            let mark = self.store.mark(scope).await?;
            if mark.generation != generation {
                (generation, after) = (mark.generation, 0);
            }
            let lacking = self
                .store
                .without_embedding(scope, model, dims, after, BATCH);
            let lacking = lacking.await?;
            let Some(last) = lacking.last() else {
                return failures.last.map_or(Ok(()), Err);
            };
            after = last.info.seq;
            self.embed_some(generation, &lacking, &mut failures).await?;
        }
    }

    /// Embed these entries. A failing batch is halved, so that one rejected text does not block the
    /// others.
    async fn embed_some(
        &self,
        generation: u64,
        records: &[MemoryRecord],
        failures: &mut Failures,
    ) -> Result<(), MemoryError> {
        let mut rest = vec![records];
        while let Some(some) = rest.pop() {
            match self.embed(some).await {
                Ok(vectors) => {
                    failures.in_a_row = 0;
                    let vectors = Arc::new(vectors);
                    let set = self.store.set_embeddings(&self.scope, generation, vectors);
                    set.await?;
                }
                Err(error) => {
                    failures.in_a_row += 1;
                    if failures.in_a_row >= FAILURES {
                        return Err(error);
                    }
                    failures.last = Some(error);
                    if some.len() > 1 {
                        let (first, second) = some.split_at(some.len() / 2);
                        rest.extend([second, first]);
                    }
                }
            }
        }
        Ok(())
    }

    async fn embed(&self, records: &[MemoryRecord]) -> Result<Vec<NewEmbedding>, MemoryError> {
        let texts: Vec<String> = records.iter().map(|it| spoken_text(&it.content)).collect();
        let vectors = tokio::time::timeout(BATCH_PATIENCE, embed(&*self.embedder, &texts));
        let vectors = vectors.await.map_err(MemoryError::backend)?;
        let vectors = vectors.map_err(MemoryError::backend)?;
        let pairs = records.iter().zip(vectors);
        let embeddings = pairs.map(|(record, vector)| NewEmbedding {
            seq: record.info.seq,
            revision: record.info.revision,
            vector: MemoryVector::from_floats(self.embedder.id(), &vector),
        });
        Ok(embeddings.collect())
    }
}

/// Embed texts and check the number, size and values of the vectors.
pub(crate) async fn embed(
    embedder: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, BoxError> {
    let vectors = embedder.embed(texts).await?;
    let (dims, asked, given) = (embedder.dims(), texts.len(), vectors.len());
    if given != asked {
        return Err(format!("the embedder returned {given} vectors for {asked} texts").into());
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return Err("the embedder returned a vector with NaN or infinite components".into());
    }
    match vectors.iter().find(|vector| vector.len() != dims) {
        Some(other) => {
            let found = other.len();
            Err(
                format!("the embedder returned a vector of {found} dimensions; expected {dims}")
                    .into(),
            )
        }
        None => Ok(vectors),
    }
}

/// Embed a query; empty if the embedder fails or times out.
pub(super) async fn embed_question(embedder: &dyn Embedder, question: &str) -> Vec<f32> {
    let texts = [question.to_owned()];
    let asked = tokio::time::timeout(QUESTION_PATIENCE, embed(embedder, &texts));
    let answer = match asked.await {
        Ok(Ok(mut vectors)) => return vectors.pop().unwrap_or_default(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "timed out".to_owned(),
    };
    tracing::warn!("failed to embed a query; searching by words only");
    tracing::debug!(error = ?answer, "failed to embed a query; searching by words only");
    Vec::new()
}
