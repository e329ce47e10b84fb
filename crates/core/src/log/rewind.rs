//! Rewind: history is taken back by appending, and the state becomes exactly what it was. What
//! happens to files is in `restore`.
//!
//! ADK forgets the state given at creation and leaves `null` where a key did not exist. Here the
//! stored event carries ADK's deltas, so that ADK's readers agree, and the state follows the log.

use std::{collections::HashMap, panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::timeout,
};

use super::{
    StoreSessionService, appended,
    restore::{Changed, Restored},
};
use crate::{
    error::{Conflict, Result, SessionError},
    event::Event,
    json::{Json, JsonMap},
    lease::LeaseUse,
    service::{Appended, Rewind, RunOptions, RunToken, RunUse, running, within_runs},
    session::{SessionKey, Window},
    state::{ScopedDelta, StateDelta},
    store::{Batch, Head, NewEvent, SessionStore, Want},
};

/// What a rewind goes by.
struct LookedBack {
    head: Head,
    /// The session's own keys.
    current: JsonMap,
    /// What they were.
    target: JsonMap,
    /// The files that are not what they were, if files are to be restored.
    files: Vec<Changed>,
}

/// Session keys to set or (`None`) to make absent.
pub(crate) type KeyChanges = Vec<(String, Option<Json>)>;

/// Says when the caller of a rewind has gone away.
struct Gone(oneshot::Receiver<()>);

impl Gone {
    /// Fails if nobody waits any more.
    fn check(&mut self, key: &SessionKey, turn: Option<RunToken>) -> Result<()> {
        match self.0.try_recv() {
            Err(TryRecvError::Closed) => Err(broken_off(key, turn)),
            _ => Ok(()),
        }
    }
}

