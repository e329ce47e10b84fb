//! The HTTP client of the exporter. The exporter calls the client on a thread without a Tokio
//! runtime, so the client runs the requests on the program's runtime.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

use super::OtlpError;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Default export timeout, as in OpenTelemetry.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Variables with the export timeout in milliseconds. The exporter checks it only between attempts,
/// so the HTTP client enforces it too: otherwise a hanging collector would never time out.
const TIMEOUT_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];

/// Maximum size of a response in bytes.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Client {
    client: reqwest::Client,
    runtime: Handle,
    /// Whether the last export failed. A failure is logged once, not for every batch.
    fails: AtomicBool,
}

impl Client {
    pub(super) fn new(runtime: Handle) -> Result<Client, OtlpError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // An error means that another thread has installed a provider, which is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("retain/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(export_timeout())
            // Follow no redirect: the headers may hold a credential for the collector.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| OtlpError(error.to_string()))?;
        Ok(Client {
            client,
            runtime,
            fails: AtomicBool::new(false),
        })
    }

    /// Logs when exports begin to fail, and when they succeed again.
    fn log_change(&self, fails: bool, why: impl FnOnce() -> String) {
        match (self.fails.swap(fails, Ordering::Relaxed), fails) {
            (false, true) => tracing::warn!(why = why(), "spans do not reach the collector"),
            (true, false) => tracing::info!("spans reach the collector again"),
            _ => {}
        }
    }
}

fn export_timeout() -> Duration {
    let mut set = TIMEOUT_VARIABLES
        .iter()
        .filter_map(|name| env::var(name).ok());
    let set = set.find_map(|value| value.trim().parse().ok());
    set.map_or(EXPORT_TIMEOUT, Duration::from_millis)
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self
            .runtime
            .spawn(async move { send(&client, request).await });
        let answer = match sent.await {
            Ok(answer) => answer,
            Err(error) => Err(error.into()),
        };
        match &answer {
            Ok(answer) => {
                let status = answer.status();
                self.log_change(!status.is_success(), || status.to_string());
            }
            // Log only the cause: the URL may contain a password.
            Err(error) => self.log_change(true, || root_cause(error.as_ref())),
        }
        answer
    }
}

async fn send(
    client: &reqwest::Client,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (parts, body) = request.into_parts();
    let request = client.post(parts.uri.to_string()).headers(parts.headers);
    let mut answer = request.body(body).send().await.map_err(without_url)?;
    let mut read = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(without_url)? {
        if read.len() + piece.len() > RESPONSE_BYTES_MAX {
            return Err("the collector's response exceeds 1 MiB".into());
        }
        read.extend_from_slice(&piece);
    }
    let mut response = Response::new(Bytes::from(read));
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    Ok(response)
}

fn without_url(error: reqwest::Error) -> HttpError {
    error.without_url().into()
}

/// Returns the innermost cause, which is the most specific.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
