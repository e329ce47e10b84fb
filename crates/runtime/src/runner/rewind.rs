//! Rewinds a session: appends an event that undoes a run and everything after it.

use retain_core::{Event, Rewind, SessionError, SessionKey};

use super::Runner;
use crate::error::Result;

impl Runner {
    /// Undoes the run and everything after it: the next run does not see those events, and the
    /// session's own state keys and artifacts get their earlier values. Returns the event that
    /// records the rewind.
    ///
    /// Nothing is deleted; `app:` and `user:` keys and `user:` artifacts stay.
    ///
    /// Waits for a run of the session to end. Needs a session service that has a log. If it fails,
    /// rewind again: see [`SessionLog::rewind_with`](retain_core::SessionLog::rewind_with).
    pub async fn rewind(
        &self,
        user_id: &str,
        session_id: &str,
        before_invocation_id: &str,
    ) -> Result<Event> {
        let rewind = Rewind::before(before_invocation_id);
        self.rewind_with(user_id, session_id, rewind).await
    }

    /// Like [`rewind`](Self::rewind), with options for waiting for the lease. A tool that rewinds
    /// passes its context's [`run_options`](crate::ReadonlyContext::run_options).
    ///
    /// The runner's artifact service restores the artifacts, unless `rewind` names another one.
    pub async fn rewind_with(
        &self,
        user_id: &str,
        session_id: &str,
        mut rewind: Rewind,
    ) -> Result<Event> {
        let key = SessionKey::new(self.app_name(), user_id, session_id);
        rewind.options.check_not_nested(&key)?;
        let invocation_id = rewind.before_invocation_id.clone();
        rewind.artifacts = rewind.artifacts.or_else(|| self.inner.artifacts.clone());
        let rewound = self.inner.log.rewind_with(&key, rewind).await;
        // Evict after an error too, because the store may have written the event nevertheless.
        self.inner.session_cache.evict(&key);
        let event = rewound?.events.into_iter().next();
        let Some((_, event)) = event else {
            return Err(SessionError::InvocationNotFound { key, invocation_id }.into());
        };
        Ok(std::sync::Arc::unwrap_or_clone(event))
    }
}
