//! Programs that serve agents over HTTP and call ADK's routes.

use std::sync::Arc;

use retain::{
    Event, InMemoryMemoryService, InMemorySessionService, LlmAgent, MemoryService as _,
    SessionService as _,
    artifact::InMemoryArtifactService,
    server::{Apps, Server, Services, serve},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Sends a request with a JSON body, and returns the status line, headers and body of the response.
async fn send(listener_address: std::net::SocketAddr, route: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(listener_address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{route} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// Retain's server always has a memory service, so ADK's 400 for a server without one cannot occur.
#[tokio::test(flavor = "multi_thread")]
async fn memory_route_adds_a_session_and_rejects_an_unknown_one() {
    let sessions = Arc::new(InMemorySessionService::new());
    let memory = Arc::new(InMemoryMemoryService::new());
    let artifacts = Arc::new(InMemoryArtifactService::new());
    let services = Services::new(sessions.clone(), memory.clone(), artifacts);
    let agent = LlmAgent::builder("assistant").model("offline").build();
    let apps = Apps::new(services.clone()).with_agent("app", agent.unwrap());
    let created = sessions.create_session("app", "ada", None, Some("s1"));
    let mut session = created.await.unwrap();
    let event = Event::user_text("I like zebras.");
    sessions.append_event(&mut session, event).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::new(Server::new(services, apps));
    let serving = tokio::spawn(serve(server, listener, std::future::pending()));

    let route = "PATCH /apps/app/users/ada/memory";
    let unknown = send(address, route, r#"{"sessionId":"none"}"#).await;
    assert!(unknown.starts_with("HTTP/1.1 404 "), "{unknown}");
    assert!(unknown.contains("Session not found"), "{unknown}");
    let added = send(address, route, r#"{"sessionId":"s1"}"#).await;
    assert!(added.starts_with("HTTP/1.1 200 "), "{added}");
    let found = memory.search_memory("app", "ada", "zebras").await;
    assert_eq!(found.unwrap().memories.len(), 1);
    serving.abort();
}
