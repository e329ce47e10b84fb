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
    Services::new(
        Arc::new(InMemorySessionService::new()),
        Arc::new(InMemoryMemoryService::new()),
        Arc::new(InMemoryArtifactService::new()),
    )
}

/// A model that waits for a permit of its gate before each chunk, and before the complete answer.
#[derive(Debug, Clone)]
pub(crate) struct GatedModel {
    pub(crate) gate: Arc<Semaphore>,
    /// Number of chunks returned.
    pub(crate) made: Arc<AtomicUsize>,
    /// Gets a permit when an answer is dropped before it is complete.
    pub(crate) dropped: Arc<Semaphore>,
}

impl GatedModel {
    pub(crate) fn new() -> GatedModel {
        GatedModel {
            gate: Arc::new(Semaphore::new(0)),
            made: Arc::default(),
            dropped: Arc::new(Semaphore::new(0)),
        }
    }

    /// Lets the model return this many chunks.
    pub(crate) fn open(&self, pieces: usize) {
        self.gate.add_permits(pieces);
    }
}

/// Adds a permit to `dropped` if it is dropped before the answer is complete.
struct DropSignal {
    dropped: Arc<Semaphore>,
    is_complete: bool,
}

impl Drop for DropSignal {
    fn drop(&mut self) {
        if !self.is_complete {
            self.dropped.add_permits(1);
        }
    }
}

pub(crate) const PIECES: [&str; 3] = ["one ", "two ", "three"];

impl Model for GatedModel {
    fn name(&self) -> &str {
        "gated"
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let message = request.contents.last().map(|content| content.text_concat());
        if message.is_some_and(|message| message.contains("fail")) {
            let error = ModelError::new("out of service").with_code("RuntimeError");
            return Box::pin(futures_util::stream::iter([Err(error)]));
        }
        let this = self.clone();
        let signal = DropSignal {
            dropped: Arc::clone(&self.dropped),
            is_complete: false,
        };
        let first = (0, this, signal);
        Box::pin(
            futures_util::stream::unfold(first, move |(at, this, mut signal)| async move {
                if at > PIECES.len() {
                    return None;
                }
                this.gate.acquire().await.ok()?.forget();
                this.made.fetch_add(1, Ordering::SeqCst);
                let text = PIECES
                    .get(at)
                    .map_or_else(|| PIECES.concat(), |it| (*it).into());
                let mut answer = LlmResponse::from_content(Content::model(text));
                if stream {
                    answer.partial = Some(at < PIECES.len());
                }
                signal.is_complete = at == PIECES.len();
                Some((Ok(answer), (at + 1, this, signal)))
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

/// A model that calls the tool `file`, and then answers "Filed.".
#[derive(Debug)]
pub(crate) struct FilingModel;

impl Model for FilingModel {
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
        Box::pin(futures_util::stream::iter([Ok(LlmResponse::from_content(
            answer,
        ))]))
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
        .model(FilingModel)
        .tool(file)
        .build()
        .expect("an agent")
}

/// Creates an agent that pays on confirmation and counts the payments.
pub(crate) fn paying_agent(paid: &Arc<AtomicUsize>) -> LlmAgent {
    let paid = Arc::clone(paid);
    let pay = FunctionTool::untyped("pay", "Pays.", None, move |_: ToolContext, _| {
        paid.fetch_add(1, Ordering::SeqCst);
        async { Ok(Json::from("paid").into()) }
    });
    let agent = LlmAgent::builder("payer").model(FilingModel);
    agent
        .tool(pay.require_confirmation())
        .build()
        .expect("an agent")
}

pub(crate) fn gated_agent(model: &GatedModel) -> LlmAgent {
    LlmAgent::builder("speaker")
        .model(model.clone())
        .build()
        .expect("an agent")
}

/// Creates a server with the app `desk`.
pub(crate) fn server(agent: LlmAgent) -> Arc<Server> {
    let services = services();
    let apps = Apps::new(services.clone()).with_agent("desk", agent);
    Arc::new(Server::new(services, apps))
}

/// Like [`server`], with sessions in memory and in SQLite.
pub(crate) async fn servers(agent: impl Fn() -> LlmAgent) -> [Arc<Server>; 2] {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await;
    let mut services = services();
    services.sessions = Arc::new(sessions.expect("a database"));
    let apps = Apps::new(services.clone()).with_agent("desk", agent());
    [server(agent()), Arc::new(Server::new(services, apps))]
}

/// A response that was read completely.
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

/// Sends a request and reads the response.
pub(crate) async fn ask(server: &Arc<Server>, method: &str, path: &str, body: &str) -> Answer {
    read(send(server, request(method, path, body)).await).await
}

/// Returns a caller whose API key is bound to `ada` and has the default scopes.
pub(crate) fn ada_caller() -> Caller {
    Caller {
        scopes: Some(vec![Scope::Run, Scope::SessionsRead, Scope::SessionsWrite]),
        app: Some("desk".to_owned()),
        user: Some("ada".to_owned()),
    }
}

/// Creates the session `s` of `ada` and returns its path.
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

/// Returns the body of a run request of `ada` in the session `s`, with the fields `more`.
pub(crate) fn message(text: &str, more: &str) -> String {
    format!(
        r#"{{"appName":"desk","userId":"ada","sessionId":"s","newMessage":{{"role":"user","parts":[{{"text":"{text}"}}]}}{more}}}"#
    )
}

/// Reads the events from the text of an event stream.
pub(crate) fn sse_events(text: &str) -> Vec<Json> {
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    let events = frames.filter_map(|frame| frame.strip_prefix("data: "));
    events
        .map(|event| Json::parse(event).expect("JSON"))
        .collect()
}

/// Serves on a free port.
pub(crate) async fn listen(server: &Arc<Server>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(serve(Arc::clone(server), listener, std::future::pending()));
    address
}
