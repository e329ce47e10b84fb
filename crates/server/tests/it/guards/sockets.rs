//! Behavior that needs a real connection: sizes, speeds, counts, and shutdown.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use retain_core::{Event, GetSessionConfig, Session};
use retain_runtime::LlmAgent;
use retain_server::{Apps, Guards, Runs, Server, ServerLimits, serve_guarded};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::guards::support::{APP, HangingModel, services};

/// A timeout that a passing test does not reach, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A limit that is short enough for tests to wait until it is exceeded.
const SHORT_TIMEOUT: Duration = Duration::from_millis(200);

/// A listening server, and the signal that stops it.
struct TestServer {
    address: SocketAddr,
    server: Arc<Server>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

impl TestServer {
    async fn with(limits: ServerLimits) -> TestServer {
        let agent = LlmAgent::builder("clerk")
            .model(HangingModel)
            .build()
            .unwrap();
        let services = services();
        let apps = Apps::new(services.clone())
            .with_agent(APP, agent)
            .with_auto_create_session(true)
            .with_runs(Runs::with_limits(1, 10));
        let server = Arc::new(Server::new(services, apps));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let guards = Arc::new(Guards::default().with_limits(limits));
        let serving = serve_guarded(Arc::clone(&server), listener, guards, async {
            let _ = stopped.await;
        });
        TestServer {
            address,
            server,
            stop,
            ended: tokio::spawn(serving),
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect().await;
        // The server may close before it has read everything.
        let _ = socket.write_all(bytes).await;
        read_to_end(&mut socket).await
    }

    async fn metric(&self, name: &str) -> u64 {
        let text = self.exchange(&get("/metrics")).await;
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or_default()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap_or(0)
    }

    async fn wait_for_metric(&self, name: &str, expected: u64) {
        let reached = async {
            while self.metric(name).await != expected {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, reached).await.expect(name);
    }

    async fn session(&self) -> Session {
        self.find_session().await.unwrap()
    }

    async fn find_session(&self) -> Option<Session> {
        let sessions = self.server.services.session_service();
        let read = sessions.get_session(APP, "ada", "s1", GetSessionConfig::default());
        read.await.unwrap()
    }

    /// Waits until the message of a run is stored, which is shortly after it counts as active.
    async fn wait_for_message(&self) {
        let stored = async {
            while self
                .find_session()
                .await
                .is_none_or(|it| it.events.is_empty())
            {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, stored)
            .await
            .expect("the message is stored");
    }
}

async fn read_to_end(socket: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let reading = async {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = socket.read(&mut buffer).await {
            read.extend_from_slice(&buffer[..count]);
        }
    };
    timeout(PATIENCE, reading).await.expect("the server closes");
    String::from_utf8_lossy(&read).into_owned()
}

/// Reads until the response contains `wanted`.
async fn read_until(socket: &mut TcpStream, wanted: &str) -> String {
    let mut read = String::new();
    let reading = async {
        let mut buffer = [0; 4096];
        while !read.contains(wanted) {
            let count = socket.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "{read}");
            read.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    };
    timeout(PATIENCE, reading).await.expect(wanted);
    read
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").into_bytes()
}

fn run(path: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"appName":"{APP}","userId":"ada","sessionId":"s1",
        "newMessage":{{"role":"user","parts":[{{"text":"Hello?"}}]}}}}"#
    );
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    );
    format!("{head}\r\n{body}").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn body_over_the_size_limit_is_rejected() {
    let limits = ServerLimits::default().with_body_bytes(1000);
    let server = TestServer::with(limits).await;
    let head =
        "POST /run HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let announced = format!("{head}Content-Length: 1001\r\n\r\n");
    let answer = server.exchange(announced.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // A chunked body, whose size is not announced, is rejected too.
    let chunk = format!("400\r\n{}\r\n", " ".repeat(0x400));
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n");
    let answer = server.exchange(chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let small = format!("{head}Content-Length: 2\r\n\r\n{{}}");
    let answer = server.exchange(small.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_body_is_rejected() {
    let server = TestServer::with(ServerLimits::default()).await;
    for encoding in ["gzip", "br", "gzip, gzip", "zstd"] {
        let bomb = format!(
            "POST /run HTTP/1.1\r\nHost: x\r\nContent-Encoding: {encoding}\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
        );
        let answer = server.exchange(bomb.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 415 "), "{encoding}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_or_many_headers_are_rejected() {
    let server = TestServer::with(ServerLimits::default()).await;
    let large = format!(
        "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {}\r\n\r\n",
        "a".repeat(70_000)
    );
    let answer = server.exchange(large.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = "X: a\r\n".repeat(101);
    let many = format!("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{many}\r\n");
    let answer = server.exchange(many.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_sender_is_disconnected() {
    // The client sends half of the headers, or nothing.
    let limits = ServerLimits::default().with_header_timeout(SHORT_TIMEOUT);
    let server = TestServer::with(limits).await;
    server.exchange(b"GET /health HTT").await;
    server.exchange(b"").await;
    // The client sends nothing after a response. The timeout suffices for a valid request, even on
    // a slow machine.
    let limits = ServerLimits::default()
        .with_header_timeout(Duration::from_secs(3))
        .with_body_timeout(SHORT_TIMEOUT);
    let server = TestServer::with(limits).await;
    let answer = server
        .exchange(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The client sends a part of the body.
    let half = "POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    let answer = server.exchange(half.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_reads_nothing_is_disconnected() {
    let limits = ServerLimits::default().with_write_timeout(SHORT_TIMEOUT);
    let server = TestServer::with(limits).await;
    let sessions = server.server.services.session_service();
    let mut session = sessions
        .create_session(APP, "ada", None, Some("s1"))
        .await
        .unwrap();
    // More data than the buffers of both sockets can hold.
    for _ in 0..32 {
        let event = Event::user_text("x".repeat(1_000_000));
        sessions.append_event(&mut session, event).await.unwrap();
    }
    let mut socket = server.connect().await;
    let path = format!("/apps/{APP}/users/ada/sessions/s1");
    socket.write_all(&get(&path)).await.unwrap();
    // Only the connection that reads the metrics remains.
    server.wait_for_metric("retain_connections_active", 1).await;
    drop(socket);
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_client_releases_its_resources() {
    let server = TestServer::with(ServerLimits::default()).await;
    let sessions = server.server.services.session_service();
    sessions
        .create_session(APP, "ada", None, Some("s1"))
        .await
        .unwrap();
    let tail = format!("/api/v1/apps/{APP}/users/ada/sessions/s1/tail");
    let mut socket = server.connect().await;
    socket.write_all(&get(&tail)).await.unwrap();
    server.wait_for_metric("retain_streams_active", 1).await;
    drop(socket);
    server.wait_for_metric("retain_streams_active", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited() {
    let limits = ServerLimits::default().with_connections(1);
    let server = TestServer::with(limits).await;
    let mut first = server.connect().await;
    first
        .write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut first, "ok").await;
    let mut second = server.connect().await;
    second.write_all(&get("/health")).await.unwrap();
    // A server without the limit would answer the second connection during these requests. A server
    // with the limit never does, so this check cannot fail by chance.
    for _ in 0..20 {
        first
            .write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        read_until(&mut first, "ok").await;
    }
    let early = second.read(&mut [0]).now_or_never();
    assert!(
        early.is_none(),
        "the second connection was served while the first was open"
    );
    drop(first);
    assert!(read_to_end(&mut second).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_check_succeeds_when_streams_use_all_connections() {
    let limits = ServerLimits::default().with_connections(4);
    let server = TestServer::with(limits).await;
    let sessions = server.server.services.session_service();
    let made = sessions.create_session(APP, "ada", None, Some("s1"));
    made.await.unwrap();
    let tail = get(&format!("/api/v1/apps/{APP}/users/ada/sessions/s1/tail"));
    let mut tails = Vec::new();
    for _ in 0..3 {
        let mut socket = server.connect().await;
        socket.write_all(&tail).await.unwrap();
        read_until(&mut socket, "text/event-stream").await;
        tails.push(socket);
    }
    let refused = server.exchange(&tail).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("retry-after: 5\r\n"), "{refused}");
    for path in ["/health", "/ready"] {
        let answer = server.exchange(&get(path)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(tails);
    server.wait_for_metric("retain_streams_active", 0).await;
    let mut socket = server.connect().await;
    socket.write_all(&tail).await.unwrap();
    read_until(&mut socket, "text/event-stream").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_per_user_are_limited() {
    let server = TestServer::with(ServerLimits::default()).await;
    let mut first = server.connect().await;
    first.write_all(&run("/run")).await.unwrap();
    server.wait_for_metric("retain_runs_active", 1).await;
    for path in ["/run", "/run_sse"] {
        let mut second = server.connect().await;
        second.write_all(&run(path)).await.unwrap();
        let answer = read_until(&mut second, "\"}").await;
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(answer.contains("retry-after: 1"), "{answer}");
    }
    // A client that disconnects releases the permit of its run.
    drop(first);
    server.wait_for_metric("retain_runs_active", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_requests_and_then_interrupts_them() {
    let limits = ServerLimits::default().with_shutdown_grace(SHORT_TIMEOUT);
    let server = TestServer::with(limits).await;
    let mut running = server.connect().await;
    running.write_all(&run("/run_sse")).await.unwrap();
    server.wait_for_message().await;
    let tail = format!("/api/v1/apps/{APP}/users/ada/sessions/s1/tail");
    let mut tailing = server.connect().await;
    tailing.write_all(&get(&tail)).await.unwrap();
    read_until(&mut tailing, "Hello?").await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut idle, "ok").await;

    server.stop.send(()).unwrap();
    // Both streams end properly, with an empty last chunk.
    let tailed = read_to_end(&mut tailing).await;
    assert!(
        tailed.contains("event: restart\ndata: {\"reason\":\"shutdown\"}"),
        "{tailed}"
    );
    assert!(tailed.ends_with("0\r\n\r\n"), "{tailed}");
    let ran = read_to_end(&mut running).await;
    assert!(
        ran.contains("data: {\"error\": \"the server is shutting down"),
        "{ran}"
    );
    assert!(ran.ends_with("0\r\n\r\n"), "{ran}");
    assert_eq!(read_to_end(&mut idle).await, "");
    timeout(PATIENCE, server.ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    let sessions = server.server.services.session_service();
    let read = sessions.get_session(APP, "ada", "s1", GetSessionConfig::default());
    let session = read.await.unwrap().unwrap();
    let last = session.events.last().unwrap();
    assert_eq!(
        last.response.error_code.as_deref(),
        Some("INVOCATION_ABORTED")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_answers_an_interrupted_run_with_503() {
    let limits = ServerLimits::default().with_shutdown_grace(SHORT_TIMEOUT);
    let server = TestServer::with(limits).await;
    let mut running = server.connect().await;
    running.write_all(&run("/run")).await.unwrap();
    server.wait_for_message().await;
    assert_eq!(server.session().await.events.len(), 1);
    server.stop.send(()).unwrap();
    let answer = read_to_end(&mut running).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    timeout(PATIENCE, server.ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
