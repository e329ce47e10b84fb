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
    retry::{AttemptError, RetryState},
};
use crate::provider::Failure;

/// Timeouts and retries of calls to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Idle timeout: the maximum wait for the headers of a streamed response, and for the next
    /// chunk of any response. An unstreamed response may begin at any time within the total
    /// timeout.
    pub idle_timeout: Duration,
    /// Timeout for a call with all its attempts. The time that the caller takes to request the next
    /// chunk of a stream does not count.
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

impl HttpSettings {
    /// Sets the timeout for connecting.
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> HttpSettings {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the idle timeout.
    pub fn with_idle_timeout(mut self, idle_timeout: Duration) -> HttpSettings {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Sets the timeout for a call with all its attempts.
    pub fn with_total_timeout(mut self, total_timeout: Duration) -> HttpSettings {
        self.total_timeout = total_timeout;
        self
    }

    /// Sets the retry policy.
    pub fn with_retries(mut self, retries: Retries) -> HttpSettings {
        self.retries = retries;
        self
    }
}

/// Maximum size of a response in bytes.
const BODY_MAX: usize = 256 << 20;
/// Maximum number of bytes read from an error response.
const ERROR_BODY_MAX: usize = 1 << 20;

/// The HTTP client that all models use. Clones share connections.
///
/// It reads proxies from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
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

/// A function that parses the status and body of an error response.
pub(crate) type FailureParser<'a> = dyn Fn(u16, &str) -> Failure + Send + Sync + 'a;

/// A call with its credentials, options and secrets.
pub(crate) struct Exchange<'a> {
    call: Call,
    auth: &'a Auth,
    failure: Box<FailureParser<'a>>,
    pub(super) options: Options,
    /// Whether the response is streamed.
    stream: bool,
    /// Secrets to redact from errors.
    pub(super) secrets: Secrets,
}

impl<'a> Exchange<'a> {
    /// Creates a call with an unstreamed response.
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

    /// Sets the request's options and whether to stream the response. Option headers may be
    /// secrets, so errors do not contain them.
    pub(super) fn with_options(self, options: Options, stream: bool) -> Exchange<'a> {
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

