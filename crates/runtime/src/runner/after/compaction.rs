//! Summarizes a session after a run, in the background.
//!
//! The caller has already received the end of its run, and the next run may begin. The task appends
//! the summary outside any run, so it needs no lease. If the range was rewound or summarized
//! meanwhile, the task drops the summary.

use std::{collections::HashSet, sync::Arc};

use retain_core::{
    Append, Event, PendingWork, Session, SessionError, SessionKey, SessionWork, Window,
};

use tracing::{Instrument as _, Span};

use super::finished_work;
use crate::{
    compaction::{
        CompactionError, Compactor, sliding_window_range, summary_event, token_threshold_range,
    },
    contents::{ContentsOptions, valid_events},
    error::error_kind,
    runner::Inner,
    telemetry,
};

type Result<T, E = CompactionError> = std::result::Result<T, E>;

/// The maximum number of attempts to append a summary while other writers append.
const TRIES: usize = 100;

/// The work on one session. If the task is dropped, waiters no longer wait for it.
struct CompactionTask {
    inner: Arc<Inner>,
    key: SessionKey,
    is_done: bool,
}

impl Drop for CompactionTask {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.after_runs.remove(&self.key);
        }
    }
}

impl Inner {
    /// Starts a task that summarizes the session if a summary is due. `session` is the session at
    /// the end of the run, if the run had loaded all of it; `run` is the run's span.
    pub(crate) fn start_compaction(
        self: &Arc<Self>,
        key: &SessionKey,
        session: Option<Session>,
        run: &Span,
    ) {
        if self.compactor.is_none() || !self.after_runs.begin(key) {
            return;
        }
        let task = CompactionTask {
            inner: Arc::clone(self),
            key: key.clone(),
            is_done: false,
        };
        let runtime = tokio::runtime::Handle::try_current();
        match runtime.or_else(|_| crate::runner::own_runtime().cloned()) {
            Ok(runtime) => drop(runtime.spawn(task.run(session).instrument(run.clone()))),
            Err(error) => tracing::warn!(?error, "failed to summarize a session"),
        }
    }

    /// Summarizes the session if a summary is due, and records that this is done.
    pub(crate) async fn compact(&self, key: &SessionKey, session: Option<Session>) -> Result<()> {
        let compactor = self.compactor.as_deref();
        let compactor = compactor.ok_or(CompactionError::NotConfigured)?;
        let compaction = Compaction {
            inner: self,
            compactor,
            key,
        };
        if let Some(done) = compaction.run(session).await? {
            self.finish_work(&done).await;
        }
        Ok(())
    }
}

impl CompactionTask {
    async fn run(mut self, mut session: Option<Session>) {
        loop {
            if let Err(error) = self.inner.compact(&self.key, session.take()).await {
                let session = &self.key;
                tracing::warn!(kind = error_kind(&error), "failed to summarize a session");
                tracing::debug!(?session, error = ?error.to_string(), "failed to summarize a \
                                                                       session");
                self.inner.after_runs.record_failure(&self.key, error);
            }
            if !self.inner.after_runs.must_repeat(&self.key) {
                self.is_done = true;
                return;
            }
        }
    }
}

/// The compaction of one session.
struct Compaction<'a> {
    inner: &'a Inner,
    compactor: &'a Compactor,
    key: &'a SessionKey,
}

impl Compaction<'_> {
    /// Returns the finished work; `None` if the session no longer exists, or if other writers
    /// prevented the append of the summary.
    async fn run(&self, session: Option<Session>) -> Result<Option<SessionWork>> {
        let done = |session: &Session| Ok(Some(finished_work(session, PendingWork::COMPACTION)));
        let mut session = match session {
            Some(session) if self.range(&session).is_none() => return done(&session),
            // The session at the end of the run lacks events that other writers have appended.
            Some(mut session) => {
                self.inner.log.refresh(&mut session).await?;
                session
            }
            None => match self.inner.log.read(self.key, Window::ALL).await? {
                Some(session) => session,
                None => return Ok(None),
            },
        };
        let Some((trigger, range)) = self.range(&session) else {
            return done(&session);
        };
        let compactor = self.compactor;
        let span = telemetry::compaction(&self.key.id, trigger, compactor, range.len());
        let summary = compactor.summarize(&range).instrument(span.clone()).await;
        if let Err(error) = &summary {
            telemetry::mark_failed(&span, &error_kind(error));
        }
        let Some(summary) = summary? else {
            return done(&session);
        };
        let seen = session.events.len();
        let inner = &self.inner;
        let Some(event) = summary_event(&range, summary, &*inner.clock, &*inner.ids) else {
            return done(&session);
        };
        telemetry::record_compaction(&span, &event);
        drop(span);
        // The append fails if another writer has appended since the refresh.
        for _ in 0..TRIES {
            self.inner.log.refresh(&mut session).await?;
            if !is_still_valid(&session, seen, &range, &event) {
                let key = self.key;
                tracing::debug!(
                    session = ?key,
                    "discarded a summary: the session changed in the meantime"
                );
                return done(&session);
            }
            let append = Append::from(event.clone()).expecting(session.position);
            match self.inner.log.append(self.key, append).await {
                Err(SessionError::Conflict { .. }) => {}
                Ok(_) => return done(&session),
                Err(error) => return Err(error.into()),
            }
        }
        let session = self.key;
        tracing::debug!(
            ?session,
            "discarded a summary: other writers kept appending to the session"
        );
        Ok(None)
    }

    /// Returns the events to summarize, and the trigger. The token threshold takes precedence over
    /// the sliding window.
    fn range(&self, session: &Session) -> Option<(&'static str, Vec<Arc<Event>>)> {
        let (threshold, window) = (&self.compactor.threshold, &self.compactor.window);
        let any_agent = ContentsOptions::default();
        let threshold = threshold.as_ref();
        let too_long = threshold
            .and_then(|threshold| token_threshold_range(&session.events, threshold, &any_agent));
        match too_long {
            Some(range) => Some(("token_threshold", range)),
            None => {
                let range = sliding_window_range(&session.events, window.as_ref()?)?;
                Some(("sliding_window", range))
            }
        }
    }
}

/// Whether a summary of `range` is still valid: none of its events was rewound, and no event after
/// the first `seen` summarizes any of them.
fn is_still_valid(session: &Session, seen: usize, range: &[Arc<Event>], summary: &Event) -> bool {
    let valid = valid_events(&session.events);
    let valid: HashSet<&str> = valid.iter().map(|event| event.id.as_str()).collect();
    // The earlier summary in `range` has no id, because it is not an event of the log.
    let stored = range.iter().filter(|event| !event.id.is_empty());
    let is_rewound = stored
        .clone()
        .any(|event| !valid.contains(event.id.as_str()));
    let Some(span) = &summary.actions.compaction else {
        return false;
    };
    let new = session.events.iter().skip(seen);
    let new = new.filter(|event| event.isolation_scope == summary.isolation_scope);
    let mut summaries = new.filter_map(|event| event.actions.compaction.as_ref());
    let is_summarized = summaries.any(|other| {
        other.start_timestamp <= span.end_timestamp && span.start_timestamp <= other.end_timestamp
    });
    !is_rewound && !is_summarized
}
