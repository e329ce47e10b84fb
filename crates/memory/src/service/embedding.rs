//! Vectors are made behind the ingest: what is taken up is found by its words at once, and by its
//! meaning when the embedder has answered. One that fails holds up nobody.

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

/// Texts that an embedder is given at a time.
const BATCH: usize = 64;
/// How long a batch may take.
const BATCH_PATIENCE: Duration = Duration::from_secs(300);
/// After so many failures in a row the embedder is taken to be out of service. To halve a batch down
/// to the one text that it refuses takes seven.
const FAILURES: usize = 10;
/// How long it is after a failure until a search has what is missing tried again. Adding does so at
/// once.
const PAUSE_US: i64 = 60_000_000;
/// How long a search waits for the vector of its question.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);

/// The scopes whose memories are being embedded.
#[derive(Debug, Default)]
pub(super) struct Embedding {
    /// Whether something came in meanwhile, so that it is to be looked again.
    scopes: Mutex<HashMap<MemoryScope, bool>>,
    /// When vectors could last not be made, by scope.
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

    /// Whether it is too early to try again.
    pub(super) fn is_pausing(&self, scope: &MemoryScope, now_us: i64) -> bool {
        let failed = self.failed();
        let failed_us = failed.get(scope);
        failed_us.is_some_and(|at| now_us.saturating_sub(*at) < PAUSE_US)
    }

    /// Whether it is the caller who is to look; else somebody does, and will again.
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

    /// Waits until nothing is being embedded.
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

/// The work on one scope. If it breaks off, nobody waits for it any more.
struct Task<S> {
    store: Arc<S>,
    embedder: Arc<dyn Embedder>,
    embedding: Arc<Embedding>,
    scope: MemoryScope,
    clock: Arc<dyn Clock>,
    is_done: bool,
}

/// How often an embedder has failed while it gave a scope its vectors.
#[derive(Default)]
struct Failures {
    in_a_row: usize,
    last: Option<MemoryError>,
}

impl<S> Drop for Task<S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.embedding.lock().remove(&self.scope);
            self.embedding.done.notify_waiters();
        }
    }
}

/// Gives the scope's memories that have none a vector, in a task of its own.
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
    let task = Task {
        store: Arc::clone(store),
        embedder: Arc::clone(embedder),
        embedding: Arc::clone(embedding),
        scope: scope.clone(),
        clock: Arc::clone(clock),
        is_done: false,
    };
    drop(runtime.spawn(task.work()));
}

impl<S: MemoryStore> Task<S> {
    async fn work(mut self) {
        loop {
            match self.embed_all().await {
                Ok(()) => drop(self.embedding.failed().remove(&self.scope)),
                Err(error) => {
                    let (scope, now_us) = (&self.scope, self.clock.now_us());
                    self.embedding.failed().insert(scope.clone(), now_us);
                    // Whose they are, and what a server said about them, is nobody's business here.
                    tracing::warn!("memories stay without vectors for now");
                    let (scope, error) = (scope.to_string(), error.to_string());
                    tracing::debug!(?scope, ?error, "memories stay without vectors for now");
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
            // Before the texts: should the user be erased meanwhile, their vectors are not taken.
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
            after = last.about.seq;
            self.embed_some(generation, &lacking, &mut failures).await?;
        }
    }

    /// Gives these their vectors. A batch that fails is halved: one text that the embedder refuses
    /// must not keep the others without.
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
            seq: record.about.seq,
            revision: record.about.revision,
            vector: MemoryVector::from_floats(self.embedder.id(), &vector),
        });
        Ok(embeddings.collect())
    }
}

/// A vector a text, of the size that the embedder said and of numbers; anything else is an error.
pub(crate) async fn embed(
    embedder: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, BoxError> {
    let vectors = embedder.embed(texts).await?;
    let (dims, asked, given) = (embedder.dims(), texts.len(), vectors.len());
    if given != asked {
        return Err(format!("the embedder gave {given} vectors for {asked} texts").into());
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return Err("the embedder gave a vector with numbers that are none".into());
    }
    match vectors.iter().find(|vector| vector.len() != dims) {
        Some(other) => {
            let found = other.len();
            Err(format!("the embedder gave a vector of {found} dimensions, not {dims}").into())
        }
        None => Ok(vectors),
    }
}

/// The vector of a question; none if the embedder fails or takes too long.
pub(super) async fn embed_question(embedder: &dyn Embedder, question: &str) -> Vec<f32> {
    let texts = [question.to_owned()];
    let asked = tokio::time::timeout(QUESTION_PATIENCE, embed(embedder, &texts));
    let answer = match asked.await {
        Ok(Ok(mut vectors)) => return vectors.pop().unwrap_or_default(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it took too long".to_owned(),
    };
    tracing::warn!("a search goes by words only: its question has no vector");
    tracing::debug!(error = ?answer, "a search goes by words only");
    Vec::new()
}
