//! Converts errors of the MCP library to `Failure`s without secrets.

use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};

use crate::{
    failure::{Failure, FailureKind},
    server::Secrets,
};

/// The message for a closed connection without a known reason.
pub(super) const CLOSED: &str = "Connection closed";
/// Maximum number of characters per message. Protocol errors are not truncated.
const MESSAGE_MAX: usize = 300;

/// Creates the failure for an invalid answer.
pub(super) fn invalid_answer() -> Failure {
    let message = "the server's answer does not follow the MCP protocol";
    Failure::new(FailureKind::NoValidAnswer, message)
}

/// Converts the error of a request.
pub(super) fn from_request_error(error: &ServiceError, secrets: &Secrets) -> Failure {
    match error {
        ServiceError::McpError(error) => {
            Failure::new(FailureKind::ProtocolError, secrets.redact(&error.message))
        }
        ServiceError::TransportSend(error) => from_transport_error(error, secrets),
        ServiceError::TransportClosed => Failure::new(FailureKind::Disconnected, CLOSED),
        ServiceError::UnexpectedResponse => invalid_answer(),
        error => {
            let message = secrets.redact(&error.to_string());
            Failure::new(FailureKind::NoValidAnswer, truncate(&message))
        }
    }
}

/// Converts the error of session initialization.
pub(super) fn from_initialize_error(error: &ClientInitializeError, secrets: &Secrets) -> Failure {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            let failure = from_transport_error(error, secrets);
            match failure.kind {
                FailureKind::NoValidAnswer => {
                    Failure::new(FailureKind::ConnectFailed, failure.to_string())
                }
                _ => failure,
            }
        }
        ClientInitializeError::ConnectionClosed(_) => {
            let message = "the server exited before it was ready";
            Failure::new(FailureKind::NotDelivered, message)
        }
        ClientInitializeError::JsonRpcError(error) => {
            Failure::new(FailureKind::ConnectFailed, secrets.redact(&error.message))
        }
        error => {
            let message = secrets.redact(&error.to_string());
            Failure::new(FailureKind::ConnectFailed, truncate(&message))
        }
    }
}

/// Converts an error that occurred while sending a message or receiving its answer.
fn from_transport_error(error: &DynamicTransportError, secrets: &Secrets) -> Failure {
    let cause = error
        .error
        .downcast_ref::<StreamableHttpError<reqwest::Error>>();
    let Some(cause) = cause else {
        // The child process received at most a part of the line, so it cannot have executed the
        // request.
        return Failure::new(FailureKind::NotDelivered, CLOSED);
    };
    let (kind, message) = match cause {
        StreamableHttpError::Client(error) if error.is_connect() => {
            (FailureKind::NotDelivered, "cannot reach the server".into())
        }
        StreamableHttpError::Client(error) if error.is_builder() => (
            FailureKind::ConnectFailed,
            "the server's URL is invalid".into(),
        ),
        StreamableHttpError::Client(error) if error.is_timeout() => (
            FailureKind::Disconnected,
            "the server sent no answer".into(),
        ),
        // The library's message contains the URL, which may contain a secret.
        StreamableHttpError::Client(_) => (FailureKind::Disconnected, CLOSED.into()),
        StreamableHttpError::SessionExpired => (
            FailureKind::NotDelivered,
            "the server no longer knows the session".into(),
        ),
        StreamableHttpError::AuthRequired(_) => (
            FailureKind::NoValidAnswer,
            "the server requires authorization (HTTP 401); set the header `Authorization`".into(),
        ),
        StreamableHttpError::InsufficientScope(_) => (
            FailureKind::NoValidAnswer,
            "the server refused the request (HTTP 403)".into(),
        ),
        StreamableHttpError::HttpStatus(error) => (
            FailureKind::NoValidAnswer,
            format!("the server answered HTTP {}", error.status),
        ),
        StreamableHttpError::UnexpectedServerResponse(message) => (
            FailureKind::NoValidAnswer,
            format_http_error(&secrets.redact(message)),
        ),
        StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::ReservedHeaderConflict(_)
        | StreamableHttpError::Deserialize(_) => {
            let message = secrets.redact(&cause.to_string());
            (FailureKind::NoValidAnswer, truncate(&message))
        }
        _ => {
            let message = secrets.redact(&cause.to_string());
            (FailureKind::Disconnected, truncate(&message))
        }
    };
    Failure::new(kind, message)
}

/// Formats an unsuccessful HTTP response.
fn format_http_error(message: &str) -> String {
    let message = truncate(message);
    let may_be_other_transport = ["HTTP 404", "HTTP 405"]
        .iter()
        .any(|status| message.starts_with(status));
    match may_be_other_transport {
        true => format!(
            "{message}; check that the URL is an MCP server with streamable HTTP, because the \
             older HTTP+SSE is unsupported"
        ),
        false => message,
    }
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_is_truncated_between_characters() {
        assert_eq!(truncate("kurz"), "kurz");
        let long = truncate(&"ü".repeat(MESSAGE_MAX + 1));
        assert_eq!(long, format!("{}…", "ü".repeat(MESSAGE_MAX)));
    }

    #[test]
    fn http_405_error_names_the_older_transport() {
        assert!(format_http_error("HTTP 405 Method Not Allowed: no").contains("HTTP+SSE"));
        assert!(!format_http_error("HTTP 400 Bad Request: no").contains("HTTP+SSE"));
    }
}
