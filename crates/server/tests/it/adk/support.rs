//! A server with agents that tests can block, and a client for it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{body::Body, http::Request, response::Response};
use futures_util::StreamExt as _;
use retain_core::{Content, Json, LlmResponse};
use retain_memory::InMemoryMemoryService;
use retain_runtime::{
    FunctionTool, LlmAgent, LlmRequest, Model, ModelError, ModelStream, ToolContext,
};
use retain_server::{Apps, Caller, Scope, Server, Services, serve};
use retain_stores::{InMemoryArtifactService, InMemorySessionService, SqliteSessionService};
use tokio::{net::TcpListener, sync::Semaphore};
use tower::ServiceExt as _;

pub(crate) fn services() -> Services {
    Services {
        sessions: Arc::new(InMemorySessionService::new()),
        memory: Arc::new(InMemoryMemoryService::new()),
        long_term_memory: None,
        artifacts: Arc::new(InMemoryArtifactService::new()),
    }
}

/// A model that returns one chunk per permit of its gate, and then the complete answer.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    pub(crate) gate: Arc<Semaphore>,
    /// Number of chunks returned.
    pub(crate) made: Arc<AtomicUsize>,
    /// Gets a permit when an answer is dropped before its end.
    pub(crate) dropped: Arc<Semaphore>,
}

impl Gated {
    pub(crate) fn new() -> Gated {
        Gated {
            gate: Arc::new(Semaphore::new(0)),
            made: Arc::default(),
            dropped: Arc::new(Semaphore::new(0)),
        }
    }

    pub(crate) fn open(&self, pieces: usize) {
        self.gate.add_permits(pieces);
    }
}

/// Reports that it was dropped early.
struct Watch(Arc<Semaphore>, bool);

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.1 {
            self.0.add_permits(1);
        }
    }
}

pub(crate) const PIECES: [&str; 3] = ["one ", "two ", "three"];

impl Model for Gated {
    fn name(&self) -> &str {
        "gated"
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let said = request.contents.last().map(|content| content.text_concat());
        if said.is_some_and(|said| said.contains("fail")) {
            let error = ModelError::new("out of service").with_code("RuntimeError");
            return Box::pin(futures_util::stream::iter([Err(error)]));
        }
        let this = self.clone();
        let watch = Watch(Arc::clone(&self.dropped), false);
        let first = (0, this, watch);
        Box::pin(
            futures_util::stream::unfold(first, move |(at, this, mut watch)| async move {
                if at > PIECES.len() {
                    return None;
                }
                this.gate.acquire().await.ok()?.forget();
                this.made.fetch_add(1, Ordering::SeqCst);
                let text = PIECES
                    .get(at)
                    .map_or_else(|| PIECES.concat(), |it| (*it).into());
                let mut answer = LlmResponse::of(Content::model(text));
                if stream {
                    answer.partial = Some(at < PIECES.len());
                }
                watch.1 = at == PIECES.len();
                Some((Ok(answer), (at + 1, this, watch)))
            })
            .filter(move |answer| {
                let is_partial = answer.as_ref().is_ok_and(|it| it.partial == Some(true));
                let is_whole = answer.as_ref().is_ok_and(|it| {
                    it.content
                        .as_ref()
                        .is_some_and(|it| it.text_concat() == PIECES.concat())
                });
                std::future::ready(is_partial || is_whole)
            }),
        )
    }
}

/// A model that calls a tool which saves a file, and then reports it.
#[derive(Debug)]
pub(crate) struct Filing;

impl Model for Filing {
    fn name(&self) -> &str {
        "filing"
    }

    fn generate(&self, request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        let last = request.contents.last();
        let is_done = last.is_some_and(|content| content.function_responses().next().is_some());
        let answer = match is_done {
            true => Content::model("Filed."),
            false => Content::new(
                "model",
                vec![
                    retain_core::FunctionCall::new("file", Json::parse("{}").unwrap_or_default())
                        .into(),
                ],
            ),
        };
        Box::pin(futures_util::stream::iter([Ok(LlmResponse::of(answer))]))
    }
}

