//! A server with API keys, in this process.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, header::HeaderMap},
};
use http_body_util::BodyExt as _;
use retain_core::{ApiKey, KEY_SECRET_BYTES, KeyScope, KeyStore as _, KeyText};
use retain_memory::StoreMemoryService;
use retain_runtime::{LlmAgent, LlmRequest, Model, ModelStream, OfflineModel};
use retain_server::{Apps, Guards, Keys, Server, Services};
use retain_stores::{
    InMemoryArtifactService, InMemoryKeyStore, InMemoryMemoryStore, InMemorySessionService,
};
use retain_testkit::TestClock;
use tower::ServiceExt as _;

/// The only app.
pub(crate) const APP: &str = "shop";

/// A server in this process, with its API keys and its clock.
pub(crate) struct World {
    pub(crate) server: Arc<Server>,
    pub(crate) keys: InMemoryKeyStore,
    pub(crate) clock: Arc<TestClock>,
}

pub(crate) fn services() -> Services {
    let memory = Arc::new(StoreMemoryService::over(InMemoryMemoryStore::default()));
    Services::new(
        Arc::new(InMemorySessionService::new()),
        Arc::clone(&memory) as _,
        Arc::new(InMemoryArtifactService::new()),
    )
    .with_long_term_memory(memory)
}

/// A model that never answers.
#[derive(Debug)]
pub(crate) struct HangingModel;

impl Model for HangingModel {
    fn name(&self) -> &str {
        "hanging"
    }

    fn generate(&self, _request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        Box::pin(futures_util::stream::pending())
    }
}

/// Creates a server with one app, whose agent quotes its input.
pub(crate) fn server(services: Services) -> Arc<Server> {
    let agent = LlmAgent::builder("clerk").model(OfflineModel::new());
    server_of(services, Arc::new(agent.build().unwrap()))
}

/// Creates a server with one app.
pub(crate) fn server_of(services: Services, agent: Arc<LlmAgent>) -> Arc<Server> {
    let apps = Apps::new(services.clone()).with_agent(APP, agent);
    Arc::new(Server::new(services, apps))
}

impl World {
    pub(crate) fn new() -> World {
        World::with_default_app(None)
    }

    /// Creates a server with a default app.
    pub(crate) fn with_default_app(app: Option<&str>) -> World {
        let mut server = Arc::into_inner(server(services())).expect("the only reference");
        if let Some(app) = app {
            server.apps = server.apps.with_default_app(app);
        }
        let server = Arc::new(server);
        World {
            server,
            keys: InMemoryKeyStore::default(),
            clock: Arc::new(TestClock::default()),
        }
    }

    /// Adds an API key and returns its text.
    pub(crate) async fn key(
        &self,
        id: &str,
        user: Option<&str>,
        change: impl FnOnce(&mut ApiKey),
    ) -> String {
        let first = id.bytes().next().unwrap_or_default();
        let text = KeyText::new(id, [first; KEY_SECRET_BYTES]);
        let all = KeyScope::ALL.into_iter();
        let mut key = ApiKey {
            id: text.id.clone(),
            name: id.to_owned(),
            hash: text.hash(),
            app: user.map(|_| APP.to_owned()),
            user: user.map(str::to_owned),
            scopes: all.filter(|scope| *scope != KeyScope::Admin).collect(),
            created_us: 0,
            expires_us: None,
            revoked_us: None,
            last_used_us: None,
        };
        change(&mut key);
        self.keys.add(&key).await.unwrap();
        text.reveal()
    }

    /// Returns the routes, with required API keys. `change` adapts the guards.
    pub(crate) fn router(&self, change: impl FnOnce(&mut Guards)) -> Router {
        let keys = Keys::new(Arc::new(self.keys.clone()), None, true);
        let mut guards = Guards::default()
            .with_keys(keys)
            .with_clock(Arc::clone(&self.clock) as _);
        change(&mut guards);
        self.server.guarded_router(&Arc::new(guards))
    }
}

/// A response whose body was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Shorter than the interval of heartbeats, longer than any pause of a response that ends. A test
/// that reads a response without an end needs a paused clock, which passes this time only when no
/// task can continue.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request and reads its response to the end, or until no data arrives for a while.
pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, mut body) = response.into_parts();
    let mut read = Vec::new();
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(READ_TIMEOUT, body.frame()).await {
        read.extend(frame.into_data().unwrap_or_default());
    }
    Answer {
        status: head.status,
        headers: head.headers,
        body: String::from_utf8_lossy(&read).into_owned(),
    }
}

/// Creates a request with an API key and optionally a body.
pub(crate) fn request(method: &Method, uri: &str, key: &str, body: Option<&str>) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(uri);
    if !key.is_empty() {
        builder = builder.header("authorization", format!("Bearer {key}"));
    }
    match body {
        None => builder.body(Body::empty()).unwrap(),
        Some(body) => builder
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap(),
    }
}

pub(crate) async fn get(router: &Router, uri: &str, key: &str) -> Answer {
    ask(router, request(&Method::GET, uri, key, None)).await
}
