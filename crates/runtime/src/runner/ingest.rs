//! What a run has said goes into the memory when the run is over, beside whatever comes next.
//!
//! The caller has the end of his run already. The memory takes up what it does not know yet, so a
//! run whose ingest fails is taken up with the next one.

use std::sync::Arc;

use retain_core::{MemoryService, Session, SessionKey};

use super::Inner;
use crate::error::Result;

/// The work on one session. If it breaks off, nobody waits for it any more.
struct Ingest {
    inner: Arc<Inner>,
    memory: Arc<dyn MemoryService>,
    key: SessionKey,
    is_done: bool,
}

impl Drop for Ingest {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.ingests.give_up(&self.key);
        }
    }
}

impl Inner {
    /// Adds the session to the memory later, if the runner is to. `session` is as the run left it,
    /// if the run had all of it.
    pub(super) fn ingest_later(self: &Arc<Self>, key: &SessionKey, session: Option<Session>) {
        let Some(memory) = self.memory.as_ref().filter(|_| self.ingests_turns) else {
            return;
        };
        if !self.ingests.begin(key) {
            return;
        }
        let ingest = Ingest {
            inner: Arc::clone(self),
            memory: Arc::clone(memory),
            key: key.clone(),
            is_done: false,
        };
        let runtime = tokio::runtime::Handle::try_current();
        match runtime.or_else(|_| super::own_runtime().cloned()) {
            Ok(runtime) => drop(runtime.spawn(ingest.work(session))),
            Err(error) => tracing::warn!(%error, "a session is not remembered"),
        }
    }
}

impl Ingest {
    async fn work(mut self, mut session: Option<Session>) {
        loop {
            if let Err(error) = self.add(session.take()).await {
                let session = &self.key;
                tracing::warn!(%session, %error, "a session could not be remembered");
            }
            // Another run may have ended meanwhile; what it said is in the log.
            if !self.inner.ingests.again(&self.key) {
                self.is_done = true;
                return;
            }
        }
    }

    async fn add(&self, session: Option<Session>) -> Result<()> {
        let session = match session {
            Some(session) => session,
            None => self.inner.whole_session(&self.key).await?,
        };
        Ok(self.memory.add_session_to_memory(&session).await?)
    }
}