    /// Creates a client with this clock, which turns `Retry-After` dates into delays.
    pub fn with_clock(settings: HttpSettings, clock: Arc<dyn Clock>) -> Result<Http, BuildError> {
        // Keep the application's crypto provider, if it has installed one.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = client_builder(&settings).build().or_else(|error| {
            // Without trusted CAs, plain HTTP still works, for example with a self-hosted server.
            tracing::warn!(
                reason = format_with_causes(&error),
                "no CA certificates found: HTTPS calls will fail; install the system's CA \
                 certificates"
            );
            client_builder(&settings).tls_certs_only([]).build()
        });
        let client = client.map_err(|error| {
            let reason = format!("cannot be created: {}", format_with_causes(&error));
            BuildError::new("HTTP client", reason)
        })?;
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
        let client = client_builder(self.settings())
            .no_proxy()
            .tls_certs_only([]);
        client.build().map_err(|error| {
            ModelError::new(format_with_causes(&error)).with_code("InvalidRequest")
        })
    }

    /// Creates a call's retry state.
    pub(super) fn retry_state(&self, options: &Options) -> RetryState {
        let settings = self.settings();
        let total = options.total_timeout.unwrap_or(settings.total_timeout);
        RetryState::new(settings.retries, from_now(total))
    }

    /// Makes a call for something other than a model response, such as an access token, with
    /// retries.
    pub(crate) async fn fetch(
        &self,
        url: &str,
        build: &(dyn Fn(&Client) -> RequestBuilder + Send + Sync),
        failure: &FailureParser<'_>,
        secrets: &Secrets,
    ) -> Result<String, ModelError> {
        let host = host_of(url);
        let mut retry_state = self.retry_state(&Options::default());
        loop {
            let deadline = retry_state.deadline();
            let until = deadline.min(from_now(self.settings().idle_timeout));
            let error = match self.send(build(self.client()), &host, until).await {
                Ok(answer) if answer.response.status().is_success() => {
                    match self.read_text(answer, deadline).await {
                        Ok(text) => return Ok(text),
                        Err(error) => error,
                    }
                }
                Ok(answer) => self.read_error(answer, secrets, failure, deadline).await,
                Err(error) => error,
            };
            self.wait_before_retry(&mut retry_state, error, secrets)
                .await?;
        }
    }

    /// Makes an unstreamed call, with retries, and parses its response.
    pub(crate) async fn call<T>(
        &self,
        exchange: &Exchange<'_>,
        read: impl Fn(&str) -> Result<T, AttemptError>,
    ) -> Result<T, ModelError> {
        let mut retry_state = self.retry_state(&exchange.options);
        loop {
            let deadline = retry_state.deadline();
            let body = match self.open(exchange, deadline).await {
                Ok(answer) => self.read_text(answer, deadline).await,
                Err(error) => Err(error),
            };
            match body.and_then(|body| read(&body)) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.wait_before_retry(&mut retry_state, error, &exchange.secrets)
                        .await?
                }
            }
        }
    }

    /// Waits before the next attempt. Returns the error if the call must not be retried.
    pub(crate) async fn wait_before_retry(
        &self,
        retry_state: &mut RetryState,
        mut error: AttemptError,
        secrets: &Secrets,
    ) -> Result<(), ModelError> {
        error.error = secrets.redact_error(error.error);
        let code = error.error.code.clone().unwrap_or_default();
        let wait = retry_state.next_delay(error, random_jitter())?;
        let wait_ms = wait.as_millis() as u64;
        tracing::warn!(%code, wait_ms, "retrying a failed call to a model");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Reads the whole body as text. The idle timeout applies only once the first bytes have
    /// arrived.
    pub(super) async fn read_text(
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
        String::from_utf8(body).map_err(|_| malformed("the response is not valid UTF-8").into())
    }

    /// Makes one attempt: sends the call and waits for the response headers. Returns an error
    /// status as an error. If the provider rejects the access token, tries once more with a new
    /// one.
    pub(super) async fn open(
        &self,
        exchange: &Exchange<'_>,
        deadline: Instant,
    ) -> Result<Answer, AttemptError> {
        let Exchange { call, auth, .. } = exchange;
        let secrets = &exchange.secrets;
        let host = host_of(&call.url);
        let mut may_replace_token = true;
        loop {
            let header = timeout_at(deadline, auth.header(self)).await;
            let header = header
                .map_err(|_| AttemptError::permanent(timeout_error(&host, "getting a token")))?
                .map_err(AttemptError::permanent)?;
            if let Some(header) = &header {
                secrets.add(header.secret.clone());
            }
            let answer = self
                .send_call(exchange, header.as_ref(), &host, deadline)
                .await?;
            let status = answer.response.status();
            if status.is_success() {
                return Ok(answer);
            }
            let token = header.as_ref().map(|header| &header.secret);
            if status == StatusCode::UNAUTHORIZED && std::mem::take(&mut may_replace_token) {
                // A token may be revoked before it expires.
                if token.is_some_and(|token| auth.invalidate_token(token)) {
                    continue;
                }
            }
            return Err(self
                .read_error(answer, secrets, &exchange.failure, deadline)
                .await);
        }
    }

    async fn send_call(
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
        // A header in `http_options` replaces the model's own credentials.
        if let Some(auth) = auth.filter(|auth| !options.headers.contains_key(&auth.name)) {
            request = request.header(&auth.name, &auth.value);
        }
        let until = match stream {
            true => deadline.min(from_now(self.settings().idle_timeout)),
            false => deadline,
        };
        tracing::debug!(host, stream, bytes = call.body.len(), "calling a model");
        self.send(request, host, until).await
    }

    /// Sends a request and waits for the response headers.
    async fn send(
        &self,
        request: RequestBuilder,
        host: &str,
        until: Instant,
    ) -> Result<Answer, AttemptError> {
        match timeout_at(until, request.send()).await {
            Err(_) => Err(AttemptError::transient(timeout_error(
                host,
                "waiting for an answer",
            ))),
            Ok(Err(error)) => Err(transport_error(host, error)),
            Ok(Ok(response)) => Ok(Answer {
                response,
                host: host.to_owned(),
                read: 0,
            }),
        }
    }

    /// Reads an error response. Redacts secrets before it truncates the text, because a truncated
    /// secret would not be recognized.
    async fn read_error(
        &self,
        mut answer: Answer,
        secrets: &Secrets,
        failure: &FailureParser<'_>,
        deadline: Instant,
    ) -> AttemptError {
        let status = answer.response.status().as_u16();
        let headers: HeaderMap = answer.response.headers().clone();
        let until = deadline.min(from_now(self.settings().idle_timeout));
        let mut body = Vec::new();
        // Read as much as arrives. If reading fails, the status alone is enough.
        while let Ok(Some(chunk)) = answer.chunk(until).await {
            body.extend_from_slice(&chunk);
            if body.len() > ERROR_BODY_MAX {
                break;
            }
        }
        let body = secrets.redact(&String::from_utf8_lossy(&body));
        let mut failure = failure(status, &body);
        // Redact again after parsing, because the secret may have been escaped in the JSON.
        failure.code = secrets.redact(&failure.code);
        failure.message = secrets.redact(&failure.message);
        tracing::debug!(
            host = answer.host, status, code = %failure.code,
            "a model provider returned an error"
        );
        AttemptError::from_response(status, &headers, failure, self.clock().as_ref())
    }
}

