//! TLS and HTTP/2, which all real providers use.
//!
//! The trusted authorities come from the environment, so the test runs itself in another process.
//! Certificate and keys were made for it and have no other use.

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
/// The signer of the certificate.
pub(super) const AUTHORITY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/tests/tls/ca.pem");

/// The requests that the server has received.
#[derive(Default)]
pub(super) struct Seen {
    connections: Mutex<usize>,
    requests: Mutex<Vec<String>>,
    reset: Mutex<Option<Reason>>,
    was_reset: Notify,
}

/// Send three requests: a stream read to its end, one that is dropped, and a complete answer that
/// the server returns once it has seen the second one cancelled.
pub(super) async fn ask_three_times(url: String) {
    let model = model_at(url, fast_retries(), Auth::Bearer("key-123".into()));
    assert_eq!(ask(&model, true).await, ["Hel", "lo", "Hello"]);
    let mut answers = model.generate(Arc::new(LlmRequest::default()), true);
    assert_eq!(text_or_code(answers.next().await.expect("a piece")), "Hel");
    drop(answers);
    assert_eq!(ask(&model, false).await, ["whole"]);
}

async fn serve(listener: TcpListener, seen: Arc<Seen>) {
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
        *seen.connections.lock().expect("lock") += 1;
        let stream = acceptor.accept(stream).await.expect("TLS");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond, Arc::clone(&seen)));
            }
        });
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: Arc<Seen>,
) {
    let key = request.headers().get("authorization");
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    let number = {
        let mut requests = seen.requests.lock().expect("lock");
        requests.push(format!("{} {key}", request.uri().path()));
        requests.len()
    };
    let kind = match number {
        3 => "application/json",
        _ => "text/event-stream",
    };
    if number == 3 && seen.reset.lock().expect("lock").is_none() {
        seen.was_reset.notified().await;
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
            *seen.reset.lock().expect("lock") = reason.ok();
            seen.was_reset.notify_one();
        }
        _ => send("whole", true),
    }
}

/// Start the server; return its port and the record of its requests.
pub(super) async fn provider() -> (u16, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let seen = Arc::new(Seen::default());
    tokio::spawn(serve(listener, Arc::clone(&seen)));
    (port, seen)
}

/// Check that the server has seen all of `ask_three_times`, over one connection.
pub(super) fn check(seen: &Seen) {
    assert_eq!(*seen.connections.lock().expect("lock"), 1);
    let requests = seen.requests.lock().expect("lock").clone();
    assert_eq!(requests, ["/ask Bearer key-123"; 3]);
    assert_eq!(*seen.reset.lock().expect("lock"), Some(Reason::CANCEL));
}

#[tokio::test(flavor = "multi_thread")]
async fn real_providers_answer_over_tls_with_http_2() {
    if let Ok(url) = std::env::var(CHILD) {
        return ask_three_times(url).await;
    }
    let (port, seen) = provider().await;
    let variables = vec![
        (CHILD, format!("https://localhost:{port}")),
        ("SSL_CERT_FILE", AUTHORITY.to_owned()),
    ];
    let test = "http::tests::tls::real_providers_answer_over_tls_with_http_2";
    run_in_child_process(test, variables).await;
    check(&seen);
}

/// A machine without certificate authorities still reaches a plain HTTP server.
#[tokio::test(flavor = "multi_thread")]
async fn missing_certificate_authorities_do_not_block_plain_http() {
    const CHILD: &str = "RETAIN_TEST_NO_AUTHORITIES_CHILD";
    if let Ok(url) = std::env::var(CHILD) {
        let here = model_at(url, fast_retries(), Auth::None);
        assert_eq!(ask(&here, false).await, ["Hello"]);
        return;
    }
    let server = Server::playing([crate::testing::answer("Hello")]).await;
    let variables = vec![
        (CHILD, server.url()),
        ("SSL_CERT_FILE", "/no/such/file".to_owned()),
        ("SSL_CERT_DIR", "/no/such/folder".to_owned()),
    ];
    let test = "http::tests::tls::missing_certificate_authorities_do_not_block_plain_http";
    run_in_child_process(test, variables).await;
    assert_eq!(server.received().len(), 1);
}

/// A certificate from an unknown authority is not trusted.
#[tokio::test]
async fn unknown_certificate_authority_is_not_trusted() {
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
            assert!(accepted.is_err(), "the client trusts a stranger");
        }
    });
    let url = format!("https://localhost:{port}");
    let model = model_at(url, fast_retries(), Auth::Bearer("key-123".into()));
    assert_eq!(ask(&model, false).await, ["!ConnectionError"]);
}
