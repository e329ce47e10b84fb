//! `Http`: the client that all models share, with its timeouts.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::{
    Client, ClientBuilder, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use retain_core::{Clock, SystemClock};
use retain_runtime::{BuildError, ModelError};
use tokio::time::{Instant, timeout_at};

use super::{
    Auth, Call, Retries, Secrets,
    address::{add_secrets, host_of},
    auth::AuthHeader,
    options::Options,
    retry::{AttemptError, Attempts},
};
use crate::provider::Failure;

/// Timeouts and retries of calls to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpSettings {
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for each pause: before a streamed response begins, and between two chunks. A
    /// response that is not streamed may take the total timeout to begin.
    pub idle_timeout: Duration,
    /// Timeout for a call with all its attempts, excluding the time between the caller's reads of
    /// the stream.
    pub total_timeout: Duration,
    /// The retry policy.
    pub retries: Retries,
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        HttpSettings {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            total_timeout: Duration::from_secs(900),
            retries: Retries::default(),
        }
    }
}

/// Maximum size of a response.
const BODY_MAX: usize = 256 << 20;
/// Maximum number of bytes read from an error response.
const REFUSAL_MAX: usize = 1 << 20;

/// The HTTP client of all models. Clones share connections.
///
/// Proxies are read from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    settings: HttpSettings,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.inner.settings).finish()
    }
}

/// Parses an error response.
pub(crate) type ReadFailure<'a> = dyn Fn(u16, &str) -> Failure + Send + Sync + 'a;

/// A call with its credentials, options and secrets.
pub(crate) struct Exchange<'a> {
    call: Call,
    auth: &'a Auth,
    failure: Box<ReadFailure<'a>>,
    pub(super) options: Options,
    /// Whether the response is streamed.
    stream: bool,
    /// Secrets that must be redacted from errors.
    pub(super) secrets: Secrets,
}

impl<'a> Exchange<'a> {
    /// Creates a call whose response is not streamed.
    pub(crate) fn new(
        call: Call,
        auth: &'a Auth,
        failure: impl Fn(u16, &str) -> Failure + Send + Sync + 'a,
    ) -> Exchange<'a> {
        let secrets = Secrets::default();
        add_secrets(&call.url, &secrets);
        Exchange {
            call,
            auth,
            failure: Box::new(failure),
            options: Options::default(),
            stream: false,
            secrets,
        }
    }

    /// Sets the options of the request and whether the response is streamed.
    pub(super) fn with(self, options: Options, stream: bool) -> Exchange<'a> {
        for value in options.headers.values() {
            if let Ok(value) = value.to_str() {
                self.secrets.add(value.into());
            }
        }
        Exchange {
            options,
            stream,
            ..self
        }
    }
}

impl Http {
    /// Creates a client with these settings.
    pub fn new(settings: HttpSettings) -> Result<Http, BuildError> {
        Http::with_clock(settings, Arc::new(SystemClock))
    }

