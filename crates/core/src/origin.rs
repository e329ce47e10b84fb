//! `SessionOrigin`: the session on whose behalf a memory or an artifact is written.
//!
//! An erase deletes the user's sessions, then counts one more erasure in every other store, then
//! deletes the data there. A write for a session reads the count, checks that the session still
//! exists, and is refused by the store if the count has changed since. So the write comes before the
//! deletion, or it is refused.

use std::sync::Arc;

use crate::{
    error::Result,
    service::SessionLog,
    session::{Session, SessionKey},
};

/// A session that writes memories or artifacts.
#[derive(Debug, Clone)]
pub struct SessionOrigin {
    log: Arc<dyn SessionLog>,
    key: SessionKey,
    incarnation: u64,
}

impl SessionOrigin {
    /// Names `session` of `log`. Returns `None` for a session that `log` did not load.
    pub fn new(log: &Arc<dyn SessionLog>, session: &Session) -> Option<SessionOrigin> {
        (session.incarnation != 0).then(|| SessionOrigin {
            log: Arc::clone(log),
            key: session.key(),
            incarnation: session.incarnation,
        })
    }

    /// Its address.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Whether the session still exists. A later session with the same id is another one.
    pub async fn exists(&self) -> Result<bool> {
        self.log.session_exists(&self.key, self.incarnation).await
    }
}
