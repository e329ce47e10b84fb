//! Maintenance: does the work that crashed processes left, and deletes what has expired.
//!
//! Every process may run it; the lease of a task in the store lets one at a time work. All of the
//! work can be repeated, so a lost lease does no harm.

mod pending;
mod periodic;
mod status;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use retain_core::{
    ArtifactService, BoxError, Ids, MaintenanceStore, MemoryError, MemoryService, RandomIds,
    SessionError, SessionKey, SessionLog, Sweep, SweepReceipt, TaskLease,
};

pub use periodic::MaintenanceTask;
pub use status::MaintenanceStatus;

use crate::{error::error_kind, runner::Runner};
use pending::Failures;

/// The name of the task whose lease a sweep holds.
const TASK: &str = "maintenance";

/// How long the lease of a process lasts that does not renew it, because it has crashed.
const LEASE: Duration = Duration::from_secs(30);

/// Finds the runner of an app.
#[async_trait]
pub trait FindRunner: fmt::Debug + Send + Sync + 'static {
    /// Returns the runner that does the work of this app's sessions; `None` if there is none.
    async fn find_runner(&self, app: &str) -> Result<Option<Runner>, BoxError>;

    /// Evicts sessions from the caches of the runners that were deleted elsewhere, for example
    /// because another process erased their user.
    async fn evict_deleted(&self) {}
}

#[async_trait]
impl FindRunner for Runner {
    async fn find_runner(&self, app: &str) -> Result<Option<Runner>, BoxError> {
        Ok((app == self.app_name()).then(|| self.clone()))
    }

    async fn evict_deleted(&self) {
        if let Err(error) = self.evict_deleted_sessions().await {
            let kind = error_kind(&error);
            tracing::warn!(kind, "failed to check cached sessions; retrying later");
        }
    }
}

/// Finishes the work that must follow runs, such as ingestion, if the process of a run has crashed
/// or the work has failed. Deletes expired sessions with their artifacts and memories, and expired
/// memories.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// use retain_runtime::Maintenance;
/// # use retain_runtime::{LlmAgent, Runner, ScriptedModel};
/// # use retain_stores::InMemorySessionService;
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new("scripted");
/// # let runner = Runner::builder()
/// #     .app_name("desk")
/// #     .agent(LlmAgent::builder("clerk").model(model).build()?)
/// #     .session_service(Arc::new(InMemorySessionService::new()))
/// #     .build()?;
/// let maintenance = Arc::new(Maintenance::for_runner(&runner));
/// // Once, for example at the start of the program:
/// let report = maintenance.run_once().await?;
/// assert!(report.failures.is_empty());
/// // And then every minute, until the task is dropped:
/// let _task = maintenance.start(Duration::from_secs(60));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Maintenance {
    sessions: Arc<dyn SessionLog>,
    runners: Option<Arc<dyn FindRunner>>,
    sweep: Sweep,
    ids: Arc<dyn Ids>,
    /// Identifies this process as the holder of the lease.
    holder: String,
    failures: Mutex<Failures>,
    status: Arc<MaintenanceStatus>,
}

/// What one run of the maintenance did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// Whether another process was at work, so that this one did nothing.
    pub is_skipped: bool,
    /// Number of sessions whose pending work was finished.
    pub finished: u64,
    /// Number of sessions whose pending work has failed before and waits for its next attempt.
    pub postponed: u64,
    /// Apps without a runner, with the number of their sessions whose work stays pending.
    pub unserved: BTreeMap<String, u64>,
    /// The sessions whose work has failed and stays pending, with the errors.
    pub failures: Vec<(SessionKey, BoxError)>,
    /// What was deleted because its session has expired.
    pub swept: SweepReceipt,
    /// Number of deleted memories whose own time to live has passed.
    pub expired_memories: u64,
}

impl Maintenance {
    /// Creates the maintenance of a session service. Without more, it deletes expired sessions.
    pub fn new(sessions: Arc<dyn SessionLog>) -> Maintenance {
        Maintenance {
            sessions,
            runners: None,
            sweep: Sweep::default(),
            ids: Arc::new(RandomIds),
            holder: RandomIds.new_id(),
            failures: Mutex::default(),
            status: Arc::default(),
        }
    }