    /// Creates a client with this clock, which interprets the dates of `Retry-After`.
    pub fn with_clock(settings: HttpSettings, clock: Arc<dyn Clock>) -> Result<Http, BuildError> {
        // Keep a crypto provider that is already installed.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = builder(&settings).build().or_else(|error| {
            // A self-hosted server without TLS may still be reachable.
            tracing::warn!(
                reason = causes(&error),
                "no CA certificates found: HTTPS calls will fail; install the system's CA \
                 certificates"
            );
            builder(&settings).tls_certs_only([]).build()
        });
        let client = client.map_err(|error| BuildError::new("HTTP client", causes(&error)))?;
        let inner = Inner {
            client,
            settings,
            clock,
        };
        Ok(Http {
            inner: Arc::new(inner),
        })
    }

    pub(crate) fn settings(&self) -> &HttpSettings {
        &self.inner.settings
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Creates a client without proxy and TLS, for a host that only this machine can reach.
    pub(crate) fn direct(&self) -> Result<Client, ModelError> {
        let client = builder(self.settings()).no_proxy().tls_certs_only([]);
        client
            .build()
            .map_err(|error| ModelError::new(causes(&error)).with_code("InvalidRequest"))
    }

    /// Starts the attempts of a call.
    pub(super) fn attempts(&self, options: &Options) -> Attempts {
        let settings = self.settings();
        let total = options.total_timeout.unwrap_or(settings.total_timeout);
        Attempts::new(settings.retries, from_now(total))
    }

    /// Requests something other than a model's answer, such as a token, with retries.
    pub(crate) async fn fetch(
        &self,
        url: &str,
        ask: &(dyn Fn(&Client) -> RequestBuilder + Send + Sync),
        failure: &ReadFailure<'_>,
        secrets: &Secrets,
    ) -> Result<String, ModelError> {
        let host = host_of(url);
        let mut attempts = self.attempts(&Options::default());
        loop {
            let deadline = attempts.deadline();
            let until = deadline.min(from_now(self.settings().idle_timeout));
            let error = match self.exchange(ask(self.client()), &host, until).await {
                Ok(answer) if answer.response.status().is_success() => {
                    match self.text(answer, deadline).await {
                        Ok(text) => return Ok(text),
                        Err(error) => error,
                    }
                }
                Ok(answer) => self.refusal(answer, secrets, failure, deadline).await,
                Err(error) => error,
            };
            self.wait(&mut attempts, error, secrets).await?;
        }
    }

    /// Makes a call with retries and parses its complete response.
    pub(crate) async fn ask<T>(
        &self,
        exchange: &Exchange<'_>,
        read: impl Fn(&str) -> Result<T, AttemptError>,
    ) -> Result<T, ModelError> {
        let mut attempts = self.attempts(&exchange.options);
        loop {
            let deadline = attempts.deadline();
            let body = match self.open(exchange, deadline).await {
                Ok(answer) => self.text(answer, deadline).await,
                Err(error) => Err(error),
            };
            match body.and_then(|body| read(&body)) {
                Ok(answer) => return Ok(answer),
                Err(error) => self.wait(&mut attempts, error, &exchange.secrets).await?,
            }
        }
    }

    /// Waits for the next attempt, or returns the error if there is none.
    pub(crate) async fn wait(
        &self,
        attempts: &mut Attempts,
        mut error: AttemptError,
        secrets: &Secrets,
    ) -> Result<(), ModelError> {
        error.error = secrets.clear(error.error);
        let why = error.error.code.clone().unwrap_or_default();
        let wait = attempts.next_wait(error, chance())?;
        let wait_ms = wait.as_millis() as u64;
        tracing::warn!(code = %why, wait_ms, "retrying a failed call to a model");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Reads the whole body. It may begin at any time before the deadline.
    pub(super) async fn text(
        &self,
        mut answer: Answer,
        deadline: Instant,
    ) -> Result<String, AttemptError> {
        let mut body = Vec::new();
        let mut until = deadline;
        while let Some(bytes) = answer.chunk(until).await? {
            body.extend_from_slice(&bytes);
            until = deadline.min(from_now(self.settings().idle_timeout));
        }
        String::from_utf8(body).map_err(|_| malformed("the answer is not UTF-8").into())
    }

    /// Makes one attempt: sends the call and waits for the response headers. An error status is an
    /// `Err`.
    pub(super) async fn open(
        &self,
        exchange: &Exchange<'_>,
        deadline: Instant,
    ) -> Result<Answer, AttemptError> {
        let Exchange { call, auth, .. } = exchange;
        let secrets = &exchange.secrets;
        let host = host_of(&call.url);
        let mut may_renew = true;
        loop {
            let header = timeout_at(deadline, auth.header(self)).await;
            let header = header
                .map_err(|_| AttemptError::permanent(timed_out(&host, "getting a token")))?
                .map_err(AttemptError::permanent)?;
            if let Some(header) = &header {
                secrets.add(header.secret.clone());
            }
            let answer = self
                .send(exchange, header.as_ref(), &host, deadline)
                .await?;
            let status = answer.response.status();
            if status.is_success() {
                return Ok(answer);
            }
            let token = header.as_ref().map(|header| &header.secret);
            if status == StatusCode::UNAUTHORIZED && std::mem::take(&mut may_renew) {
                // A token may be revoked before it expires.
                if token.is_some_and(|token| auth.renew(token)) {
                    continue;
                }
            }
            return Err(self
                .refusal(answer, secrets, &exchange.failure, deadline)
                .await);
        }
    }

    async fn send(
        &self,
        exchange: &Exchange<'_>,
        auth: Option<&AuthHeader>,
        host: &str,
        deadline: Instant,
    ) -> Result<Answer, AttemptError> {
        let Exchange { call, options, .. } = exchange;
        let stream = exchange.stream;
        let accept = match stream {
            true => "text/event-stream",
            false => "application/json",
        };
        let mut request = self
            .client()
            .post(&call.url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept)
            .body(call.body.clone());
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        request = request.headers(options.headers.clone());
        // An authorization header of the request replaces ours.
        if let Some(auth) = auth.filter(|auth| !options.headers.contains_key(&auth.name)) {
            request = request.header(&auth.name, &auth.value);
        }
        let until = match stream {
            true => deadline.min(from_now(self.settings().idle_timeout)),
            false => deadline,
        };
        tracing::debug!(host, stream, bytes = call.body.len(), "calling a model");
        self.exchange(request, host, until).await
    }

    /// Sends a request and waits for the response headers.
    async fn exchange(
        &self,
        request: RequestBuilder,
        host: &str,
        until: Instant,
    ) -> Result<Answer, AttemptError> {
        match timeout_at(until, request.send()).await {
            Err(_) => Err(AttemptError::transient(timed_out(
                host,
                "waiting for an answer",
            ))),
            Ok(Err(error)) => Err(broken(host, error)),
            Ok(Ok(response)) => Ok(Answer {
                response,
                host: host.to_owned(),
                read: 0,
            }),
        }
    }

    /// Reads an error response. Secrets that it repeats are redacted before anything is truncated.
    async fn refusal(
        &self,
        mut answer: Answer,
        secrets: &Secrets,
        failure: &ReadFailure<'_>,
        deadline: Instant,
    ) -> AttemptError {
        let status = answer.response.status().as_u16();
        let headers: HeaderMap = answer.response.headers().clone();
        let until = deadline.min(from_now(self.settings().idle_timeout));
        let mut body = Vec::new();
        // Read as much as arrives. If reading fails, the status alone is enough.
        while let Ok(Some(chunk)) = answer.chunk(until).await {
            body.extend_from_slice(&chunk);
            if body.len() > REFUSAL_MAX {
                break;
            }
        }
        let body = secrets.redact(&String::from_utf8_lossy(&body));
        let mut failure = failure(status, &body);
        // Redact again after parsing, because JSON may have escaped the secret.
        failure.code = secrets.redact(&failure.code);
        failure.message = secrets.redact(&failure.message);
        tracing::debug!(
            host = answer.host, status, code = %failure.code,
            "a model provider refused a call"
        );
        AttemptError::refused(status, &headers, failure, self.clock().as_ref())
    }
}

fn builder(settings: &HttpSettings) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("retain/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(settings.connect_timeout)
        // Never send an API key to a redirect target.
        .redirect(reqwest::redirect::Policy::none())
        // Retries are handled by `Attempts`.
        .retry(reqwest::retry::never())
        .tcp_keepalive(Duration::from_secs(60))
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(20))
}

