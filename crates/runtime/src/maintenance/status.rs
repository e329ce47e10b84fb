//! What is known about the maintenance, for metrics.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use retain_core::PendingStatistics;

use super::MaintenanceReport;

/// Counts of the maintenance of one process. The pending work is that of all processes, as of this
/// process's last run of the maintenance.
#[derive(Debug, Default)]
pub struct MaintenanceStatus {
    pending_sessions: AtomicU64,
    oldest_pending_us: AtomicU64,
    failed_sessions: AtomicU64,
    runs: AtomicU64,
    finished_sessions: AtomicU64,
    swept_sessions: AtomicU64,
}

impl MaintenanceStatus {
    pub(super) fn record(&self, report: &MaintenanceReport, pending: PendingStatistics) {
        let set = |field: &AtomicU64, value: u64| field.store(value, Ordering::Relaxed);
        let oldest = pending.oldest.unwrap_or_default().as_micros();
        set(&self.pending_sessions, pending.sessions);
        set(
            &self.oldest_pending_us,
            u64::try_from(oldest).unwrap_or(u64::MAX),
        );
        if report.is_skipped {
            return;
        }
        set(
            &self.failed_sessions,
            report.failures.len() as u64 + report.postponed,
        );
        let add = |field: &AtomicU64, more: u64| field.fetch_add(more, Ordering::Relaxed);
        add(&self.runs, 1);
        add(&self.finished_sessions, report.finished);
        add(&self.swept_sessions, report.swept.sessions);
    }

    /// Number of sessions with work that must still follow their runs.
    pub fn pending_sessions(&self) -> u64 {
        self.pending_sessions.load(Ordering::Relaxed)
    }

    /// Time since the last write to the session whose work has waited the longest.
    pub fn oldest_pending(&self) -> Duration {
        Duration::from_micros(self.oldest_pending_us.load(Ordering::Relaxed))
    }

    /// Number of sessions whose work has failed and waits for its next attempt by this process.
    pub fn failed_sessions(&self) -> u64 {
        self.failed_sessions.load(Ordering::Relaxed)
    }

    /// Number of runs of the maintenance that this process has done.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Number of sessions whose pending work this process has finished for another run or process.
    pub fn finished_sessions(&self) -> u64 {
        self.finished_sessions.load(Ordering::Relaxed)
    }

    /// Number of expired sessions that this process has deleted.
    pub fn swept_sessions(&self) -> u64 {
        self.swept_sessions.load(Ordering::Relaxed)
    }
}
