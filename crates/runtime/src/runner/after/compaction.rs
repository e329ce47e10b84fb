//! Summaries that are made when a run is over, beside whatever comes next.
//!
//! The caller has the end of his run already, and the next run may begin. The summary is appended
//! outside any run, so that it is in nobody's way; what was rewound or summed up meanwhile makes it
//! worthless, and then it is dropped.

use std::{collections::HashSet, sync::Arc};

use retain_core::{Append, Event, Session, SessionError, SessionKey, Window};
use tracing::{Instrument as _, Span};

use crate::{
    compaction::{
        CompactionError, Compactor, overlay, sliding_window_range, token_threshold_range,
    },
    contents::{ContentsOptions, valid_events},
    error::error_kind,
    runner::Inner,
    telemetry,
};

type Result<T, E = CompactionError> = std::result::Result<T, E>;

/// How often a summary is tried to be appended while others append.
const TRIES: usize = 100;

/// The work on one session. If it breaks off, nobody waits for it any more.
struct Task {
    inner: Arc<Inner>,
    compactor: Arc<Compactor>,
    key: SessionKey,
    is_done: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_done {
            self.inner.after_runs.give_up(&self.key);
        }
    }
}

impl Inner {
    /// Sees later whether the session is to be summed up. `session` is as the run left it, if the
    /// run had all of it; `run` is the run's span.
    pub(crate) fn compact_later(
        self: &Arc<Self>,
        key: &SessionKey,
        session: Option<Session>,
        run: &Span,
    ) {
        let Some(compactor) = &self.compactor else {
            return;
        };
        if !self.after_runs.begin(key) {
            return;
        }
        let task = Task {
            inner: Arc::clone(self),
            compactor: Arc::clone(compactor),
            key: key.clone(),
            is_done: false,
        };
        let runtime = tokio::runtime::Handle::try_current();
        match runtime.or_else(|_| crate::runner::own_runtime().cloned()) {
            Ok(runtime) => drop(runtime.spawn(task.work(session).instrument(run.clone()))),
            Err(error) => tracing::warn!(?error, "a session is not summed up"),
        }
    }
}

impl Task {
    async fn work(mut self, mut session: Option<Session>) {
        loop {
            if let Err(error) = self.compact(session.take()).await {
                let session = &self.key;
                tracing::warn!(
                    kind = error_kind(&error),
                    "a session could not be summed up"
                );
                tracing::debug!(?session, error = ?error.to_string(), "a session could not be summed up");
                self.inner.after_runs.failed(&self.key, error);
            }
            if !self.inner.after_runs.again(&self.key) {
                self.is_done = true;
                return;
            }
        }
    }

    async fn compact(&self, session: Option<Session>) -> Result<()> {
        let mut session = match session {
            Some(session) if self.range(&session).is_none() => return Ok(()),
            // A run knows its own events, and not those that others appended meanwhile.
            Some(mut session) => {
                self.inner.log.refresh(&mut session).await?;
                session
            }
            None => self.inner.read_session(&self.key, Window::ALL).await?,
        };
        let Some((trigger, range)) = self.range(&session) else {
            return Ok(());
        };
        let compactor = &self.compactor;
        let span = telemetry::compaction(&self.key.id, trigger, compactor, range.len());
        let summary = compactor.summary(&range).instrument(span.clone()).await;
        if let Err(error) = &summary {
            telemetry::failed(&span, &error_kind(error));
        }
        let Some(summary) = summary? else {
            return Ok(());
        };
        let seen = session.events.len();
        let inner = &self.inner;
        let Some(event) = overlay(&range, summary, &*inner.clock, &*inner.ids) else {
            return Ok(());
        };
        telemetry::compaction_made(&span, &event);
        drop(span);
        // Between a look at the log and the append nobody else may have appended.
        for _ in 0..TRIES {
            self.inner.log.refresh(&mut session).await?;
            if !is_still_good(&session, seen, &range, &event) {
                let session = &self.key;
                tracing::debug!(?session, "a summary came too late and is dropped");
                return Ok(());
            }
            let append = Append::from(event.clone()).expecting(session.position);
            match self.inner.log.append(&self.key, append).await {
                Err(SessionError::Conflict { .. }) => {}
                appended => return Ok(appended.map(drop)?),
            }
        }
        let session = &self.key;
        tracing::debug!(
            ?session,
            "a session is too busy for its summary, which is dropped"
        );
        Ok(())
    }

    /// What is to be summed up, and why: a prompt that is too long comes first.
    fn range(&self, session: &Session) -> Option<(&'static str, Vec<Arc<Event>>)> {
        let (threshold, window) = (&self.compactor.threshold, &self.compactor.window);
        let anybody = ContentsOptions::default();
        let threshold = threshold.as_ref();
        let too_long = threshold
            .and_then(|threshold| token_threshold_range(&session.events, threshold, &anybody));
        match too_long {
            Some(range) => Some(("token_threshold", range)),
            None => {
                let range = sliding_window_range(&session.events, window.as_ref()?)?;
                Some(("sliding_window", range))
            }
        }
    }
}

/// Whether a summary of `range` is worth storing: nothing of it was rewound, and no summary of any
/// of it came behind the first `seen` events.
fn is_still_good(session: &Session, seen: usize, range: &[Arc<Event>], summary: &Event) -> bool {
    let valid = valid_events(&session.events);
    let valid: HashSet<&str> = valid.iter().map(|event| event.id.as_str()).collect();
    // The summary so far is in no log as an event of its own.
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
    let is_summed_up = summaries.any(|other| {
        other.start_timestamp <= span.end_timestamp && span.start_timestamp <= other.end_timestamp
    });
    !is_rewound && !is_summed_up
}
