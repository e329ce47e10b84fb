//! Servers over HTTP: ended sessions, restarted and unreachable servers, and errors without
//! secrets.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse as _, Redirect, Response},
    routing::any,
};
use retain_mcp::{HttpServer, McpToolset};
use retain_runtime::{ScriptedModel, Toolset as _};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{
    server::{TestServer, notes, wait_for_note},
    support::{AgentRun, LONG},
};

/// A server with its own runtime, so that dropping it closes all its connections.
struct HttpTestServer {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl HttpTestServer {
    fn start(address: SocketAddr, app: Router) -> HttpTestServer {
        HttpTestServer::on(std::net::TcpListener::bind(address).unwrap(), app)
    }

    fn on(listener: std::net::TcpListener, app: Router) -> HttpTestServer {
        let runtime = Runtime::new().unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let guard = runtime.enter();
        let listener = TcpListener::from_std(listener).unwrap();
        drop(guard);
        runtime.spawn(async move { axum::serve(listener, app).await });
        HttpTestServer {
            address,
            runtime: Some(runtime),
        }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for HttpTestServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn app(folder: &Path) -> Router {
    let server = TestServer::new(folder);
    let service: StreamableHttpService<TestServer, LocalSessionManager> =
        StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::default(),
            StreamableHttpServerConfig::default(),
        );
    Router::new().nest_service("/mcp", service)
}

fn toolset(url: String) -> Arc<McpToolset> {
    Arc::new(McpToolset::new(HttpServer::new(url).with_timeout(LONG)))
}

#[tokio::test]
async fn session_is_deleted_when_the_toolset_closes() {
    let folder = retain_testkit::scratch::folder();
    let methods = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&methods);
    let app = app(folder.path()).layer(middleware::from_fn(move |request: Request, next: Next| {
        seen.lock().unwrap().push(request.method().to_string());
        next.run(request)
    }));
    let server = HttpTestServer::start(ANY_PORT, app);
    let set = toolset(server.url());
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
    assert_eq!(run.text(), "hello");
    assert!(!methods.lock().unwrap().contains(&"DELETE".to_owned()));
    set.close().await;
    assert!(methods.lock().unwrap().contains(&"DELETE".to_owned()));
    methods.lock().unwrap().clear();
    let without_delete = HttpServer::new(server.url()).with_terminate_on_close(false);
    let set = Arc::new(McpToolset::new(without_delete));
    AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
    set.close().await;
    assert!(!methods.lock().unwrap().contains(&"DELETE".to_owned()));
}

#[tokio::test]
async fn toolset_reconnects_to_a_restarted_server() {
    let folder = retain_testkit::scratch::folder();
    let mut server = HttpTestServer::start(ANY_PORT, app(folder.path()));
    let set = toolset(server.url());
    for round in 0..3 {
        let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
        assert_eq!(run.text(), "hello", "round {round}");
        let address = server.address;
        drop(server);
        server = restart(address, app(folder.path())).await;
    }
    let calls = notes(folder.path());
    let calls = calls.iter().filter(|note| *note == "call echo").count();
    assert_eq!(calls, 3);
}

/// Starts a server at this address. Waits until the address is free: until the last connection of
/// the previous server has ended.
async fn restart(address: SocketAddr, app: Router) -> HttpTestServer {
    loop {
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return HttpTestServer::on(listener, app),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// The server rejects unknown sessions with status 400, like the examples of the TypeScript SDK.
#[tokio::test]
async fn session_rejected_with_status_400_is_recreated() {
    let folder = retain_testkit::scratch::folder();
    let rejects_next = Arc::new(Mutex::new(false));
    let rejects = Arc::clone(&rejects_next);
    let app = app(folder.path()).layer(middleware::from_fn(move |request: Request, next: Next| {
        let has_session = request.headers().contains_key("mcp-session-id");
        let is_refused = has_session
            && request.method() == "POST"
            && std::mem::take(&mut *rejects.lock().unwrap());
        async move {
            match is_refused {
                false => next.run(request).await,
                true => no_session(),
            }
        }
    }));
    let server = HttpTestServer::start(ANY_PORT, app);
    let set = toolset(server.url());
    AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
    *rejects_next.lock().unwrap() = true;
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"again"}"#).await;
    assert_eq!(run.text(), "again");
    assert!(!*rejects_next.lock().unwrap());
}

fn no_session() -> Response {
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":7}"#;
    let headers = [("content-type", "application/json")];
    (StatusCode::BAD_REQUEST, headers, body).into_response()
}

#[tokio::test]
async fn unreachable_server_fails_calls_and_offers_no_tools() {
    let folder = retain_testkit::scratch::folder();
    let server = HttpTestServer::start(ANY_PORT, app(folder.path()));
    let address = server.address;
    let url = format!("http://user:canary-1@{address}/mcp?key=canary-2");
    let server_with_secrets = HttpServer::new(url).with_header("Authorization", "Bearer canary-3");
    let set = McpToolset::new(server_with_secrets.with_timeout(Duration::from_secs(2)));
    let set = Arc::new(set.with_tool_list_cache_ttl(LONG));
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
    assert_eq!(run.text(), "hello");
    drop(server);
    while std::net::TcpStream::connect(address).is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
    let error = run.error();
    let lead = "Unexpected error during MCP tool execution: Failed to create MCP session";
    assert!(error.starts_with(lead), "{error}");
    assert!(!error.contains("canary"), "{error}");
    let set = toolset(format!("http://{address}/mcp"));
    let run = AgentRun::with_model(&set, ScriptedModel::new("m").otherwise(|_| "Done.")).await;
    assert_eq!(run.tools(), Vec::<String>::new());
}

#[tokio::test]
async fn interrupted_call_fails_and_is_not_retried() {
    let folder = retain_testkit::scratch::folder();
    let server = HttpTestServer::start(ANY_PORT, app(folder.path()));
    let address = server.address;
    let set = toolset(server.url());
    let run = AgentRun::calling_tool(&set, "hang", "{}");
    let path = folder.path().to_owned();
    let cut = async move {
        wait_for_note(&path, "call hang").await;
        drop(server);
    };
    let (run, ()) = tokio::join!(tokio::time::timeout(LONG, run), cut);
    let error = run.unwrap().error();
    assert!(error.contains("MCP tool execution"), "{error}");
    let _server = restart(address, app(folder.path())).await;
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"back"}"#).await;
    assert_eq!(run.text(), "back");
    let calls = notes(folder.path());
    let calls = calls.iter().filter(|note| *note == "call hang").count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn slow_call_times_out_and_is_cancelled() {
    let folder = retain_testkit::scratch::folder();
    let server = HttpTestServer::start(ANY_PORT, app(folder.path()));
    let slow = HttpServer::new(server.url()).with_timeout(LONG);
    let set = McpToolset::new(slow.with_call_timeout(Duration::from_secs(3)));
    let run = AgentRun::calling_tool(&Arc::new(set), "hang", "{}").await;
    let error = run.error();
    assert!(
        error.contains("timed out") || error.contains("sent no answer"),
        "{error}"
    );
    wait_for_note(folder.path(), "cancelled").await;
}

#[tokio::test]
async fn headers_are_not_sent_to_a_redirect_target() {
    let folder = retain_testkit::scratch::folder();
    let seen = Arc::new(Mutex::new(Vec::<HeaderMap>::new()));
    let record_headers = |seen: &Arc<Mutex<Vec<HeaderMap>>>| {
        let seen = Arc::clone(seen);
        middleware::from_fn(move |request: Request, next: Next| {
            seen.lock().unwrap().push(request.headers().clone());
            next.run(request)
        })
    };
    let target = HttpTestServer::start(ANY_PORT, app(folder.path()).layer(record_headers(&seen)));
    let toolset_with_key = |url: String| {
        let server = HttpServer::new(url).with_header("X-Api-Key", "canary");
        Arc::new(McpToolset::new(server.with_timeout(LONG)))
    };
    let set = toolset_with_key(target.url());
    assert_eq!(
        AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#)
            .await
            .text(),
        "x"
    );
    let all = seen.lock().unwrap().drain(..).collect::<Vec<_>>();
    assert!(all.iter().all(|headers| headers["x-api-key"] == "canary"));
    let elsewhere = target.url();
    let redirecting = Router::new().route(
        "/mcp",
        any(move || async move { Redirect::permanent(&elsewhere) }),
    );
    let redirecting = HttpTestServer::start(ANY_PORT, redirecting);
    let set = toolset_with_key(redirecting.url());
    let run = AgentRun::with_model(&set, ScriptedModel::new("m").otherwise(|_| "Done.")).await;
    assert_eq!(run.tools(), Vec::<String>::new());
    assert_eq!(seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn http_error_contains_no_secrets() {
    for status in [400, 401, 403, 404, 405, 429, 500, 503] {
        let folder = retain_testkit::scratch::folder();
        let is_failing = Arc::new(Mutex::new(false));
        let fails = Arc::clone(&is_failing);
        let app =
            app(folder.path()).layer(middleware::from_fn(move |request: Request, next: Next| {
                let is_failing = *fails.lock().unwrap();
                async move {
                    match is_failing {
                        false => next.run(request).await,
                        // Some servers repeat the request in an error, for debugging.
                        true => {
                            let body = format!("{} {:?}", request.uri(), request.headers());
                            (StatusCode::from_u16(status).unwrap(), body).into_response()
                        }
                    }
                }
            }));
        let server = HttpTestServer::start(ANY_PORT, app);
        let url = format!(
            "http://canary-user:canary%2Dword@{}/mcp?key=canary-of-the-url",
            server.address
        );
        let keyed = HttpServer::new(url).with_header("X-Key", "canary-of-the-header");
        let set = McpToolset::new(keyed.with_timeout(LONG)).with_tool_list_cache_ttl(LONG);
        let set = Arc::new(set);
        AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
        *is_failing.lock().unwrap() = true;
        let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
        let error = run.error();
        assert!(error.contains("MCP tool execution"), "{status}: {error}");
        assert!(!error.contains("canary"), "{status}: {error}");
        // The client sends the credentials in base64. The error lacks even their first characters.
        assert!(!error.contains("Y2FuYXJ5"), "{status}: {error}");
        *is_failing.lock().unwrap() = false;
        let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"back"}"#).await;
        assert_eq!(run.text(), "back", "{status}");
    }
}

#[tokio::test]
async fn protocol_error_contains_no_secrets() {
    let folder = retain_testkit::scratch::folder();
    let server = HttpTestServer::start(ANY_PORT, app(folder.path()));
    // The server's error quotes the secret, so it must be redacted.
    let keyed = HttpServer::new(server.url()).with_header("X-Key", "not like this");
    let set = Arc::new(McpToolset::new(keyed.with_timeout(LONG)));
    let run = AgentRun::calling_tool(&set, "refuse", "{}").await;
    assert_eq!(run.error(), "MCP tool execution failed: …");
}
