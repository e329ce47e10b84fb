//! The maintenance of a server: periodic work on its services, by the runners of its apps.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::BoxError;
use retain_runtime::{FindRunner, Maintenance, MaintenanceTask, Runner};

use crate::{apps::AppError, services::Server};

/// The runners of the apps that a server serves.
#[derive(Debug)]
struct ServedRunners(Arc<Server>);

#[async_trait]
impl FindRunner for ServedRunners {
    async fn find_runner(&self, app: &str) -> Result<Option<Runner>, BoxError> {
        match self.0.runner(app).await {
            Ok(runner) => Ok(Some(runner)),
            Err(AppError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn evict_deleted(&self) {
        self.0.apps.evict_deleted_sessions().await;
    }
}

impl Server {
    /// The maintenance of the server's services. It reports to the server's metrics.
    pub fn maintenance(self: &Arc<Self>) -> Maintenance {
        let services = &self.services;
        Maintenance::new(Arc::clone(&services.sessions))
            .with_memory(Arc::clone(&services.memory))
            .with_artifacts(Arc::clone(&services.artifacts))
            .with_runners(Arc::new(ServedRunners(Arc::clone(self))))
            .with_status(Arc::clone(&self.maintenance_status))
    }

    /// Starts the maintenance, unless its interval is zero.
    pub(crate) fn start_maintenance(self: &Arc<Self>) -> Option<MaintenanceTask> {
        let interval = Some(self.sweep_interval).filter(|interval| !interval.is_zero());
        interval.map(|interval| Arc::new(self.maintenance()).start(interval))
    }
}
