//! The implementation that `append_event`, `append_event_locked`, `append` and `append_live` share.

use std::sync::{Arc, atomic::Ordering};

use super::{StoreSessionService, to_receipt};
use crate::{
    error::{Result, SessionError},
    event::Event,
    lease::LeaseUse,
    limits::{self, LimitKind},
    service::{Append, AppendReceipt, RunToken, RunUse},
    session::{Session, SessionKey, StoredEvent},
    store::{AppendOutcome, Batch, SessionStore},
};

/// Stored events, with the changes that a live session applies.
#[derive(Debug, Default)]
pub(super) struct StoredBatch {
    events: Vec<StoredEvent>,
    run: Option<RunToken>,
}

impl StoredBatch {
    /// Applies the events to a live session.
    pub(super) fn apply_to(&self, session: &mut Session) {
        self.events.iter().for_each(|stored| session.apply(stored));
    }

    /// Returns the first event as stored.
    pub(super) fn into_event(self, key: &SessionKey) -> Result<Event> {
        let first = self.events.into_iter().next();
        let first = first.ok_or_else(|| SessionError::not_found(key))?;
        Ok(Arc::unwrap_or_clone(first.event))
    }
}

impl From<StoredBatch> for AppendReceipt {
    fn from(stored: StoredBatch) -> AppendReceipt {
        let events = stored.events.into_iter();
        AppendReceipt {
            events: events
                .map(|stored| (stored.position, stored.event))
                .collect(),
            run: stored.run,
        }
    }
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Appends the events that are not partial, all or none. An `incarnation` of 0 means any.
    pub(super) async fn append_events(
        &self,
        key: &SessionKey,
        incarnation: u64,
        append: Append,
    ) -> Result<StoredBatch> {
        self.settings.limits.check_key(key)?;
        let mut events = append.events;
        events.retain(|event| !event.is_partial());
        let limit = self.settings.limits.batch_events;
        limits::check(LimitKind::Batch, events.len(), limit)?;
        if events.is_empty() && matches!(append.run, RunUse::Outside) {
            return Ok(StoredBatch::default());
        }
        let rewinds = |event: &Event| event.actions.rewind_before_invocation_id.is_some();
        let has_rewind = events.iter().any(rewinds);
        let prepared = events.into_iter().map(|event| self.prepare(event));
        let prepared = prepared.collect::<Result<Vec<_>>>()?;
        let (ready, temps): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
        let batch = Batch {
            events: ready,
            // Callers know the incarnation only if they read the session from a store.
            incarnation: Some(incarnation).filter(|it| *it != 0),
            expected: append.expected,
            lease: LeaseUse::Outside,
            pending_work: append.pending_work,
            state_bytes_max: self.settings.limits.state_bytes,
            rooms: Vec::new(),
        };
        let mut batch = Arc::new(batch);
        let written = if has_rewind {
            self.write_with_rewind(key, &mut batch, append.run).await?
        } else {
            self.write(key, &mut batch, append.run).await?
        };
        let AppendReceipt { events, run } = to_receipt(key, written)?;
        self.count_appended(events.len());
        let stored = events.into_iter().zip(&batch.events).zip(temps);
        let stored = stored.map(|(((position, event), new), temp)| StoredEvent {
            position,
            event,
            temp,
            changes: new.changes.session.clone(),
        });
        Ok(StoredBatch {
            events: stored.collect(),
            run,
        })
    }

    pub(super) fn count_appended(&self, count: usize) {
        self.appended.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Passes the batch to the store with the lease that `run` implies.
    pub(super) async fn write(
        &self,
        key: &SessionKey,
        batch: &mut Arc<Batch>,
        run: RunUse,
    ) -> Result<AppendOutcome> {
        let ttl = Some(self.settings.run_ttl);
        let lease = match run {
            RunUse::Begin(options) => {
                return self.write_with_lease(key, batch, ttl, &options).await;
            }
            RunUse::Outside => LeaseUse::Outside,
            RunUse::Within(RunToken(token)) => LeaseUse::Hold { token, ttl },
            RunUse::End(RunToken(token)) => LeaseUse::Hold { token, ttl: None },
        };
        if lease != LeaseUse::Outside {
            Arc::make_mut(batch).lease = lease;
        }
        self.append_within_quotas(key, batch).await
    }
}