    /// Creates the maintenance of all services of a runner.
    pub fn for_runner(runner: &Runner) -> Maintenance {
        let mut maintenance = Maintenance::new(Arc::clone(runner.session_log()));
        if let Some(memory) = runner.memory_service() {
            maintenance = maintenance.with_memory(Arc::clone(memory));
        }
        if let Some(artifacts) = runner.artifact_service() {
            maintenance = maintenance.with_artifacts(Arc::clone(artifacts));
        }
        maintenance.with_runners(Arc::new(runner.clone()))
    }

    /// Sets where to find the runners that do pending work.
    pub fn with_runners(mut self, runners: Arc<dyn FindRunner>) -> Maintenance {
        self.runners = Some(runners);
        self
    }

    /// Also deletes expired memories, and the memories of expired sessions.
    pub fn with_memory(mut self, memory: Arc<dyn MemoryService>) -> Maintenance {
        self.sweep = self.sweep.with_memory(memory);
        self
    }

    /// Also deletes the artifacts of expired sessions, if they are not in the sessions' database.
    pub fn with_artifacts(mut self, artifacts: Arc<dyn ArtifactService>) -> Maintenance {
        self.sweep = self.sweep.with_artifacts(artifacts);
        self
    }

    /// Takes the id of this process, and the randomness of the intervals, from `ids`.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Maintenance {
        self.holder = ids.new_id();
        self.ids = ids;
        self
    }

    /// Reports to `status`.
    pub fn with_status(mut self, status: Arc<MaintenanceStatus>) -> Maintenance {
        self.status = status;
        self
    }

    /// What was last known about pending work, for metrics.
    pub fn status(&self) -> &Arc<MaintenanceStatus> {
        &self.status
    }

    /// Does everything once, unless another process is doing it.
    ///
    /// Failures of single sessions are in the report, and their work is tried again later: after
    /// each failure this process skips twice as many runs of the maintenance as before.
    pub async fn run_once(&self) -> Result<MaintenanceReport, SessionError> {
        let store = self.sessions.maintenance()?;
        // Each process has its own caches, so this needs no lease.
        if let Some(runners) = &self.runners {
            runners.evict_deleted().await;
        }
        let report = if self.hold_lease(store, Some(LEASE)).await? {
            let done = tokio::select! {
                done = self.do_all(store) => done,
                error = self.renew_until_lost(store) => Err(error),
            };
            // If this fails, the lease expires.
            let released = self.hold_lease(store, None).await;
            let report = done?;
            released?;
            report
        } else {
            MaintenanceReport {
                is_skipped: true,
                ..MaintenanceReport::default()
            }
        };
        self.status
            .record(&report, store.pending_statistics().await?);
        Ok(report)
    }

    async fn do_all(
        &self,
        store: &dyn MaintenanceStore,
    ) -> Result<MaintenanceReport, SessionError> {
        let mut report = MaintenanceReport::default();
        self.do_pending_work(store, &mut report).await?;
        report.swept = self.sessions.sweep_with(self.sweep.clone()).await?;
        if let Some(memory) = &self.sweep.memory {
            match memory.delete_expired().await {
                Ok(deleted) => report.expired_memories = deleted,
                Err(MemoryError::Unsupported { .. }) => {}
                // The sessions are swept, and the next run deletes the memories.
                Err(error) => {
                    tracing::warn!(
                        kind = error_kind(&error),
                        "failed to delete expired memories"
                    );
                    tracing::debug!(error = ?error.to_string(), "failed to delete expired memories");
                }
            }
        }
        Ok(report)
    }

    /// Takes, renews or releases the lease of the task. Returns whether this process may work.
    async fn hold_lease(
        &self,
        store: &dyn MaintenanceStore,
        ttl: Option<Duration>,
    ) -> Result<bool, SessionError> {
        let lease = TaskLease {
            task: TASK.to_owned(),
            holder: self.holder.clone(),
            ttl,
        };
        store.update_task_lease(&lease).await
    }

    /// Renews the lease until that fails.
    async fn renew_until_lost(&self, store: &dyn MaintenanceStore) -> SessionError {
        loop {
            tokio::time::sleep(LEASE / 3).await;
            match self.hold_lease(store, Some(LEASE)).await {
                Ok(true) => {}
                Ok(false) => {
                    return SessionError::Store {
                        store: "the session store",
                        operation: "renew the lease of the maintenance",
                        source: "another process has taken it; the next run continues".into(),
                    };
                }
                Err(error) => return error,
            }
        }
    }
}
