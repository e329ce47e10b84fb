//! The HTTP client for servers: headers, redirects and timeouts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::{
    model::{ClientJsonRpcMessage, ErrorCode, JsonRpcMessage},
    transport::{
        StreamableHttpClientTransport,
        common::client_side_sse::{BoxedSseResponse, ExponentialBackoff},
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};

use crate::{
    failure::{Failure, FailureKind},
    server::HttpServer,
};

/// Headers that the MCP library sets itself.
const RESERVED: [&str; 4] = [
    "accept",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
];
/// Maximum number of reconnects per broken stream.
const RECONNECTS_MAX: usize = 3;
/// The delay before the first reconnect.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);
const REDIRECTS_MAX: usize = 10;

type Headers = HashMap<HeaderName, HeaderValue>;
type PostOutcome = Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>;

/// Creates the transport to the server. Nothing is sent yet.
pub(super) fn transport(
    server: &HttpServer,
) -> Result<StreamableHttpClientTransport<HttpClient>, Failure> {
    let connect_failed = |what: String| Failure::new(FailureKind::ConnectFailed, what);
    let headers = headers(&server.headers).map_err(connect_failed)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str())
        .custom_headers(headers)
        .session_recovery_timeout(server.timeout);
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(RECONNECTS_MAX);
    retries.base_duration = RECONNECT_DELAY;
    config.retry_config = Arc::new(retries);
    let client =
        client(server).map_err(|_| connect_failed("cannot create an HTTP client".to_owned()))?;
    let client = HttpClient {
        client,
        terminates_on_close: server.terminates_on_close,
    };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Returns an error if the headers are invalid.
pub(crate) fn check_headers(given: &[(String, String)]) -> Result<(), String> {
    headers(given).map(|_| ())
}

/// Parses headers. Errors name the header but never its value.
fn headers(given: &[(String, String)]) -> Result<Headers, String> {
    let mut headers = Headers::new();
    for (name, value) in given {
        let parsed = HeaderName::try_from(name.as_str());
        let parsed = parsed.map_err(|_| format!("{name:?} is not a valid header name"))?;
        if RESERVED.contains(&parsed.as_str()) {
            return Err(format!(
                "the header {name:?} is reserved by the MCP protocol"
            ));
        }
        let value = HeaderValue::try_from(value.as_str());
        let mut value = value
            .map_err(|_| format!("the value of the header {name:?} has invalid characters"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

fn client(server: &HttpServer) -> reqwest::Result<reqwest::Client> {
    // Only the first call in a process takes effect. All crates of Retain install the same
    // provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("retain/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(server.timeout)
        .read_timeout(server.call_timeout)
        // Do not reuse connections: a request could wait for a connection whose last response was
        // not read to the end.
        .pool_max_idle_per_host(0)
        .redirect(Policy::custom(|attempt| match is_safe_redirect(&attempt) {
            true => attempt.follow(),
            false => attempt.stop(),
        }))
        .build()
}

/// Whether a redirect stays on the same server and keeps method and body. Headers may be secrets,
/// which must not be sent to other servers.
fn is_safe_redirect(attempt: &Attempt<'_>) -> bool {
    let previous = attempt.previous();
    let is_same = previous
        .first()
        .is_some_and(|first| first.origin() == attempt.url().origin());
    is_same && matches!(attempt.status().as_u16(), 307 | 308) && previous.len() <= REDIRECTS_MAX
}

/// The library's client, extended to detect expired sessions as real servers report them.
#[derive(Clone)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    terminates_on_close: bool,
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> PostOutcome {
        let has_session = session_id.is_some();
        let posted = self
            .client
            .post_message(uri, message, session_id, auth_header, headers);
        detect_expired_session(posted.await.map_err(without_url), has_session)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        size_max: usize,
    ) -> PostOutcome {
        let has_session = session_id.is_some();
        let posted = self.client.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            size_max,
        );
        detect_expired_session(posted.await.map_err(without_url), has_session)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<reqwest::Error>> {
        match self.terminates_on_close {
            true => {
                let deleted = self
                    .client
                    .delete_session(uri, session_id, auth_header, headers);
                deleted.await.map_err(without_url)
            }
            false => Ok(()),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, StreamableHttpError<reqwest::Error>> {
        let stream = self
            .client
            .get_stream(uri, session_id, last_event_id, auth_header, headers);
        stream.await.map_err(without_url)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        size_max: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<reqwest::Error>> {
        let stream = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            size_max,
        );
        stream.await.map_err(without_url)
    }
}

/// Removes the URL, which may contain a secret, because the library logs its errors.
fn without_url(error: StreamableHttpError<reqwest::Error>) -> StreamableHttpError<reqwest::Error> {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        error => error,
    }
}

/// Turns the answer "no valid session id" into the error `SessionExpired`. The protocol requires
/// HTTP 404 for an unknown session, but servers based on the TypeScript SDK's examples answer 400
/// with their own error, before executing the request.
fn detect_expired_session(posted: PostOutcome, has_session: bool) -> PostOutcome {
    let is_expired = match &posted {
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(answer), _)) => {
            let message = answer.error.message.to_ascii_lowercase();
            answer.error.code == ErrorCode(-32000) && message.contains("no valid session id")
        }
        _ => false,
    };
    match has_session && is_expired {
        true => Err(StreamableHttpError::SessionExpired),
        false => posted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_an_invalid_header_has_its_name_but_not_its_value() {
        let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert!(check_headers(&pair("X-Key", "canary")).is_ok());
        for (name, value) in [
            ("X Key", "canary"),
            ("X-Key", "canary\n"),
            ("Mcp-Session-Id", "canary"),
        ] {
            let error = check_headers(&pair(name, value)).unwrap_err();
            assert!(error.contains(name) && !error.contains("canary"), "{error}");
        }
    }
}