fn client_builder(settings: &HttpSettings) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("retain/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(settings.connect_timeout)
        // Never send an API key to a redirect target.
        .redirect(reqwest::redirect::Policy::none())
        // `Http` retries by itself, see `RetryState`.
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
    /// Whether the body is JSON and not a stream: some servers ignore the request to stream.
    pub(crate) fn is_json(&self) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE);
        kind.and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.trim_start().starts_with("application/json"))
    }

    /// Returns the next bytes of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self, until: Instant) -> Result<Option<Vec<u8>>, AttemptError> {
        match timeout_at(until, self.response.chunk()).await {
            Err(_) => Err(AttemptError::transient(timeout_error(
                &self.host,
                "waiting for the rest of an answer",
            ))),
            Ok(Err(error)) => Err(transport_error(&self.host, error)),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(bytes))) => {
                self.read += bytes.len();
                match self.read > BODY_MAX {
                    true => Err(AttemptError::permanent(malformed(
                        "the response is larger than 256 MiB",
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

fn timeout_error(host: &str, doing: &str) -> ModelError {
    ModelError::new(format!("{host}: timed out {doing}")).with_code("TimeoutError")
}

/// Converts a transport error. Removes the URL, which may contain a password.
fn transport_error(host: &str, error: reqwest::Error) -> AttemptError {
    let error = error.without_url();
    if error.is_builder() {
        let message = format!(
            "{host}: cannot send the request: {}",
            format_with_causes(&error)
        );
        return AttemptError::permanent(ModelError::new(message).with_code("InvalidRequest"));
    }
    if error.is_timeout() {
        let doing = match error.is_connect() {
            true => "connecting",
            false => "waiting for the first byte",
        };
        return AttemptError::transient(timeout_error(host, doing));
    }
    let what = match error.is_connect() {
        true => "cannot connect",
        false => "the connection was interrupted",
    };
    let message = format!("{host}: {what}: {}", format_with_causes(&error));
    AttemptError::transient(ModelError::new(message).with_code("ConnectionError"))
}

/// Formats an error with its causes, which reqwest does not print.
fn format_with_causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// Returns the instant after this duration. Limits the duration to 10 years to avoid overflow.
pub(super) fn from_now(time: Duration) -> Instant {
    const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    Instant::now() + time.min(YEARS)
}

/// Returns a random number between 0 and 1.
fn random_jitter() -> f64 {
    // A system without a source of randomness retries without jitter.
    getrandom::u32().map_or(0.5, |bits| f64::from(bits) / f64::from(u32::MAX))
}
