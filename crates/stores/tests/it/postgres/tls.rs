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

use super::{created, database, event, texts};

const KEY: &[u8] = include_bytes!("tls/server-key.pem");
const SERVER: &[u8] = include_bytes!("tls/server.pem");
const ELSEWHERE: &[u8] = include_bytes!("tls/elsewhere.pem");
const ITS_OWN: &[u8] = include_bytes!("tls/its-own-ca.pem");
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/postgres/tls/ca.pem");
const OTHER_AUTHORITY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/postgres/tls/other-ca.pem"
);
const ITS_OWN_AUTHORITY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/postgres/tls/its-own-ca.pem"
);

/// The `SSLRequest` message: a length of 8, and a number that is not a protocol version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// How the proxy answers a request for TLS.
#[derive(Clone)]
enum Answer {
    /// With this certificate; clients that do not request TLS are rejected.
    Encrypted(TlsAcceptor),
    /// That TLS is not supported.
    Plain,
}

fn with(certificate: &[u8]) -> Answer {
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
struct StandIn {
    /// The URI of the database through the proxy, up to the host.
    before: String,
    port: u16,
    name: String,
    encrypted: Arc<AtomicUsize>,
}

impl StandIn {
    async fn new(database: &TestDatabase, answer: Answer) -> StandIn {
        let uri = database.uri();
        let (before, rest) = uri.split_once('@').unwrap();
        let (server, name) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let encrypted = Arc::new(AtomicUsize::new(0));
        let (server, seen) = (server.to_owned(), Arc::clone(&encrypted));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(line(
                    client,
                    server.clone(),
                    answer.clone(),
                    Arc::clone(&seen),
                ));
            }
        });
        StandIn {
            before: before.to_owned(),
            port,
            name: name.to_owned(),
            encrypted,
        }
    }

    async fn open(&self, host: &str, query: &str) -> Result<PostgresSessionService, SessionError> {
        let StandIn {
            before, port, name, ..
        } = self;
        PostgresSessionService::connect(&format!("{before}@{host}:{port}/{name}?{query}")).await
    }

    /// Open the store and use it.
    async fn works(&self, host: &str, query: &str) {
        let sessions = self.open(host, query).await;
        let sessions = sessions.unwrap_or_else(|error| panic!("{host} {query}: {error}"));
        let key = created(&sessions, query).await;
        sessions.append(&key, event("hello").into()).await.unwrap();
        assert_eq!(texts(&sessions, &key).await, ["hello"]);
    }

    async fn is_refused(&self, host: &str, query: &str) -> String {
        let error = self.open(host, query).await.unwrap_err();
        assert!(matches!(error, SessionError::Open { .. }), "{error:?}");
        error.to_string()
    }

    /// Return the number of encrypted connections.
    fn encrypted(&self) -> usize {
        self.encrypted.load(Ordering::SeqCst)
    }
}

/// Forward one connection.
async fn line(mut client: TcpStream, server: String, answer: Answer, seen: Arc<AtomicUsize>) {
    let mut first = [0; 8];
    if client.read_exact(&mut first).await.is_err() {
        return;
    }
    let wants_tls = first == SSL_REQUEST;
    match answer {
        Answer::Encrypted(acceptor) if wants_tls => {
            client.write_all(b"S").await.unwrap();
            if let Ok(mut client) = acceptor.accept(client).await {
                seen.fetch_add(1, Ordering::SeqCst);
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        }
        // As a server does that requires TLS.
        Answer::Encrypted(_) => (),
        Answer::Plain => {
            let mut server = TcpStream::connect(server).await.unwrap();
            match wants_tls {
                true => client.write_all(b"N").await.unwrap(),
                false => server.write_all(&first).await.unwrap(),
            }
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    }
}

fn roots(mode: &str, file: &str) -> String {
    format!("sslmode={mode}&sslrootcert={file}")
}

#[tokio::test(flavor = "multi_thread")]
async fn sslmode_decides_which_certificates_are_trusted() {
    let Some(database) = database().await else {
        return;
    };
    let here = StandIn::new(&database, with(SERVER)).await;
    for host in ["localhost", "127.0.0.1"] {
        here.works(
            host,
            &format!(
                "{}&application_name={host}",
                roots("verify-full", AUTHORITY)
            ),
        )
        .await;
    }
    assert!(here.encrypted() > 0);
    let refusal = here
        .is_refused("localhost", &roots("verify-full", OTHER_AUTHORITY))
        .await;
    assert!(refusal.contains("certificate"), "{refusal}");
    // The system trusts none of these certificates.
    here.is_refused("localhost", "sslmode=verify-full").await;
    here.works("localhost", "sslmode=require").await;
    here.works("localhost", "sslmode=prefer").await;

    let elsewhere = StandIn::new(&database, with(ELSEWHERE)).await;
    let refusal = elsewhere
        .is_refused("localhost", &roots("verify-full", AUTHORITY))
        .await;
    assert!(refusal.contains("certificate"), "{refusal}");
    let before = elsewhere.encrypted();
    elsewhere
        .works("localhost", &roots("verify-ca", AUTHORITY))
        .await;
    elsewhere
        .is_refused("localhost", &roots("verify-ca", OTHER_AUTHORITY))
        .await;
    // An explicit root certificate is enforced even with `require`.
    elsewhere
        .is_refused("localhost", &roots("require", OTHER_AUTHORITY))
        .await;
    assert!(elsewhere.encrypted() > before);
}

/// As documented: a CA certificate cannot be a server certificate.
#[tokio::test(flavor = "multi_thread")]
async fn ca_certificate_used_by_the_server_is_rejected() {
    let Some(database) = database().await else {
        return;
    };
    let itself = StandIn::new(&database, with(ITS_OWN)).await;
    let refusal = itself
        .is_refused("localhost", &roots("verify-full", ITS_OWN_AUTHORITY))
        .await;
    assert!(refusal.contains("certificate"), "{refusal}");
    itself.works("localhost", "sslmode=require").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unencrypted_connection_needs_an_sslmode_that_allows_it() {
    let Some(database) = database().await else {
        return;
    };
    let insists = StandIn::new(&database, with(SERVER)).await;
    insists.is_refused("127.0.0.1", "sslmode=disable").await;
    assert_eq!(insists.encrypted(), 0);
    let plain = StandIn::new(&database, Answer::Plain).await;
    for query in ["sslmode=prefer", "sslmode=allow", "sslmode=disable"] {
        plain.works("127.0.0.1", query).await;
    }
    for query in ["sslmode=require", &roots("verify-full", AUTHORITY)] {
        let refusal = plain.is_refused("127.0.0.1", query).await;
        assert!(refusal.contains("TLS"), "{refusal}");
    }
    assert_eq!(plain.encrypted(), 0);
}
