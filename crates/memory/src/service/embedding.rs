//! Vectors are made behind the ingest: what is taken up is found by its words at once, and by its
//! meaning when the embedder has answered. One that fails holds up nobody.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use retain_core::{
    BoxError, Embedder, MemoryError, MemoryRecord, MemoryScope, MemoryStore, MemoryVector,
    NewEmbedding,
};
use tokio::sync::Notify;

use super::text::spoken_text;

/// Texts that an embedder is given at a time.
const BATCH: usize = 64;
/// How long a search waits for the vector of its question.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);

/// The scopes whose memories are being embedded.
#[derive(Debug, Default)]
pub(super) struct Embedding {
    /// Whether something came in meanwhile, so that it is to be looked again.
    scopes: Mutex<HashMap<MemoryScope, bool>>,
    done: Notify,
}

impl Embedding {
    fn lock(&self) -> MutexGuard<'_, HashMap<MemoryScope, bool>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
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
    is_done: bool,
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
        is_done: false,
    };
    drop(runtime.spawn(task.work()));
}

impl<S: MemoryStore> Task<S> {
    async fn work(mut self) {
        loop {
            if let Err(error) = self.embed_all().await {
                let scope = &self.scope;
                tracing::warn!(%scope, %error, "memories stay without vectors for now");
            }
            if !self.embedding.again(&self.scope) {
                self.is_done = true;
                return;
            }
        }
    }

    async fn embed_all(&self) -> Result<(), MemoryError> {
        let mut after = 0;
        loop {
            let (scope, model) = (&self.scope, self.embedder.id());
            let lacking = self.store.without_embedding(scope, model, after, BATCH);
            let lacking = lacking.await?;
            let Some(last) = lacking.last() else {
                return Ok(());
            };
            after = last.about.seq;
            let vectors = self.embed(&lacking).await?;
            let set = self.store.set_embeddings(scope, Arc::new(vectors));
            set.await?;
        }
    }

    async fn embed(&self, records: &[MemoryRecord]) -> Result<Vec<NewEmbedding>, MemoryError> {
        let texts: Vec<String> = records.iter().map(|it| spoken_text(&it.content)).collect();
        let vectors = embed(&*self.embedder, &texts).await;
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

/// A vector a text, of the size that the embedder said; anything else is an error.
pub(crate) async fn embed(
    embedder: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, BoxError> {
    let vectors = embedder.embed(texts).await?;
    let (dims, asked, given) = (embedder.dims(), texts.len(), vectors.len());
    if given != asked {
        return Err(format!("the embedder gave {given} vectors for {asked} texts").into());
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
    tracing::warn!(
        error = answer,
        "a search goes by words only: its question has no vector"
    );
    Vec::new()
}
