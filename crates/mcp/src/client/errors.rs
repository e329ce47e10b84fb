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

/// The message if nothing more is known.
pub(super) const CLOSED: &str = "Connection closed";
/// Maximum number of characters that an error quotes from an answer that is not a protocol error.
const TOLD_MAX: usize = 300;

/// Creates the failure for an invalid answer.
pub(super) fn no_answer() -> Failure {
    let message = "the server's answer does not follow the MCP protocol";
    Failure::new(FailureKind::Unanswered, message)
}

/// Converts the error of a request.
pub(super) fn of_request(error: &ServiceError, secrets: &Secrets) -> Failure {
    match error {
        ServiceError::McpError(error) => {
            Failure::new(FailureKind::Told, secrets.without(&error.message))
        }
        ServiceError::TransportSend(error) => of_transport(error, secrets),
        ServiceError::TransportClosed => Failure::new(FailureKind::Broken, CLOSED),
        ServiceError::UnexpectedResponse => no_answer(),
        error => {
            let said = secrets.without(&error.to_string());
            Failure::new(FailureKind::Unanswered, shortened(&said))
        }
    }
}

/// Converts the error of session initialization.
pub(super) fn of_start(error: &ClientInitializeError, secrets: &Secrets) -> Failure {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            let failure = of_transport(error, secrets);
            match failure.kind {
                FailureKind::Unanswered => Failure::new(FailureKind::Hopeless, failure.to_string()),
                _ => failure,
            }
        }
        ClientInitializeError::ConnectionClosed(_) => {
            let message = "the server exited before it was ready";
            Failure::new(FailureKind::Unseen, message)
        }
        ClientInitializeError::JsonRpcError(error) => {
            Failure::new(FailureKind::Hopeless, secrets.without(&error.message))
        }
        error => {
            let said = secrets.without(&error.to_string());
            Failure::new(FailureKind::Hopeless, shortened(&said))
        }
    }
}

/// Converts an error of sending a message or of receiving its answer.
fn of_transport(error: &DynamicTransportError, secrets: &Secrets) -> Failure {
    let cause = error
        .error
        .downcast_ref::<StreamableHttpError<reqwest::Error>>();
    let Some(cause) = cause else {
        // The child process received at most half a line, which is not a message.
        return Failure::new(FailureKind::Unseen, CLOSED);
    };
    let (kind, message) = match cause {
        StreamableHttpError::Client(error) if error.is_connect() => {
            (FailureKind::Unseen, "cannot reach the server".into())
        }
        StreamableHttpError::Client(error) if error.is_builder() => {
            (FailureKind::Hopeless, "the server's URL is invalid".into())
        }
        StreamableHttpError::Client(error) if error.is_timeout() => {
            (FailureKind::Broken, "the server sent no answer".into())
        }
        // The library's message contains the URL, which may contain a secret.
        StreamableHttpError::Client(_) => (FailureKind::Broken, CLOSED.into()),
        StreamableHttpError::SessionExpired => (
            FailureKind::Unseen,
            "the server no longer knows the session".into(),
        ),
        StreamableHttpError::AuthRequired(_) => (
            FailureKind::Unanswered,
            "the server requires authorization (HTTP 401); set its header".into(),
        ),
        StreamableHttpError::InsufficientScope(_) => (
            FailureKind::Unanswered,
            "the server refused the request (HTTP 403)".into(),
        ),
        StreamableHttpError::HttpStatus(error) => (
            FailureKind::Unanswered,
            format!("the server answered HTTP {}", error.status),
        ),
        StreamableHttpError::UnexpectedServerResponse(said) => {
            (FailureKind::Unanswered, unexpected(&secrets.without(said)))
        }
        StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::ReservedHeaderConflict(_)
        | StreamableHttpError::Deserialize(_) => {
            let said = secrets.without(&cause.to_string());
            (FailureKind::Unanswered, shortened(&said))
        }
        _ => {
            let said = secrets.without(&cause.to_string());
            (FailureKind::Broken, shortened(&said))
        }
    };
    Failure::new(kind, message)
}

/// Formats an unsuccessful HTTP response.
fn unexpected(said: &str) -> String {
    let said = shortened(said);
    let is_elsewhere = ["HTTP 404", "HTTP 405"]
        .iter()
        .any(|status| said.starts_with(status));
    match is_elsewhere {
        true => format!(
            "{said}; check that the URL is an MCP server with streamable HTTP, because the \
             older HTTP+SSE is unsupported"
        ),
        false => said,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TOLD_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_is_truncated_between_characters() {
        assert_eq!(shortened("kurz"), "kurz");
        let long = shortened(&"ü".repeat(TOLD_MAX + 1));
        assert_eq!(long, format!("{}…", "ü".repeat(TOLD_MAX)));
    }

    #[test]
    fn http_405_error_names_the_older_transport() {
        assert!(unexpected("HTTP 405 Method Not Allowed: no").contains("HTTP+SSE"));
        assert!(!unexpected("HTTP 400 Bad Request: no").contains("HTTP+SSE"));
    }
}
