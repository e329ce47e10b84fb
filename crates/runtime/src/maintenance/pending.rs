//! Pending work: finds the sessions, and does their work with the runners of their apps.

use std::{
    collections::HashMap,
    sync::{MutexGuard, PoisonError},
};

use futures_util::{StreamExt as _, stream};
use retain_core::{BoxError, MaintenanceStore, SessionError, SessionWork};

use super::{Maintenance, MaintenanceReport};
use crate::{error::error_kind, runner::Runner};

/// Number of sessions per read.
const PAGE: usize = 64;

/// Maximum number of sessions whose work is done concurrently.
const CONCURRENT: usize = 8;

/// Maximum number of runs of the maintenance that are skipped after repeated failures.
const SKIPS_MAX: u32 = 64;

/// Sessions whose work has failed, by incarnation.
pub(super) type Failures = HashMap<u64, Failure>;

/// The failures of one session's work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    /// The position of the work. Later work is tried at once.
    position: u64,
    /// Number of runs of the maintenance to skip after the last failure.
    skips: u32,
    /// Number of runs of the maintenance that are still to be skipped.
    skips_left: u32,
    /// Whether the session was among those with pending work in the current run.
    is_current: bool,
}

impl Maintenance {
    /// Does the pending work of all sessions.
    pub(super) async fn do_pending_work(
        &self,
        store: &dyn MaintenanceStore,
        report: &mut MaintenanceReport,
    ) -> Result<(), SessionError> {
        if self.runners.is_none() {
            return Ok(());
        }
        let (mut after, mut runners) = (0, HashMap::new());
        loop {
            let page = store.pending_work(after, PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map_or(after, |work| work.incarnation);
            self.do_page(page, &mut runners, report).await;
            if is_last {
                break;
            }
        }
        // Forget sessions whose work was finished elsewhere, or that were deleted.
        self.failures()
            .retain(|_, failure| std::mem::take(&mut failure.is_current));
        for (app, sessions) in &report.unserved {
            tracing::warn!(
                app,
                sessions,
                "work of an app without a runner stays pending"
            );
        }
        Ok(())
    }

    async fn do_page(
        &self,
        page: Vec<SessionWork>,
        runners: &mut HashMap<String, Result<Option<Runner>, String>>,
        report: &mut MaintenanceReport,
    ) {
        let mut ready = Vec::with_capacity(page.len());
        for work in page {
            if self.is_postponed(&work) {
                report.postponed += 1;
                continue;
            }
            let app = &work.key.app;
            if !runners.contains_key(app) {
                runners.insert(app.clone(), self.find_runner(app).await);
            }
            match runners.get(app) {
                Some(Ok(Some(runner))) => ready.push((runner.clone(), work)),
                Some(Err(error)) => self.record_failure(work, error.clone().into(), report),
                _ => *report.unserved.entry(app.clone()).or_default() += 1,
            }
        }
        let done = ready.into_iter().map(|(runner, work)| async move {
            let done = runner.do_pending_work(&work).await;
            (work, done)
        });
        let mut done = stream::iter(done).buffer_unordered(CONCURRENT);
        while let Some((work, done)) = done.next().await {
            match done {
                Ok(is_done) => {
                    self.failures().remove(&work.incarnation);
                    report.finished += u64::from(is_done);
                }
                Err(error) => self.record_failure(work, error, report),
            }
        }
    }

    async fn find_runner(&self, app: &str) -> Result<Option<Runner>, String> {
        match &self.runners {
            Some(runners) => runners
                .find_runner(app)
                .await
                .map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }

    /// Whether the work has failed and its next attempt is not due yet.
    fn is_postponed(&self, work: &SessionWork) -> bool {
        let mut failures = self.failures();
        let Some(failure) = failures.get_mut(&work.incarnation) else {
            return false;
        };
        failure.is_current = true;
        if failure.position != work.position || failure.skips_left == 0 {
            return false;
        }
        failure.skips_left -= 1;
        true
    }

    /// Logs a failure, and postpones the next attempt twice as long as the one before.
    fn record_failure(&self, work: SessionWork, error: BoxError, report: &mut MaintenanceReport) {
        let session = &work.key;
        let kinds = work.work;
        tracing::warn!(
            ?kinds,
            kind = error_kind(&error),
            "pending work of a session failed"
        );
        tracing::debug!(?session, error = ?error.to_string(), "pending work of a session failed");
        let mut failures = self.failures();
        let before = failures.get(&work.incarnation);
        let before = before.filter(|failure| failure.position == work.position);
        let skips = before.map_or(0, |failure| (failure.skips * 2 + 1).min(SKIPS_MAX));
        let failure = Failure {
            position: work.position,
            skips,
            skips_left: skips,
            is_current: true,
        };
        failures.insert(work.incarnation, failure);
        report.failures.push((work.key, error));
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