/// A response whose headers have arrived.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response,
    host: String,
    read: usize,
}

impl Answer {
    /// Whether the body is JSON: some servers do not stream although requested.
    pub(crate) fn is_json(&self) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE);
        kind.and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.trim_start().starts_with("application/json"))
    }

    /// Returns the next bytes of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self, until: Instant) -> Result<Option<Vec<u8>>, AttemptError> {
        match timeout_at(until, self.response.chunk()).await {
            Err(_) => Err(AttemptError::transient(timed_out(
                &self.host,
                "waiting for the rest of an answer",
            ))),
            Ok(Err(error)) => Err(broken(&self.host, error)),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(bytes))) => {
                self.read += bytes.len();
                match self.read > BODY_MAX {
                    true => Err(AttemptError::permanent(malformed(
                        "the answer is too large",
                    ))),
                    false => Ok(Some(bytes.to_vec())),
                }
            }
        }
    }
}

/// Creates an error for an invalid response.
pub(crate) fn malformed(message: impl Into<String>) -> ModelError {
    ModelError::new(message).with_code("MalformedResponse")
}

/// Creates an error for a stream that ended before the response was complete.
pub(crate) fn cut_off(message: impl Into<String>) -> ModelError {
    ModelError::new(message).with_code("CutOff")
}

fn timed_out(host: &str, doing: &str) -> ModelError {
    ModelError::new(format!("{host}: timed out {doing}")).with_code("TimeoutError")
}

/// Converts a transport error, without the URL, which may contain a password.
fn broken(host: &str, error: reqwest::Error) -> AttemptError {
    let error = error.without_url();
    if error.is_builder() {
        let message = format!("{host}: cannot send the request: {}", causes(&error));
        return AttemptError::permanent(ModelError::new(message).with_code("InvalidRequest"));
    }
    if error.is_timeout() {
        let doing = match error.is_connect() {
            true => "connecting",
            false => "waiting for the first byte",
        };
        return AttemptError::transient(timed_out(host, doing));
    }
    let what = match error.is_connect() {
        true => "cannot connect",
        false => "the connection was interrupted",
    };
    let message = format!("{host}: {what}: {}", causes(&error));
    AttemptError::transient(ModelError::new(message).with_code("ConnectionError"))
}

/// Formats an error with its causes, which reqwest does not print.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// Returns the instant after this duration, limited to 10 years to avoid overflow.
pub(super) fn from_now(time: Duration) -> Instant {
    const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    Instant::now() + time.min(YEARS)
}

/// Returns a random number between 0 and 1.
fn chance() -> f64 {
    // Without a source of randomness, delays only have no jitter.
    getrandom::u32().map_or(0.5, |bits| f64::from(bits) / f64::from(u32::MAX))
}
