//! What all requests share: the services, the apps and the settings.

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::{from_fn, from_fn_with_state},
};
use retain_core::{ArtifactService, MemoryService, SessionLog, SessionService};
use retain_memory::LongTermMemory;

use crate::{
    adk, api,
    apps::Apps,
    guard::{Guards, guard_request},
    ops,
    routes::{RouteInfo, Routes},
};

/// The services behind the server.
#[derive(Debug, Clone)]
pub struct Services {
    /// Sessions.
    pub sessions: Arc<dyn SessionLog>,
    /// Memories, as agents and ADK's routes use them.
    pub memory: Arc<dyn MemoryService>,
    /// The same memories with Retain's own operations, if the service supports them.
    pub long_term_memory: Option<Arc<dyn LongTermMemory>>,
    /// Artifacts.
    pub artifacts: Arc<dyn ArtifactService>,
}

impl Services {
    /// The session service as ADK sees it.
    pub fn session_service(&self) -> Arc<dyn SessionService> {
        Arc::clone(&self.sessions) as Arc<dyn SessionService>
    }
}

/// What all requests share.
#[derive(Debug)]
pub struct Server {
    /// The services.
    pub services: Services,
    /// The agents.
    pub apps: Apps,
}

/// The state of handlers.
pub(crate) type Shared = Arc<Server>;

impl Server {
    /// All routes, without API keys and with default limits.
    pub fn router(self: &Arc<Self>) -> Router {
        self.guarded_router(&Arc::new(Guards::default()))
    }

    /// All routes with their guards.
    pub fn guarded_router(self: &Arc<Self>, guards: &Arc<Guards>) -> Router {
        let router = Server::all_routes().into_router(self);
        adk::with_fallbacks(router.with_state(Arc::clone(self)), self)
            // Around the fallbacks too: below /api/ they return problems.
            .layer(from_fn(api::refusals_as_problems))
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(Arc::clone(guards), guard_request))
    }

    /// The routes, for tests that visit all of them.
    pub fn routes() -> Vec<RouteInfo> {
        Server::all_routes().list()
    }

    fn all_routes() -> Routes {
        let routes = ops::routes(Routes::default());
        api::routes(adk::routes(routes))
    }
}
