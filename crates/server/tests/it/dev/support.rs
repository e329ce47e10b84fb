//! A server with agents from files, and a client for it.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use axum::{
    body::Body,
    extract::ConnectInfo,
    http::{HeaderMap, Request},
};
use retain_core::Json;
use retain_memory::InMemoryMemoryService;
use retain_runtime::{AgentsDir, ConfigRegistry};
use retain_server::{Apps, Server, Services};
use retain_stores::{InMemoryArtifactService, InMemorySessionService};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// An address of this machine.
pub(crate) const HERE: &str = "127.0.0.1:40000";

/// An address of another machine.
pub(crate) const ELSEWHERE: &str = "192.0.2.7:40000";

pub(crate) const CHAT: &str = "name: chat\ndescription: Chats.\nmodel: offline\n\
    instruction: Be brief.\ntools:\n  - name: load_memory\n";

/// Creates a folder of agents with the app `chat`.
pub(crate) fn agents() -> TempDir {
    let folder = retain_testkit::scratch::folder();
    write(folder.path(), "chat/root_agent.yaml", CHAT);
    folder
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder can be created");
    fs::write(file, text).expect("a file can be written");
}

/// Creates a server with the agents of a folder, configured by `more`.
pub(crate) fn server(
    agents: &Path,
    registry: ConfigRegistry,
    more: impl FnOnce(Apps) -> Apps,
) -> Arc<Server> {
    let services = Services::new(
        Arc::new(InMemorySessionService::new()),
        Arc::new(InMemoryMemoryService::new()),
        Arc::new(InMemoryArtifactService::new()),
    );
    let agents = AgentsDir::open(agents, registry).expect("a folder of agents");
    let apps = more(Apps::new(services.clone()).with_dir(agents));
    Arc::new(Server::new(services, apps))
}

/// A response that was read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Json {
        Json::parse(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("text"))
    }
}

/// Sends a request from a peer address, with headers.
pub(crate) async fn ask_from(
    server: &Arc<Server>,
    from: Option<&str>,
    headers: &[(&str, &str)],
    (method, path, body): (&str, &str, &str),
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", "127.0.0.1");
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request
        .body(Body::from(body.to_owned()))
        .expect("a request");
    if let Some(from) = from {
        let peer: SocketAddr = from.parse().expect("an address");
        request.extensions_mut().insert(ConnectInfo(peer));
    }
    let answer = server.router().oneshot(request).await;
    let answer = answer.unwrap_or_else(|never| match never {});
    let (parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("a body");
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(body.to_vec()).expect("text"),
    }
}

pub(crate) async fn get(server: &Arc<Server>, path: &str) -> Answer {
    ask_from(server, Some(HERE), &[], ("GET", path, "")).await
}

pub(crate) async fn post(server: &Arc<Server>, path: &str, body: &str) -> Answer {
    ask_from(server, Some(HERE), &[], ("POST", path, body)).await
}

/// Sends a message to a session of `ada`, created if it is new; returns the SSE text.
pub(crate) async fn say(server: &Arc<Server>, app: &str, text: &str, more: &str) -> String {
    let sessions = format!("/apps/{app}/users/ada/sessions");
    post(server, &sessions, r#"{"sessionId":"s"}"#).await;
    let body = format!(
        r#"{{"appName":"{app}","userId":"ada","sessionId":"s","newMessage":{{"role":"user","parts":[{{"text":"{text}"}}]}}{more}}}"#
    );
    let answer = post(server, "/run_sse", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}
