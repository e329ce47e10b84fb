//! Runs take turns: who begins one waits here until the session is free.
//!
//! Callers of one process queue in order; the first in line asks the store, and leaves a ticket
//! there when another process is ahead. The lease itself is taken with the append of the run's
//! first events, so that a turn without contention costs nothing extra.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::StoreSessionService;
use crate::{
    error::{Result, SessionError},
    given_up::{given_up, is_given_up},
    lease::LeaseUse,
    service::{RunOptions, RunToken, check_not_nested},
    session::SessionKey,
    store::{Batch, SessionStore, Written},
};

/// How often the store is asked again when nobody in this process says that the session is free.
const POLL: Duration = Duration::from_millis(50);

/// The queues of this process, one a session that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<SessionKey, Arc<Semaphore>>>);

/// The place at the head of a queue.
struct Turn<'a> {
    turns: &'a Turns,
    key: SessionKey,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits in line.
    async fn next(&self, key: &SessionKey) -> Turn<'_> {
        let queue = Arc::clone(self.map().entry(key.clone()).or_insert_with(|| {
            // Fair: permits are given in the order they were asked for.
            Arc::new(Semaphore::new(1))
        }));
        let mut turn = Turn {
            turns: self,
            key: key.clone(),
            permit: None,
        };
        // The semaphore is never closed.
        turn.permit = queue.acquire_owned().await.ok();
        turn
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<SessionKey, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut map = self.turns.map();
        // Only the map holds it: nobody stands in this queue any more.
        if map
            .get(&self.key)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            map.remove(&self.key);
        }
    }
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Writes the batch as the first of a run that keeps the session for `ttl`, or (`None`) as a
    /// run of its own, when the session is free.
    pub(super) async fn write_in_turn(
        &self,
        key: &SessionKey,
        batch: &mut Arc<Batch>,
        ttl: Option<Duration>,
        options: RunOptions,
    ) -> Result<Written> {
        check_not_nested(key)?;
        let started = Instant::now();
        // Far enough away for any wait that somebody can mean.
        let deadline = started + options.wait.min(Duration::from_secs(365 * 24 * 3600));
        let busy = |started: Instant| SessionError::RunBusy {
            key: key.clone(),
            waited: started.elapsed(),
        };
        // Without a ticket the first try queues nobody, so that a refusal leaves no trace.
        Arc::make_mut(batch).lease = LeaseUse::Take {
            ticket: String::new(),
            ttl,
        };
        if options.wait.is_zero() {
            return match self.store.append(key, batch).await? {
                Written::Busy { .. } => Err(busy(started)),
                done => Ok(done),
            };
        }
        let turn = pin!(timeout_at(deadline, self.turns.next(key)));
        // Who is given up is asked first: it must not begin because its turn has come, too.
        let _turn = match select(pin!(given_up()), turn).await {
            Either::Right((Ok(turn), _)) => turn,
            _ => return Err(busy(started)),
        };
        let ticket = self.settings.ids.new_id();
        loop {
            if is_given_up() {
                self.store.withdraw(key, &ticket).await?;
                return Err(busy(started));
            }
            let (until_us, now_us) = match self.store.append(key, batch).await {
                Ok(Written::Busy { until_us, now_us }) => (until_us, now_us),
                Ok(done) => return Ok(done),
                Err(error) => {
                    // Whoever tries again must not queue behind himself.
                    let _ = self.store.withdraw(key, &ticket).await;
                    return Err(error);
                }
            };
            if Instant::now() >= deadline {
                self.store.withdraw(key, &ticket).await?;
                return Err(busy(started));
            }
            Arc::make_mut(batch).lease = LeaseUse::Take {
                ticket: ticket.clone(),
                ttl,
            };
            let until_free = match until_us.saturating_sub(now_us) {
                // Free, but somebody else is first in line.
                ..=0 => POLL,
                us => Duration::from_micros(us.unsigned_abs()).min(POLL),
            };
            let pause = until_free.min(deadline - Instant::now());
            // Whether somebody rang, gave up or the time was up, the store is asked again.
            let rung = self.store.changed(key, u64::MAX);
            let _ = timeout(pause, select(pin!(given_up()), pin!(rung))).await;
        }
    }

    /// Waits for its turn and begins a run that has nothing to write yet.
    pub(super) async fn take_turn(
        &self,
        key: &SessionKey,
        options: RunOptions,
    ) -> Result<RunToken> {
        let mut batch = Arc::new(Batch {
            events: Vec::new(),
            incarnation: None,
            expected: None,
            lease: LeaseUse::Outside,
            state_bytes_max: self.settings.limits.state_bytes,
        });
        let ttl = Some(self.settings.run_ttl);
        match self.write_in_turn(key, &mut batch, ttl, options).await? {
            Written::Done {
                token: Some(token), ..
            } => Ok(RunToken(token)),
            _ => Err(SessionError::not_found(key)),
        }
    }
}