/// What a rewind that nobody waits for ends with. Nobody sees it either.
fn broken_off(key: &SessionKey, turn: Option<RunToken>) -> SessionError {
    SessionError::RunLost {
        key: key.clone(),
        token: turn.map_or(0, |run| run.0),
    }
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Appends the event that takes back everything from the invocation on.
    ///
    /// In a task of its own: a caller who goes away must not leave a turn behind that was taken.
    pub(super) async fn rewind_before(&self, key: &SessionKey, rewind: Rewind) -> Result<Appended> {
        let (_caller, gone) = oneshot::channel();
        let (service, key) = (self.clone(), key.clone());
        let rewinding = async move {
            let mut gone = Gone(gone);
            let mut turn = None;
            let rewound = service.rewind_in_turn(&key, &rewind, &mut gone, &mut turn);
            match rewound.await {
                Err(error) => Err(service.give_up(&key, turn, error).await),
                done => done,
            }
        };
        match tokio::spawn(within_runs(running(), rewinding)).await {
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

    /// Looks, restores and appends, until nobody has appended in between. Takes the turn when there
    /// is something to wait for or to restore; the append gives it back.
    async fn rewind_in_turn(
        &self,
        key: &SessionKey,
        rewind: &Rewind,
        gone: &mut Gone,
        turn: &mut Option<RunToken>,
    ) -> Result<Appended> {
        let event = Event {
            author: "user".to_owned(),
            invocation_id: format!("e-{}", self.settings.ids.new_id()),
            ..Event::default()
        };
        let mut restored = Restored::default();
        loop {
            gone.check(key, *turn)?;
            let looked = self.look_back(key, rewind).await?;
            let files = match (&rewind.artifacts, *turn) {
                (Some(artifacts), Some(run)) => {
                    let restoring = restored.restore(&**artifacts, key, &looked.files);
                    self.while_holding(key, run, gone, restoring).await?
                }
                _ if looked.files.is_empty() => JsonMap::new(),
                // A run may change files as well, so the turn comes first.
                _ => {
                    *turn = Some(self.take_turn(key, RunOptions::default()).await?);
                    continue;
                }
            };
            let mut batch = Arc::new(self.rewind_batch(rewind, event.clone(), looked, files)?);
            let written = match *turn {
                None => {
                    let now_or_never = RunOptions {
                        wait: Duration::ZERO,
                    };
                    self.write_in_turn(key, &mut batch, None, now_or_never)
                        .await
                }
                Some(run) => self.write(key, &mut batch, RunUse::End(run)).await,
            };
            match written {
                // What is to be set is known only when it is our turn, so the turn comes first.
                Err(SessionError::RunBusy { .. }) if turn.is_none() => {
                    *turn = Some(self.take_turn(key, RunOptions::default()).await?);
                }
                // Somebody outside any run appended meanwhile.
                Err(error) if is_position_conflict(&error) => {}
                written => return appended(key, written?),
            }
        }
    }

    /// What is, and what was before the invocation. All of it belongs to one position.
    async fn look_back(&self, key: &SessionKey, rewind: &Rewind) -> Result<LookedBack> {
        let read = self.store.read(key, Window::NONE, Want::State).await?;
        let read = read.ok_or_else(|| SessionError::not_found(key))?;
        let invocation = &rewind.before_invocation_id;
        let first = self.store.first_of_invocation(key, invocation).await?;
        let first = first.ok_or_else(|| SessionError::InvocationNotFound {
            key: key.clone(),
            invocation_id: invocation.clone(),
        })?;
        let files = match rewind.artifacts {
            Some(_) => self.files_changed_since(&read.head, first).await?,
            None => Vec::new(),
        };
        Ok(LookedBack {
            target: self.store.state_at(key, first - 1).await?,
            current: read.state.session,
            head: read.head,
            files,
        })
    }

    /// The event that takes back everything from the invocation on, as of what was looked at.
    fn rewind_batch(
        &self,
        rewind: &Rewind,
        mut event: Event,
        looked: LookedBack,
        files: JsonMap,
    ) -> Result<Batch> {
        let LookedBack {
            current, target, ..
        } = &looked;
        event.actions.rewind_before_invocation_id = Some(rewind.before_invocation_id.clone());
        event.actions.state_delta = adk_delta(current, target);
        event.actions.artifact_delta = files;
        let mut ready = self.prepare(event)?;
        ready.changes.session = changes_to(current, target, &JsonMap::new());
        Ok(Batch {
            events: vec![ready],
            incarnation: Some(looked.head.incarnation),
            expected: Some(looked.head.position),
            lease: LeaseUse::Outside,
            state_bytes_max: self.settings.limits.state_bytes,
        })
    }

    /// Does `work`, however long it takes, without losing the turn; fails when nobody waits for it.
    async fn while_holding<T>(
        &self,
        key: &SessionKey,
        run: RunToken,
        gone: &mut Gone,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let ttl = self.settings.run_ttl;
        let mut work = pin!(work);
        loop {
            match timeout(ttl / 3, select(&mut work, &mut gone.0)).await {
                Ok(Either::Left((done, _))) => return done,
                Ok(Either::Right(_)) => return Err(broken_off(key, Some(run))),
                Err(_) => self.store.renew(key, run.0, Some(ttl)).await?,
            }
        }
    }

    /// Gives a turn that was taken back before an error is answered.
    async fn give_up(
        &self,
        key: &SessionKey,
        turn: Option<RunToken>,
        error: SessionError,
    ) -> SessionError {
        if let Some(run) = turn {
            // If this fails too, the lease ends by itself.
            let _ = self.store.renew(key, run.0, None).await;
        }
        error
    }

    /// Appends a batch that holds a rewind made elsewhere, by ADK itself for example.
    pub(super) async fn append_rewinding(
        &self,
        key: &SessionKey,
        incarnation: Option<u64>,
        mut events: Vec<NewEvent>,
        expected: Option<u64>,
        run: RunUse,
    ) -> Result<(Appended, Arc<Batch>)> {
        let (run, turn) = match run {
            RunUse::Begin(options) => {
                let turn = self.take_turn(key, options).await?;
                (RunUse::Within(turn), Some(turn))
            }
            run => (run, None),
        };
        loop {
            let read = self.store.read(key, Window::NONE, Want::State).await?;
            let read = read.ok_or_else(|| SessionError::not_found(key))?;
            self.follow(key, &mut events, read.state.session).await?;
            let mut batch = Arc::new(Batch {
                events: events.clone(),
                incarnation,
                expected: Some(expected.unwrap_or(read.head.position)),
                lease: LeaseUse::Outside,
                state_bytes_max: self.settings.limits.state_bytes,
            });
            match self.write(key, &mut batch, run).await {
                Err(error) if expected.is_none() && is_position_conflict(&error) => {}
                Err(error) => return Err(self.give_up(key, turn, error).await),
                Ok(written) => return Ok((appended(key, written)?, batch)),
            }
        }
    }

    /// Gives each event the changes that it makes to the state left by the one before.
    async fn follow(
        &self,
        key: &SessionKey,
        events: &mut [NewEvent],
        mut state: JsonMap,
    ) -> Result<()> {
        let ids: Vec<String> = events.iter().map(|new| new.event.id.clone()).collect();
        let known = self.store.positions_of(key, &ids).await?;
        // What the state was when an invocation of this very batch began.
        let mut begun: HashMap<String, JsonMap> = HashMap::new();
        for (new, known) in events.iter_mut().zip(known) {
            if known.is_some() {
                // A repeat: what it did is in the state already.
                continue;
            }
            let actions = &new.event.actions;
            let target = match &actions.rewind_before_invocation_id {
                Some(invocation) => match self.state_before(key, invocation).await? {
                    Some(target) => Some(target),
                    None => begun.get(invocation).cloned(),
                },
                None => None,
            };
            let delta = ScopedDelta::of(&actions.state_delta).session;
            new.changes.session = match target {
                Some(target) => changes_to(&state, &target, &delta),
                None => delta
                    .into_iter()
                    .map(|(key, value)| (key, Some(value)))
                    .collect(),
            };
            let invocation = new.event.invocation_id.clone();
            begun.entry(invocation).or_insert_with(|| state.clone());
            apply(&mut state, &new.changes.session);
        }
        Ok(())
    }

    /// The session's own keys before the first event of the invocation, if there is one.
    async fn state_before(&self, key: &SessionKey, invocation: &str) -> Result<Option<JsonMap>> {
        match self.store.first_of_invocation(key, invocation).await? {
            Some(first) => self.store.state_at(key, first - 1).await.map(Some),
            None => Ok(None),
        }
    }
}

fn is_position_conflict(error: &SessionError) -> bool {
    let position = |conflict: &Conflict| matches!(conflict, Conflict::Position { .. });
    matches!(error, SessionError::Conflict { conflict, .. } if position(conflict))
}

/// The delta as ADK writes it: keys that differ, then `null` for keys that did not exist.
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

/// What turns `current` into `target`, and then sets what `delta` adds to it. A `null` of the delta
/// is ADK's word for a key that did not exist, and says nothing that `target` does not.
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
    let gone = current.keys().filter(|key| !goal.contains_key(key));
    changes.extend(gone.map(|key| (key.to_owned(), None)));
    changes
}

/// Makes the changes.
pub(crate) fn apply(state: &mut JsonMap, changes: &KeyChanges) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(state.insert(key.as_str(), value.clone())),
            None => drop(state.remove(key)),
        }
    }
}