pub(crate) fn filing_agent() -> LlmAgent {
    let file = FunctionTool::untyped(
        "file",
        "Files a note.",
        None,
        |ctx: ToolContext, _| async move {
            let part = retain_core::Part::text("a note");
            ctx.save_artifact("notes/today.txt", part, None).await?;
            Ok(Json::from("done").into())
        },
    );
    LlmAgent::builder("clerk")
        .model(Filing)
        .tool(file)
        .build()
        .expect("an agent")
}

/// An agent that pays on confirmation and counts the payments.
pub(crate) fn paying_agent(paid: &Arc<AtomicUsize>) -> LlmAgent {
    let paid = Arc::clone(paid);
    let pay = FunctionTool::untyped("pay", "Pays.", None, move |_: ToolContext, _| {
        paid.fetch_add(1, Ordering::SeqCst);
        async { Ok(Json::from("paid").into()) }
    });
    let agent = LlmAgent::builder("payer").model(Filing);
    agent
        .tool(pay.require_confirmation())
        .build()
        .expect("an agent")
}

pub(crate) fn gated_agent(model: &Gated) -> LlmAgent {
    LlmAgent::builder("speaker")
        .model(model.clone())
        .build()
        .expect("an agent")
}

/// A server with the app `desk`.
pub(crate) fn server(agent: LlmAgent) -> Arc<Server> {
    let services = services();
    let apps = Apps::new(services.clone()).with_agent("desk", Arc::new(agent));
    Arc::new(Server { services, apps })
}

/// Like [`server`], on each of the stores.
pub(crate) async fn servers(agent: impl Fn() -> LlmAgent) -> [Arc<Server>; 2] {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await;
    let services = Services {
        sessions: Arc::new(sessions.expect("a database")),
        ..services()
    };
    let apps = Apps::new(services.clone()).with_agent("desk", Arc::new(agent()));
    [server(agent()), Arc::new(Server { services, apps })]
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Json {
        Json::parse(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

pub(crate) fn request(method: &str, path: &str, body: &str) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1");
    let request = match body.is_empty() {
        true => request.body(Body::empty()),
        false => request
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned())),
    };
    request.expect("a request")
}

pub(crate) async fn send(server: &Arc<Server>, request: Request<Body>) -> Response {
    let sent = server.router().oneshot(request).await;
    sent.unwrap_or_else(|never| match never {})
}

pub(crate) async fn read(response: Response) -> Answer {
    let kind = response.headers().get("content-type");
    let kind = kind.map(|kind| kind.to_str().expect("text").to_owned());
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    Answer {
        status,
        kind: kind.unwrap_or_default(),
        text: String::from_utf8(body.expect("a body").to_vec()).expect("text"),
    }
}

/// Send a request and read the answer.
pub(crate) async fn ask(server: &Arc<Server>, method: &str, path: &str, body: &str) -> Answer {
    read(send(server, request(method, path, body)).await).await
}

/// An API key of `ada` with the default scopes.
pub(crate) fn adas_key() -> Caller {
    Caller {
        scopes: Some(vec![Scope::Run, Scope::SessionsRead, Scope::SessionsWrite]),
        app: Some("desk".to_owned()),
        user: Some("ada".to_owned()),
    }
}

/// Create the session `s` of `ada` and return its path.
pub(crate) async fn with_session(server: &Arc<Server>) -> &'static str {
    const PATH: &str = "/apps/desk/users/ada/sessions/s";
    let created = ask(
        server,
        "POST",
        "/apps/desk/users/ada/sessions",
        r#"{"sessionId":"s"}"#,
    );
    assert_eq!(created.await.status, 200);
    PATH
}

pub(crate) fn message(text: &str, more: &str) -> String {
    format!(
        r#"{{"appName":"desk","userId":"ada","sessionId":"s","newMessage":{{"role":"user","parts":[{{"text":"{text}"}}]}}{more}}}"#
    )
}

/// The events of an SSE text.
pub(crate) fn data(text: &str) -> Vec<Json> {
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    let events = frames.filter_map(|frame| frame.strip_prefix("data: "));
    events
        .map(|event| Json::parse(event).expect("JSON"))
        .collect()
}

/// Serve on a free port.
pub(crate) async fn listen(server: &Arc<Server>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(serve(Arc::clone(server), listener, std::future::pending()));
    address
}
