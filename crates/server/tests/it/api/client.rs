//! A server in this process, and a client for it.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use retain_core::{Event, Json, MemoryService};
use retain_memory::{InMemoryMemoryService, LongTermMemory, StoreMemoryService};
use retain_server::{Apps, Server, Services};
use retain_stores::{
    InMemoryArtifactService, InMemoryMemoryStore, InMemorySessionService, SqliteArtifactService,
    SqliteSessionService,
};
use tower::ServiceExt as _;

pub(crate) const SESSIONS: &str = "/api/v1/apps/demo/users/ada/sessions";
pub(crate) const SESSION: &str = "/api/v1/apps/demo/users/ada/sessions/s1";
pub(crate) const MEMORY: &str = "/api/v1/apps/demo/users/ada/memory";

/// A server with its own services, and a client for it.
pub(crate) struct Client {
    pub(crate) router: Router,
    /// Dropping the client deletes the database.
    _folder: Option<tempfile::TempDir>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Json {
        Json::parse(self.text()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn content_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Checks the status of the response and returns its JSON.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Json {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        match self.body.is_empty() {
            true => Json::Null,
            false => self.json(),
        }
    }

    /// Checks that the response is a problem with this status and code, and returns it.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Json {
        assert_eq!(self.content_type(), "application/problem+json", "{self:?}");
        let problem = self.expect(status);
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], i64::from(status));
        assert_eq!(
            problem["type"],
            format!("urn:retain:problem:{code}").as_str()
        );
        assert!(problem["title"].as_str().is_some_and(|it| !it.is_empty()));
        assert!(problem["detail"].as_str().is_some_and(|it| !it.is_empty()));
        problem
    }
}

impl Client {
    fn new(services: Services, folder: Option<tempfile::TempDir>) -> Client {
        let apps = Apps::new(services.clone());
        let server = Arc::new(Server::new(services, apps));
        Client {
            router: server.router(),
            _folder: folder,
        }
    }

    /// Creates a client of a server with all services in memory, including Retain's own memory
    /// service.
    pub(crate) fn in_memory() -> Client {
        let memory = Arc::new(StoreMemoryService::over(InMemoryMemoryStore::default()));
        Client::with_memory(memory.clone(), Some(memory))
    }

    /// Like [`in_memory`](Self::in_memory), with a memory service that supports only ADK's
    /// operations.
    pub(crate) fn with_adk_memory() -> Client {
        Client::with_memory(Arc::new(InMemoryMemoryService::new()), None)
    }

    fn with_memory(
        memory: Arc<dyn MemoryService>,
        long_term_memory: Option<Arc<dyn LongTermMemory>>,
    ) -> Client {
        let mut services = Services::new(
            Arc::new(InMemorySessionService::new()),
            memory,
            Arc::new(InMemoryArtifactService::new()),
        );
        services.long_term_memory = long_term_memory;
        Client::new(services, None)
    }

    /// Creates a client of a server with all services in one SQLite database.
    pub(crate) async fn sqlite() -> Client {
        let folder = retain_testkit::scratch::folder();
        let uri = format!("sqlite:///{}", folder.path().join("retain.db").display());
        let sessions = SqliteSessionService::connect(&uri).await.unwrap();
        let memory = Arc::new(StoreMemoryService::over(sessions.store().memory()));
        let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
        let services = Services::new(Arc::new(sessions), memory.clone(), Arc::new(artifacts))
            .with_long_term_memory(memory);
        Client::new(services, Some(folder))
    }

    /// Sends a request without waiting for the end of the response.
    pub(crate) async fn open(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: to_bytes(body, usize::MAX).await.unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path, "")).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(request(Method::DELETE, path, "")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.send(request(Method::POST, path, body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &str) -> Answer {
        self.send(request(Method::PATCH, path, body)).await
    }

    /// Creates the empty session `s1`.
    pub(crate) async fn with_session(self) -> Client {
        let created = self.post(SESSIONS, r#"{"sessionId":"s1"}"#).await;
        created.expect(201);
        self
    }

    /// Appends a message of the user to the session at `path`.
    pub(crate) async fn say(&self, path: &str, id: &str, text: &str) -> Json {
        let body = format!(r#"{{"events":[{}]}}"#, event(id, text));
        self.post(&format!("{path}/events"), &body)
            .await
            .expect(200)
    }
}

/// Creates a request with or without a JSON body.
pub(crate) fn request(method: Method, path: &str, body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

/// Creates an event of the user, as JSON.
pub(crate) fn event(id: &str, text: &str) -> String {
    let event = Event {
        id: id.to_owned(),
        invocation_id: format!("inv-{id}"),
        timestamp: 1_700_000_000.5,
        ..Event::user_text(text)
    };
    event.to_json().unwrap()
}
