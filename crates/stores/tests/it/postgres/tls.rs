//! TLS to a real server behind a test proxy: which certificates each `sslmode` trusts.
//!
//! Certificates and keys below `tls/` were made for these tests only: `server.pem` is issued to
//! localhost and 127.0.0.1, `elsewhere.pem` to db.example, both signed by `ca.pem`;
//! `its-own-ca.pem` is self-signed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use retain_core::{SessionError, SessionLog as _};
use retain_stores::PostgresSessionService;
use retain_testkit::postgres::TestDatabase;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::{create, create_database, event, read_texts};

const KEY: &[u8] = include_bytes!("tls/server-key.pem");
const SERVER: &[u8] = include_bytes!("tls/server.pem");
const OTHER_HOST: &[u8] = include_bytes!("tls/elsewhere.pem");
const SELF_SIGNED: &[u8] = include_bytes!("tls/its-own-ca.pem");
const CA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/postgres/tls/ca.pem");
const OTHER_CA_FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/postgres/tls/other-ca.pem"
);
const SELF_SIGNED_CA_FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/postgres/tls/its-own-ca.pem"
);

/// The `SSLRequest` message: a length of 8, and a number that is not a protocol version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// How the proxy answers a request for TLS.
#[derive(Clone)]
enum Answer {
    /// Accept it with this certificate; reject clients that do not request TLS.
    Encrypted(TlsAcceptor),
    /// Refuse it and continue without TLS.
    Plain,
}

fn encrypted_with(certificate: &[u8]) -> Answer {
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Answer::Encrypted(TlsAcceptor::from(Arc::new(config)))
}

/// A proxy in front of the server of a test database.
struct TlsProxy {
    /// The URI of the database through the proxy, up to the host.
    before: String,
    port: u16,
    name: String,
    encrypted: Arc<AtomicUsize>,
}

impl TlsProxy {
    async fn new(database: &TestDatabase, answer: Answer) -> TlsProxy {
        let uri = database.uri();
        let (before, rest) = uri.split_once('@').unwrap();
        let (server, name) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let encrypted = Arc::new(AtomicUsize::new(0));
        let (server, encrypted_count) = (server.to_owned(), Arc::clone(&encrypted));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(
                    client,
                    server.clone(),
                    answer.clone(),
                    Arc::clone(&encrypted_count),
                ));
            }
        });
        TlsProxy {
            before: before.to_owned(),
            port,
            name: name.to_owned(),
            encrypted,
        }
    }

    async fn open(&self, host: &str, query: &str) -> Result<PostgresSessionService, SessionError> {
        let TlsProxy {
            before, port, name, ..
        } = self;
        PostgresSessionService::connect(&format!("{before}@{host}:{port}/{name}?{query}")).await
    }

    /// Opens the store and appends an event; fails if either fails.
    async fn assert_works(&self, host: &str, query: &str) {
        let sessions = self.open(host, query).await;
        let sessions = sessions.unwrap_or_else(|error| panic!("{host} {query}: {error}"));
        let key = create(&sessions, query).await;
        sessions.append(&key, event("hello").into()).await.unwrap();
        assert_eq!(read_texts(&sessions, &key).await, ["hello"]);
    }

    async fn open_error(&self, host: &str, query: &str) -> String {
        let error = self.open(host, query).await.unwrap_err();
        assert!(matches!(error, SessionError::Open { .. }), "{error:?}");
        error.to_string()
    }

    /// Returns the number of encrypted connections.
    fn encrypted(&self) -> usize {
        self.encrypted.load(Ordering::SeqCst)
    }
}

