//! Embeds memories in the background after they are stored. A search finds a memory by its words
//! immediately, and by its embedding later: a slow or failing embedder does not delay an ingest.

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
const BATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// Number of consecutive failures after which the embedder counts as unavailable. Halving a batch
/// down to one rejected text takes seven failures.
const FAILURES_MAX: usize = 10;
/// Pause after a failure, in which searches start no new attempt. An ingest always starts one.
const RETRY_PAUSE_US: i64 = 60_000_000;
/// Timeout of the embedding of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The scopes whose memories are being embedded, each by one task.
#[derive(Debug, Default)]
pub(super) struct EmbeddingTasks {
    /// Whether new entries have arrived since the scope's task read the entries.
    scopes: Mutex<HashMap<MemoryScope, bool>>,
    /// The time of the last failure, by scope.
    failed: Mutex<HashMap<MemoryScope, i64>>,
    done: Notify,
}

impl EmbeddingTasks {
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
        failed_us.is_some_and(|at| now_us.saturating_sub(*at) < RETRY_PAUSE_US)
    }

    /// Returns whether the caller must start a task. Otherwise the scope's running task also embeds
    /// the new entries.
    fn begin(&self, scope: &MemoryScope) -> bool {
        let mut scopes = self.lock();
        if let Some(has_new_entries) = scopes.get_mut(scope) {
            *has_new_entries = true;
            return false;
        }
        scopes.insert(scope.clone(), false);
        true
    }

    /// Returns whether the scope's task must end. It must continue if entries have arrived since it
    /// read its entries.
    fn end(&self, scope: &MemoryScope) -> bool {
        let mut scopes = self.lock();
        let has_new_entries = scopes.get_mut(scope).is_some_and(std::mem::take);
        if !has_new_entries {
            scopes.remove(scope);
            self.done.notify_waiters();
        }
        !has_new_entries
    }

    /// Waits until no task is running.
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

/// The task that embeds the entries of one scope. If it is dropped early, such as on a panic, it
/// still wakes the callers of [`EmbeddingTasks::wait`].
struct EmbeddingTask<S> {
    store: Arc<S>,
    embedder: Arc<dyn Embedder>,
    tasks: Arc<EmbeddingTasks>,
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
            self.tasks.lock().remove(&self.scope);
            self.tasks.done.notify_waiters();
        }
    }
}

/// Starts a task that embeds the scope's entries without an embedding, unless one is running.
pub(super) fn embed_later<S: MemoryStore>(
    store: &Arc<S>,
    embedder: &Arc<dyn Embedder>,
    tasks: &Arc<EmbeddingTasks>,
    clock: &Arc<dyn Clock>,
    scope: &MemoryScope,
) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if !tasks.begin(scope) {
        return;
    }
    let task = EmbeddingTask {
        store: Arc::clone(store),
        embedder: Arc::clone(embedder),
        tasks: Arc::clone(tasks),
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
                Ok(()) => drop(self.tasks.failed().remove(&self.scope)),
                Err(error) => {
                    let (scope, now_us) = (&self.scope, self.clock.now_us());
                    self.tasks.failed().insert(scope.clone(), now_us);
                    // Log neither the scope nor the server's message: both may contain user data.
                    tracing::warn!("failed to embed memories; retrying later");
                    let (scope, error) = (scope.to_string(), error.to_string());
                    tracing::debug!(?scope, ?error, "failed to embed memories; retrying later");
                }
            }
            if self.tasks.end(&self.scope) {
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
            // Read the mark before the texts, so that the store rejects the vectors if the user is
            // erased meanwhile.
            let mark = self.store.mark(scope).await?;
            if mark.generation != generation {
                (generation, after) = (mark.generation, 0);
            }
            let batch = self
                .store
                .without_embedding(scope, model, dims, after, BATCH);
            let batch = batch.await?;
            let Some(last) = batch.last() else {
                return failures.last.map_or(Ok(()), Err);
            };
            after = last.info.seq;
            self.embed_batch(generation, &batch, &mut failures).await?;
        }
    }

    /// Embeds and stores a batch. If the embedder fails, halves the batch and tries both halves, so
    /// that one rejected text does not block the others.
    async fn embed_batch(
        &self,
        generation: u64,
        records: &[MemoryRecord],
        failures: &mut Failures,
    ) -> Result<(), MemoryError> {
        let mut pending = vec![records];
        while let Some(batch) = pending.pop() {
            match self.embed(batch).await {
                Ok(vectors) => {
                    failures.in_a_row = 0;
                    let vectors = Arc::new(vectors);
                    let set = self.store.set_embeddings(&self.scope, generation, vectors);
                    set.await?;
                }
                Err(error) => {
                    failures.in_a_row += 1;
                    if failures.in_a_row >= FAILURES_MAX {
                        return Err(error);
                    }
                    failures.last = Some(error);
                    if batch.len() > 1 {
                        let (first, second) = batch.split_at(batch.len() / 2);
                        pending.extend([second, first]);
                    }
                }
            }
        }
        Ok(())
    }

    async fn embed(&self, records: &[MemoryRecord]) -> Result<Vec<NewEmbedding>, MemoryError> {
        let texts: Vec<String> = records.iter().map(|it| spoken_text(&it.content)).collect();
        let vectors = tokio::time::timeout(BATCH_TIMEOUT, embed(&*self.embedder, &texts));
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

/// Embeds texts and checks the number, size and values of the vectors.
pub(crate) async fn embed(
    embedder: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, BoxError> {
    let vectors = embedder.embed(texts).await?;
    let (dims, expected, found) = (embedder.dims(), texts.len(), vectors.len());
    if found != expected {
        return Err(format!("the embedder returned {found} vectors for {expected} texts").into());
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

/// Embeds a query. Returns an empty vector if the embedder fails or times out.
pub(super) async fn embed_query(embedder: &dyn Embedder, query: &str) -> Vec<f32> {
    let texts = [query.to_owned()];
    let result = tokio::time::timeout(QUERY_TIMEOUT, embed(embedder, &texts));
    let error = match result.await {
        Ok(Ok(mut vectors)) => return vectors.pop().unwrap_or_default(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "timed out".to_owned(),
    };
    tracing::warn!("failed to embed a query; searching by words only");
    tracing::debug!(?error, "failed to embed a query; searching by words only");
    Vec::new()
}
