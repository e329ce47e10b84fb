//! Runs the maintenance periodically, at intervals that differ between processes.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use super::{Maintenance, MaintenanceReport};
use crate::error::error_kind;

/// Longest wait before the first run, so that a restart finishes the work of a crash soon.
const FIRST_MAX: Duration = Duration::from_secs(5);

/// Longest interval, so that adding it to the current time cannot overflow.
const INTERVAL_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs the maintenance in the background until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the task stops the maintenance"]
pub struct MaintenanceTask(tokio::task::JoinHandle<()>);

impl Drop for MaintenanceTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Maintenance {
    /// Runs the maintenance soon and then once per interval, until the returned task is dropped.
    /// The intervals vary by a fifth, so that several processes do not work at the same moment.
    ///
    /// Needs a Tokio runtime with time enabled.
    pub fn start(self: Arc<Self>, interval: Duration) -> MaintenanceTask {
        let interval = interval.min(INTERVAL_MAX);
        MaintenanceTask(tokio::spawn(async move {
            let mut wait = interval.min(FIRST_MAX).mul_f64(self.random_fraction());
            loop {
                tokio::time::sleep(wait).await;
                match self.run_once().await {
                    Ok(report) => log_report(&report),
                    // Requests see the store fail too, and the next run tries again.
                    Err(error) => {
                        tracing::warn!(kind = error_kind(&error), "the maintenance failed");
                        tracing::debug!(error = ?error.to_string(), "the maintenance failed");
                    }
                }
                wait = interval.mul_f64(0.8 + 0.4 * self.random_fraction());
            }
        }))
    }

    /// Returns a number from 0 to 1.
    fn random_fraction(&self) -> f64 {
        let mut hasher = DefaultHasher::new();
        self.ids.new_id().hash(&mut hasher);
        f64::from((hasher.finish() >> 32) as u32) / f64::from(u32::MAX)
    }
}

fn log_report(report: &MaintenanceReport) {
    let (finished, swept) = (report.finished, &report.swept);
    if finished > 0 {
        tracing::info!(sessions = finished, "finished the pending work of sessions");
    }
    if swept.sessions > 0 || report.expired_memories > 0 {
        tracing::info!(
            sessions = swept.sessions,
            artifacts = swept.artifacts,
            memories = swept.memories + report.expired_memories,
            "deleted expired sessions and memories"
        );
    }
    for (session, error) in &swept.failures {
        tracing::warn!(
            kind = error_kind(error),
            "failed to delete an expired session"
        );
        tracing::debug!(?session, error = ?error.to_string(), "failed to delete an expired session");
    }
}
