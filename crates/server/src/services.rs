//! The state that all requests share: the services and the apps.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::{from_fn, from_fn_with_state},
};
use retain_core::{
    ArtifactService, MemoryService, Quotas, Session, SessionLog, SessionOrigin, SessionService,
};
use retain_memory::LongTermMemory;
use retain_runtime::MaintenanceStatus;

use crate::{
    adk, api,
    apps::Apps,
    guard::{Guards, guard_request},
    ops,
    routes::{RouteInfo, Routes},
};

/// How often a server does its maintenance by default.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The services behind the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Services {
    /// Sessions.
    pub sessions: Arc<dyn SessionLog>,
    /// Memories, as agents and ADK's routes use them.
    pub memory: Arc<dyn MemoryService>,
    /// The same memories with Retain's own operations, if the service supports them.
    pub long_term_memory: Option<Arc<dyn LongTermMemory>>,
    /// Artifacts.
    pub artifacts: Arc<dyn ArtifactService>,
    /// The quotas of these services, to show them and count rejections.
    pub quotas: Quotas,
}

impl Services {
    /// Creates services whose memory has only ADK's operations.
    pub fn new(
        sessions: Arc<dyn SessionLog>,
        memory: Arc<dyn MemoryService>,
        artifacts: Arc<dyn ArtifactService>,
    ) -> Services {
        Services {
            sessions,
            memory,
            long_term_memory: None,
            artifacts,
            quotas: Quotas::default(),
        }
    }

    /// Sets the service for Retain's own memory operations, over the same memories.
    pub fn with_long_term_memory(mut self, memory: Arc<dyn LongTermMemory>) -> Services {
        self.long_term_memory = Some(memory);
        self
    }

    /// Sets the quotas that the services were built with. The services enforce them; the server
    /// shows them at the routes of usage and in the metrics.
    pub fn with_quotas(mut self, quotas: Quotas) -> Services {
        self.quotas = quotas;
        self
    }

    /// Returns the memory service for an ingest of a session, which is refused once the session no
    /// longer exists.
    pub(crate) fn memory_for(&self, session: &Session) -> Arc<dyn MemoryService> {
        let origin = SessionOrigin::new(&self.sessions, session);
        let bound = origin.and_then(|origin| self.memory.for_session(origin));
        bound.unwrap_or_else(|| Arc::clone(&self.memory))
    }

    /// Like [`memory_for`](Self::memory_for), with Retain's own operations.
    pub(crate) fn long_term_memory_for(
        &self,
        session: &Session,
    ) -> Option<Arc<dyn LongTermMemory>> {
        let memory = self.long_term_memory.as_ref()?;
        let origin = SessionOrigin::new(&self.sessions, session);
        let bound = origin.map(|origin| memory.long_term_for_session(origin));
        Some(bound.unwrap_or_else(|| Arc::clone(memory)))
    }

    /// Returns the session service as ADK sees it.
    pub fn session_service(&self) -> Arc<dyn SessionService> {
        Arc::clone(&self.sessions) as Arc<dyn SessionService>
    }
}

/// The state that all requests share.
#[derive(Debug)]
#[non_exhaustive]
pub struct Server {
    /// The services.
    pub services: Services,
    /// The apps, each with an agent.
    pub apps: Apps,
    /// What is known about the maintenance, for metrics.
    pub(crate) maintenance_status: Arc<MaintenanceStatus>,
    pub(crate) sweep_interval: Duration,
}

/// The state that axum passes to handlers.
pub(crate) type Shared = Arc<Server>;

impl Server {
    /// Creates a server of these apps.
    pub fn new(services: Services, apps: Apps) -> Server {
        Server {
            services,
            apps,
            maintenance_status: Arc::default(),
            sweep_interval: SWEEP_INTERVAL,
        }
    }

    /// Sets how often the server does [`maintenance`](Server::maintenance); zero disables it. The
    /// default is one minute.
    pub fn with_sweep_interval(mut self, interval: Duration) -> Server {
        self.sweep_interval = interval;
        self
    }

    /// Returns all routes, without API keys and with default limits.
    pub fn router(self: &Arc<Self>) -> Router {
        self.guarded_router(&Arc::new(Guards::default()))
    }

    /// Returns all routes with their guards.
    pub fn guarded_router(self: &Arc<Self>, guards: &Arc<Guards>) -> Router {
        let router = Server::all_routes().into_router(self);
        adk::with_fallbacks(router.with_state(Arc::clone(self)), self)
            // Add this layer after the fallbacks, so that unknown paths below `/api/` return
            // problems.
            .layer(from_fn(api::refusals_as_problems))
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(Arc::clone(guards), guard_request))
    }

    /// Returns all routes with their access rules.
    pub fn routes() -> Vec<RouteInfo> {
        Server::all_routes().list()
    }

    fn all_routes() -> Routes {
        let routes = ops::routes(Routes::default());
        api::routes(adk::routes(routes))
    }
}
