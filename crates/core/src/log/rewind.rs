//! Rewind: undoes part of the history by appending an event, and restores the state exactly. The
//! `restore` module handles artifacts.
//!
//! ADK's rewind ignores the initial state and sets keys that did not exist to `null`. Here the
//! stored event carries ADK's delta, so that ADK can read it, but the state is restored from the
//! log.

use std::{collections::HashMap, panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::timeout;

use super::{
    StoreSessionService, find_invocation_start, read_state_at,
    restore::{ChangedArtifact, RestoredArtifacts},
    to_receipt,
};
use crate::{
    error::{Conflict, Result, SessionError},
    event::Event,
    json::{Json, JsonMap},
    lease::LeaseUse,
    maintenance::PendingWork,
    service::{AppendReceipt, Rewind, RunToken, RunUse},
    session::{SessionKey, Window},
    state::{ScopedDelta, StateDelta},
    store::{AppendOutcome, Batch, EventLookup, Head, NewEvent, ReadDetail, SessionStore},
};

/// The data from which a rewind is computed.
struct RewindInput {
    head: Head,
    /// The session's own current state.
    current: JsonMap,
    /// The session's own state to restore.
    target: JsonMap,
    /// The artifacts that have changed since the target state; empty unless artifacts must be
    /// restored.
    files: Vec<ChangedArtifact>,
}

/// State keys to set, or (`None`) to remove.
pub(crate) type KeyChanges = Vec<(String, Option<Json>)>;

impl<S: SessionStore> StoreSessionService<S> {
    /// Appends the event that undoes everything since the invocation.
    ///
    /// Runs in its own task, so that a disconnected caller leaves no lease behind.
    pub(super) async fn rewind_before(
        &self,
        key: &SessionKey,
        mut rewind: Rewind,
    ) -> Result<AppendReceipt> {
        let cancel = rewind.options.cancel.child_token();
        // Dropping this future cancels the task.
        let _caller = cancel.clone().drop_guard();
        rewind.options.cancel = cancel;
        let (service, key) = (self.clone(), key.clone());
        let rewinding = async move {
            let mut lease = None;
            let rewound = service.rewind_with_lease(&key, &rewind, &mut lease);
            match rewound.await {
                Err(error) => Err(service.release_after(&key, lease, error).await),
                done => done,
            }
        };
        match tokio::spawn(rewinding).await {
            Ok(rewound) => rewound,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(ended) => Err(SessionError::Store {
                    store: self.store.name(),
                    operation: "rewind",
                    source: ended.into(),
                }),
            },
        }
    }

    /// Reads, restores and appends, and starts over if another append was stored in between. Takes
    /// the lease if it must wait for a run or restore artifacts; the append releases it.
    async fn rewind_with_lease(
        &self,
        key: &SessionKey,
        rewind: &Rewind,
        lease: &mut Option<RunToken>,
    ) -> Result<AppendReceipt> {
        let options = &rewind.options;
        let event = Event {
            author: "user".to_owned(),
            invocation_id: format!("e-{}", self.settings.ids.new_id()),
            ..Event::default()
        };
        let mut restored = RestoredArtifacts::default();
        loop {
            options.check_not_cancelled(key)?;
            let input = self.read_rewind_input(key, rewind).await?;
            let files = match (&rewind.artifacts, *lease) {
                (Some(artifacts), Some(run)) => {
                    let restoring = restored.restore(&**artifacts, key, &input.files);
                    self.renew_while(key, run, rewind, restoring).await?
                }
                _ if input.files.is_empty() => JsonMap::new(),
                // A concurrent run could change the artifacts, so take the lease first.
                _ => {
                    *lease = Some(self.take_lease(key, options).await?);
                    continue;
                }
            };
            let mut batch = Arc::new(self.rewind_batch(rewind, event.clone(), input, files)?);
            let written = match *lease {
                None => {
                    let at_once = options.clone().with_wait(Duration::ZERO);
                    self.write_with_lease(key, &mut batch, None, &at_once).await
                }
                Some(run) => self.write(key, &mut batch, RunUse::End(run)).await,
            };
            match written {
                // The other run could change what this rewind has read, so wait for the lease and
                // read again.
                Err(SessionError::RunBusy { .. }) if lease.is_none() => {
                    *lease = Some(self.take_lease(key, options).await?);
                }
                // An append outside any run was stored in between.
                Err(error) if is_position_conflict(&error) => {}
                written => return to_receipt(key, written?),
            }
        }
    }

    /// Reads the current state, the earlier state and the changed artifacts, all as of one
    /// position.
    async fn read_rewind_input(&self, key: &SessionKey, rewind: &Rewind) -> Result<RewindInput> {
        let read = self
            .store
            .read(key, Window::NONE, ReadDetail::State)
            .await?;
        let read = read.ok_or_else(|| SessionError::not_found(key))?;
        let invocation = &rewind.before_invocation_id;
        let first = find_invocation_start(&*self.store, key, invocation).await?;
        let first = first.ok_or_else(|| SessionError::InvocationNotFound {
            key: key.clone(),
            invocation_id: invocation.clone(),
        })?;
        let files = match rewind.artifacts {
            Some(_) => self.artifacts_changed_since(&read.head, first).await?,
            None => Vec::new(),
        };
        Ok(RewindInput {
            target: self.own_state_at(key, first - 1).await?,
            current: read.state.session,
            head: read.head,
            files,
        })
    }

    /// Builds the batch that undoes everything since the invocation.
    fn rewind_batch(
        &self,
        rewind: &Rewind,
        mut event: Event,
        input: RewindInput,
        files: JsonMap,
    ) -> Result<Batch> {
        let RewindInput {
            current, target, ..
        } = &input;
        event.actions.rewind_before_invocation_id = Some(rewind.before_invocation_id.clone());
        event.actions.state_delta = adk_delta(current, target);
        event.actions.artifact_delta = files;
        let (mut ready, _) = self.prepare(event)?;
        ready.changes.session = changes_to(current, target, &JsonMap::new());
        Ok(Batch {
            events: vec![ready],
            incarnation: Some(input.head.incarnation),
            expected: Some(input.head.position),
            lease: LeaseUse::Outside,
            pending_work: PendingWork::NONE,
            state_bytes_max: self.settings.limits.state_bytes,
            rooms: Vec::new(),
        })
    }

    /// Renews the lease while `work` is in progress. Fails if the rewind is cancelled.
    async fn renew_while<T>(
        &self,
        key: &SessionKey,
        run: RunToken,
        rewind: &Rewind,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let ttl = self.settings.run_ttl;
        let mut work = pin!(work);
        loop {
            let cancelled = pin!(rewind.options.cancel.cancelled());
            match timeout(ttl / 3, select(&mut work, cancelled)).await {
                Ok(Either::Left((done, _))) => return done,
                Ok(Either::Right(_)) => return Err(SessionError::Cancelled { key: key.clone() }),
                Err(_) => self.renew(key, run, Some(ttl)).await?,
            }
        }
    }

    /// Releases the lease if one was taken, and returns the error.
    async fn release_after(
        &self,
        key: &SessionKey,
        lease: Option<RunToken>,
        error: SessionError,
    ) -> SessionError {
        if let Some(run) = lease {
            // If this fails too, the lease expires.
            let _ = self.renew(key, run, None).await;
        }
        error
    }

    /// Writes a batch with a rewind event that another program created, such as ADK.
    pub(super) async fn write_with_rewind(
        &self,
        key: &SessionKey,
        batch: &mut Arc<Batch>,
        run: RunUse,
    ) -> Result<AppendOutcome> {
        let (run, lease) = match run {
            RunUse::Begin(options) => {
                let lease = self.take_lease(key, &options).await?;
                (RunUse::Within(lease), Some(lease))
            }
            run => (run, None),
        };
        let expected = batch.expected;
        loop {
            let written = async {
                let read = self
                    .store
                    .read(key, Window::NONE, ReadDetail::State)
                    .await?;
                let read = read.ok_or_else(|| SessionError::not_found(key))?;
                let changed = Arc::make_mut(batch);
                changed.expected = Some(expected.unwrap_or(read.head.position));
                let events = &mut changed.events;
                self.compute_changes(key, events, read.state.session)
                    .await?;
                self.write(key, batch, run.clone()).await
            };
            match written.await {
                Err(error) if expected.is_none() && is_position_conflict(&error) => {}
                Err(error) => return Err(self.release_after(key, lease, error).await),
                written => return written,
            }
        }
    }

    /// Computes the changes of each event relative to the state after the previous one.
    async fn compute_changes(
        &self,
        key: &SessionKey,
        events: &mut [NewEvent],
        mut state: JsonMap,
    ) -> Result<()> {
        let ids = events.iter().map(|new| new.event.id.clone());
        let lookup = EventLookup::Ids(ids.collect());
        let stored = self.store.find_events(key, &lookup).await?;
        // The state before the first event of each invocation in this batch.
        let mut states_before: HashMap<String, JsonMap> = HashMap::new();
        for (new, stored) in events.iter_mut().zip(stored) {
            if stored.is_some() {
                // A repeated event: the state already reflects it.
                continue;
            }
            let actions = &new.event.actions;
            let target = match &actions.rewind_before_invocation_id {
                Some(invocation) => match self.state_before(key, invocation).await? {
                    Some(target) => Some(target),
                    None => states_before.get(invocation).cloned(),
                },
                None => None,
            };
            let delta = ScopedDelta::from_delta(&actions.state_delta).session;
            new.changes.session = match target {
                Some(target) => changes_to(&state, &target, &delta),
                None => delta
                    .into_iter()
                    .map(|(key, value)| (key, Some(value)))
                    .collect(),
            };
            let invocation = new.event.invocation_id.clone();
            states_before
                .entry(invocation)
                .or_insert_with(|| state.clone());
            apply(&mut state, &new.changes.session);
        }
        Ok(())
    }

    async fn own_state_at(&self, key: &SessionKey, position: u64) -> Result<JsonMap> {
        let state = read_state_at(&*self.store, key, position).await?;
        Ok(state.session)
    }

    /// Returns the session's own state before the first event of the invocation, if the log has
    /// one.
    async fn state_before(&self, key: &SessionKey, invocation: &str) -> Result<Option<JsonMap>> {
        match find_invocation_start(&*self.store, key, invocation).await? {
            Some(first) => self.own_state_at(key, first - 1).await.map(Some),
            None => Ok(None),
        }
    }
}