/// Forwards one connection.
async fn forward(
    mut client: TcpStream,
    server: String,
    answer: Answer,
    encrypted_count: Arc<AtomicUsize>,
) {
    let mut first = [0; 8];
    if client.read_exact(&mut first).await.is_err() {
        return;
    }
    let wants_tls = first == SSL_REQUEST;
    match answer {
        Answer::Encrypted(acceptor) if wants_tls => {
            client.write_all(b"S").await.unwrap();
            if let Ok(mut client) = acceptor.accept(client).await {
                encrypted_count.fetch_add(1, Ordering::SeqCst);
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        }
        // A server that requires TLS closes the connection.
        Answer::Encrypted(_) => (),
        Answer::Plain => {
            let mut server = TcpStream::connect(server).await.unwrap();
            if wants_tls {
                client.write_all(b"N").await.unwrap();
            } else {
                server.write_all(&first).await.unwrap();
            }
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    }
}

fn query_with_roots(mode: &str, file: &str) -> String {
    format!("sslmode={mode}&sslrootcert={file}")
}

#[tokio::test(flavor = "multi_thread")]
async fn sslmode_decides_which_certificates_are_trusted() {
    let Some(database) = create_database().await else {
        return;
    };
    let local = TlsProxy::new(&database, encrypted_with(SERVER)).await;
    for host in ["localhost", "127.0.0.1"] {
        local
            .assert_works(
                host,
                &format!(
                    "{}&application_name={host}",
                    query_with_roots("verify-full", CA_FILE)
                ),
            )
            .await;
    }
    assert!(local.encrypted() > 0);
    let error = local
        .open_error("localhost", &query_with_roots("verify-full", OTHER_CA_FILE))
        .await;
    assert!(error.contains("certificate"), "{error}");
    // The CAs that the system trusts did not sign this certificate.
    local.open_error("localhost", "sslmode=verify-full").await;
    local.assert_works("localhost", "sslmode=require").await;
    local.assert_works("localhost", "sslmode=prefer").await;

    let other_host = TlsProxy::new(&database, encrypted_with(OTHER_HOST)).await;
    let error = other_host
        .open_error("localhost", &query_with_roots("verify-full", CA_FILE))
        .await;
    assert!(error.contains("certificate"), "{error}");
    let before = other_host.encrypted();
    other_host
        .assert_works("localhost", &query_with_roots("verify-ca", CA_FILE))
        .await;
    other_host
        .open_error("localhost", &query_with_roots("verify-ca", OTHER_CA_FILE))
        .await;
    // An explicit root certificate is enforced even with `require`.
    other_host
        .open_error("localhost", &query_with_roots("require", OTHER_CA_FILE))
        .await;
    assert!(other_host.encrypted() > before);
}

/// The TLS library rejects such a certificate even if it is trusted; the user guide says so.
#[tokio::test(flavor = "multi_thread")]
async fn connect_rejects_a_ca_certificate_as_server_certificate() {
    let Some(database) = create_database().await else {
        return;
    };
    let self_signed = TlsProxy::new(&database, encrypted_with(SELF_SIGNED)).await;
    let error = self_signed
        .open_error(
            "localhost",
            &query_with_roots("verify-full", SELF_SIGNED_CA_FILE),
        )
        .await;
    assert!(error.contains("certificate"), "{error}");
    self_signed
        .assert_works("localhost", "sslmode=require")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_without_tls_needs_an_sslmode_that_allows_it() {
    let Some(database) = create_database().await else {
        return;
    };
    let tls_only = TlsProxy::new(&database, encrypted_with(SERVER)).await;
    tls_only.open_error("127.0.0.1", "sslmode=disable").await;
    assert_eq!(tls_only.encrypted(), 0);
    let plain = TlsProxy::new(&database, Answer::Plain).await;
    for query in ["sslmode=prefer", "sslmode=allow", "sslmode=disable"] {
        plain.assert_works("127.0.0.1", query).await;
    }
    for query in ["sslmode=require", &query_with_roots("verify-full", CA_FILE)] {
        let error = plain.open_error("127.0.0.1", query).await;
        assert!(error.contains("TLS"), "{error}");
    }
    assert_eq!(plain.encrypted(), 0);
}
