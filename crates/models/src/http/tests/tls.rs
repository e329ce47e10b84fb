//! TLS and HTTP/2, which all real providers use.
//!
//! The client reads trusted CAs from environment variables, so a test that sets them runs itself
//! again in a child process. The certificates and keys in `tls/` are used only here.

use std::{future::poll_fn, sync::Mutex};

use bytes::Bytes;
use h2::{Reason, server::SendResponse};
use http::{Request, Response};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::{net::TcpListener, sync::Notify};
use tokio_rustls::TlsAcceptor;

use super::*;

const CHILD: &str = "RETAIN_TEST_TLS_CHILD";
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server-key.pem");
/// The CA certificate that signed the server's certificate.
pub(super) const CA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/tests/tls/ca.pem");

/// What the server received: connections, requests, and a stream reset.
#[derive(Default)]
pub(super) struct ServerLog {
    connections: Mutex<usize>,
    requests: Mutex<Vec<String>>,
    reset: Mutex<Option<Reason>>,
    was_reset: Notify,
}

/// Sends three requests: a stream that is read to its end, a stream that is dropped, and a call
/// that the server answers only after the second request was cancelled.
pub(super) async fn ask_three_times(url: String) {
    let model = model_at(url, fast_retries(), Auth::Bearer("key-123".into()));
    assert_eq!(ask(&model, true).await, ["Hel", "lo", "Hello"]);
    let mut answers = model.generate(Arc::new(LlmRequest::default()), true);
    assert_eq!(text_or_code(answers.next().await.expect("a piece")), "Hel");
    drop(answers);
    assert_eq!(ask(&model, false).await, ["whole"]);
}

async fn serve(listener: TcpListener, log: Arc<ServerLog>) {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate with its key");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    while let Ok((stream, _)) = listener.accept().await {
        *log.connections.lock().expect("lock") += 1;
        let stream = acceptor.accept(stream).await.expect("TLS");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond, Arc::clone(&log)));
            }
        });
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    log: Arc<ServerLog>,
) {
    let key = request.headers().get("authorization");
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    let number = {
        let mut requests = log.requests.lock().expect("lock");
        requests.push(format!("{} {key}", request.uri().path()));
        requests.len()
    };
    let kind = match number {
        3 => "application/json",
        _ => "text/event-stream",
    };
    if number == 3 && log.reset.lock().expect("lock").is_none() {
        log.was_reset.notified().await;
    }
    let head = Response::builder().header("content-type", kind).body(());
    let mut body = respond
        .send_response(head.expect("a head"), false)
        .expect("sent");
    let mut send = |text: &'static str, last| {
        body.send_data(Bytes::from_static(text.as_bytes()), last)
            .expect("sent");
    };
    match number {
        1 => {
            send("data: Hel\n\n", false);
            send("data: lo\n\ndata: end\n\n", true);
        }
        2 => {
            send("data: Hel\n\n", false);
            let reason = poll_fn(|context| body.poll_reset(context)).await;
            *log.reset.lock().expect("lock") = reason.ok();
            log.was_reset.notify_one();
        }
        _ => send("whole", true),
    }
}

/// Starts the server. Returns its port and its log.
pub(super) async fn provider() -> (u16, Arc<ServerLog>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let log = Arc::new(ServerLog::default());
    tokio::spawn(serve(listener, Arc::clone(&log)));
    (port, log)
}

/// Checks that the server received the requests of `ask_three_times` over one connection, and the
/// cancellation.
pub(super) fn check(log: &ServerLog) {
    assert_eq!(*log.connections.lock().expect("lock"), 1);
    let requests = log.requests.lock().expect("lock").clone();
    assert_eq!(requests, ["/ask Bearer key-123"; 3]);
    assert_eq!(*log.reset.lock().expect("lock"), Some(Reason::CANCEL));
}

#[tokio::test(flavor = "multi_thread")]
async fn model_uses_http_2_over_tls() {
    if let Ok(url) = std::env::var(CHILD) {
        return ask_three_times(url).await;
    }
    let (port, log) = provider().await;
    let variables = vec![
        (CHILD, format!("https://localhost:{port}")),
        ("SSL_CERT_FILE", CA_FILE.to_owned()),
    ];
    let test = "http::tests::tls::model_uses_http_2_over_tls";
    run_in_child_process(test, variables).await;
    check(&log);
}

/// Without trusted CAs, plain HTTP calls still work.
#[tokio::test(flavor = "multi_thread")]
async fn plain_http_works_without_trusted_cas() {
    const CHILD: &str = "RETAIN_TEST_NO_AUTHORITIES_CHILD";
    if let Ok(url) = std::env::var(CHILD) {
        let model = model_at(url, fast_retries(), Auth::None);
        assert_eq!(ask(&model, false).await, ["Hello"]);
        return;
    }
    let server = Server::playing([crate::testing::answer("Hello")]).await;
    let variables = vec![
        (CHILD, server.url()),
        ("SSL_CERT_FILE", "/no/such/file".to_owned()),
        ("SSL_CERT_DIR", "/no/such/folder".to_owned()),
    ];
    let test = "http::tests::tls::plain_http_works_without_trusted_cas";
    run_in_child_process(test, variables).await;
    assert_eq!(server.received().len(), 1);
}

/// The client rejects the certificate of an unknown CA.
#[tokio::test]
async fn certificate_of_an_unknown_ca_is_rejected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate with its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let accepted = acceptor.accept(stream).await;
            assert!(
                accepted.is_err(),
                "the client accepted a certificate of an unknown CA"
            );
        }
    });
    let url = format!("https://localhost:{port}");
    let model = model_at(url, fast_retries(), Auth::Bearer("key-123".into()));
    assert_eq!(ask(&model, false).await, ["!ConnectionError"]);
}