fn is_position_conflict(error: &SessionError) -> bool {
    let position = |conflict: &Conflict| matches!(conflict, Conflict::Position { .. });
    matches!(error, SessionError::Conflict { conflict, .. } if position(conflict))
}

/// Returns the delta as ADK writes it: keys that differ, then `null` for keys that did not exist.
fn adk_delta(current: &JsonMap, target: &JsonMap) -> StateDelta {
    let mut delta = StateDelta::new();
    for (key, value) in target {
        if current.get(key) != Some(value) {
            delta.insert(key, value.clone());
        }
    }
    for key in current.keys() {
        if !target.contains_key(key) {
            delta.insert(key, Json::Null);
        }
    }
    delta
}

/// Returns the changes that turn `current` into `target` and then apply `delta`. Skips each `null`
/// of `delta`: ADK writes it for a key that did not exist, which `target` already covers.
pub(crate) fn changes_to(current: &JsonMap, target: &JsonMap, delta: &JsonMap) -> KeyChanges {
    let mut goal = target.clone();
    for (key, value) in delta {
        if !value.is_null() {
            goal.insert(key, value.clone());
        }
    }
    let differs = |(key, value): &(&str, &Json)| current.get(key) != Some(*value);
    let set = goal.iter().filter(differs);
    let mut changes: KeyChanges = set.map(|(k, v)| (k.to_owned(), Some(v.clone()))).collect();
    let removed = current.keys().filter(|key| !goal.contains_key(key));
    changes.extend(removed.map(|key| (key.to_owned(), None)));
    changes
}

/// Applies the changes to `state`.
pub(crate) fn apply(state: &mut JsonMap, changes: &KeyChanges) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(state.insert(key.as_str(), value.clone())),
            None => drop(state.remove(key)),
        }
    }
}
