//! Errors as RFC 9457 problems: `application/problem+json` with a `code` for programs.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use retain_core::{
    ArtifactError, Conflict, EraseError, Json, JsonMap, MemoryError, QuotaExceeded, QuotaKind,
    SessionError, budget::OverBudget,
};

use crate::failures::log_failure;

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Maximum size of a text response that becomes the `detail` of a problem.
const DETAIL_BYTES: usize = 4096;

/// A response that describes an error.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    members: Vec<(&'static str, Json)>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl ToString) -> Problem {
        Problem {
            status,
            code,
            detail: detail.to_string(),
            members: Vec::new(),
        }
    }

    /// Returns the error for a body that does not fit the route.
    pub(super) fn invalid_body(detail: impl ToString) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_body", detail)
    }

    /// Returns the error for an invalid query parameter or header.
    pub(super) fn invalid_parameter(name: &str, reason: impl std::fmt::Display) -> Problem {
        let detail = format!("parameter {name:?} {reason}");
        Problem::new(StatusCode::BAD_REQUEST, "invalid_parameter", detail).with("parameter", name)
    }

    /// Returns the error for something that does not exist.
    pub(super) fn not_found(code: &'static str, detail: impl ToString) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// Returns the error for a variant without a status of its own. Its text is logged and not
    /// returned. A test asserts that all current variants have a status.
    fn unmapped(error: &(dyn std::error::Error + 'static)) -> Problem {
        log_cause(error);
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "internal", "internal error; see the server's log")
    }

    /// Returns the error for something that the services of this server do not support.
    pub(super) fn unsupported(detail: impl ToString) -> Problem {
        Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail)
    }

    /// Adds a member for programs.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Json>) -> Problem {
        self.members.push((name, value.into()));
        self
    }

    /// Writes the problem as JSON.
    pub(super) fn to_json(&self) -> String {
        let mut title = self.code.replace('_', " ");
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let mut body = JsonMap::from([
            (
                "type",
                Json::from(format!("urn:retain:problem:{}", self.code)),
            ),
            ("title", title.into()),
            ("status", u64::from(self.status.as_u16()).into()),
            ("detail", self.detail.as_str().into()),
            ("code", self.code.into()),
        ]);
        for (name, value) in &self.members {
            body.insert(*name, value.clone());
        }
        Json::from(body).to_string()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json();
        let headers = [(header::CONTENT_TYPE, MEDIA_TYPE)];
        (self.status, headers, body).into_response()
    }
}

/// Logs the cause of an error, which the response does not contain.
fn log_cause(error: &(dyn std::error::Error + 'static)) {
    log_failure(error, "request failed");
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Problem {
        let detail = error.to_string();
        let problem = |status, code| Problem::new(status, code, &detail);
        match error {
            SessionError::NotFound { .. } => problem(StatusCode::NOT_FOUND, "session_not_found"),
            SessionError::AlreadyExists { .. } => problem(StatusCode::CONFLICT, "session_exists"),
            SessionError::Conflict { conflict, .. } => match conflict {
                Conflict::Position { expected, found } => {
                    let problem = problem(StatusCode::CONFLICT, "position_conflict");
                    problem.with("expected", expected).with("found", found)
                }
                Conflict::EventId { id, position } => {
                    let problem = problem(StatusCode::CONFLICT, "event_id_taken");
                    problem.with("eventId", id).with("position", position)
                }
                _ => problem(StatusCode::CONFLICT, "conflict"),
            },
            SessionError::RunBusy { waited, .. } => {
                let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                problem(StatusCode::CONFLICT, "run_busy").with("waitedMs", waited)
            }
            SessionError::Cancelled { .. } => problem(StatusCode::CONFLICT, "run_cancelled"),
            SessionError::RunLost { .. } => problem(StatusCode::CONFLICT, "run_lost"),
            SessionError::NestedRun { .. } => problem(StatusCode::CONFLICT, "run_nested"),
            SessionError::InvocationNotFound { invocation_id, .. } => {
                let problem = problem(StatusCode::NOT_FOUND, "invocation_not_found");
                problem.with("invocationId", invocation_id)
            }
            SessionError::PositionNotFound { position, last, .. } => {
                let problem = problem(StatusCode::NOT_FOUND, "position_not_found");
                problem.with("position", position).with("last", last)
            }
            SessionError::Artifact {
                filename, source, ..
            } => artifact_not_restored(detail, filename, source),
            SessionError::Invalid { what, .. } => {
                problem(StatusCode::BAD_REQUEST, "invalid").with("what", what)
            }
            SessionError::TooLarge { what, limit, found } => {
                let problem = problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large");
                let problem = problem.with("what", what.to_string());
                problem.with("limit", limit).with("found", found)
            }
            SessionError::QuotaExceeded(exceeded) => quota_exceeded(&exceeded),
            SessionError::Import { line, .. } => {
                problem(StatusCode::BAD_REQUEST, "import_invalid").with("line", line)
            }
            SessionError::Unsupported { .. } => Problem::unsupported(detail),
            error @ SessionError::Corrupt { .. } => {
                log_cause(&error);
                problem(StatusCode::INTERNAL_SERVER_ERROR, "corrupt")
            }
            SessionError::OverBudget(error) => error.into(),
            error @ SessionError::Full { .. } => {
                log_cause(&error);
                problem(StatusCode::INSUFFICIENT_STORAGE, "store_full")
            }
            // Callers must not see the URI of a store.
            error @ SessionError::Open { .. } => {
                log_cause(&error);
                let detail = "the store could not be opened; see the server's log";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_failed", detail)
            }
            error @ SessionError::Store { .. } => {
                log_cause(&error);
                problem(StatusCode::SERVICE_UNAVAILABLE, "store_failed")
            }
            error => Problem::unmapped(&error),
        }
    }
}

impl From<OverBudget> for Problem {
    fn from(error: OverBudget) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", error)
    }
}

/// Whether a memory store failed because its disk is full.
pub(crate) fn is_full(error: &MemoryError) -> bool {
    let MemoryError::Backend(cause) = error else {
        return false;
    };
    let cause = cause.downcast_ref::<SessionError>();
    matches!(cause, Some(SessionError::Full { .. }))
}

/// Returns the status of a write that exceeds a quota. A tenant at its quota is not a failure of the server,
/// so it is never 5xx, which would alarm operators and remove a healthy replica from rotation.
pub(crate) fn quota_status(kind: QuotaKind) -> StatusCode {
    match kind.is_bytes() {
        true => StatusCode::PAYLOAD_TOO_LARGE,
        false => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn quota_exceeded(exceeded: &QuotaExceeded) -> Problem {
    let status = quota_status(exceeded.kind);
    Problem::new(status, "quota_exceeded", exceeded)
        .with("quota", exceeded.name())
        .with("limit", exceeded.limit)
        .with("used", exceeded.used)
}

/// Returns the error of a rewind that could not restore an artifact. The rewind request itself was
/// valid, so an artifact error that would blame the client is reported as a conflict.
fn artifact_not_restored(
    detail: String,
    filename: String,
    source: retain_core::BoxError,
) -> Problem {
    let cause = source
        .downcast::<ArtifactError>()
        .map(|it| Problem::from(*it));
    let status = match &cause {
        Ok(cause) if cause.status.is_client_error() => StatusCode::CONFLICT,
        Ok(cause) => cause.status,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem::new(status, "artifact_not_restored", detail).with("filename", filename)
}

impl From<EraseError> for Problem {
    fn from(error: EraseError) -> Problem {
        match error {
            EraseError::Sessions(error) => error.into(),
            EraseError::Memory(error) => error.into(),
            EraseError::Artifacts(error) => error.into(),
            error => Problem::unmapped(&error),
        }
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Problem {
        let detail = error.to_string();
        match error {
            MemoryError::Unsupported { .. } | MemoryError::NoService => {
                Problem::unsupported(detail)
            }
            MemoryError::InvalidInput { what, .. } => {
                Problem::new(StatusCode::BAD_REQUEST, "invalid", detail).with("what", what)
            }
            MemoryError::LimitExceeded { what, limit, found } => {
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                let problem = Problem::new(status, "limit_exceeded", detail).with("what", what);
                problem.with("limit", limit).with("found", found)
            }
            MemoryError::OverBudget(error) => error.into(),
            MemoryError::QuotaExceeded(exceeded) => quota_exceeded(&exceeded),
            MemoryError::SessionGone { .. } => Problem::not_found("session_not_found", detail),
            error @ MemoryError::Corrupt { .. } => {
                log_cause(&error);
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "corrupt", detail)
            }
            error @ MemoryError::Backend(_) if is_full(&error) => {
                log_cause(&error);
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "store_full", detail)
            }
            error @ MemoryError::Backend(_) => {
                log_cause(&error);
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_failed", detail)
            }
            error => Problem::unmapped(&error),
        }
    }
}

impl From<ArtifactError> for Problem {
    fn from(error: ArtifactError) -> Problem {
        let detail = error.to_string();
        match error {
            ArtifactError::NoService => Problem::unsupported(detail),
            ArtifactError::Invalid { what, .. } => {
                Problem::new(StatusCode::BAD_REQUEST, "invalid", detail).with("what", what)
            }
            ArtifactError::Reference { uri, .. } => {
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Problem::new(status, "artifact_reference", detail).with("uri", uri)
            }
            ArtifactError::OverBudget(error) => error.into(),
            ArtifactError::QuotaExceeded(exceeded) => quota_exceeded(&exceeded),
            ArtifactError::SessionGone { .. } => Problem::not_found("session_not_found", detail),
            error @ ArtifactError::Corrupt { .. } => {
                log_cause(&error);
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "corrupt", detail)
            }
            error @ ArtifactError::Full { .. } => {
                log_cause(&error);
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "store_full", detail)
            }
            error @ ArtifactError::Store { .. } => {
                log_cause(&error);
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_failed", detail)
            }
            error => Problem::unmapped(&error),
        }
    }
}

/// Returns the problem for a request that a guard rejected.
pub(crate) fn refusal(status: StatusCode, detail: &str) -> Response {
    Problem::new(status, code_of(status), detail).into_response()
}

/// Returns the code of a rejection that has only a status.
fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "headers_too_large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_client_error() => "invalid",
        _ => "failed",
    }
}

/// Turns plain error responses below `/api/` into problems, such as those for unknown paths.
pub(crate) async fn refusals_as_problems(request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let response = next.run(request).await;
    let failed = response.status().is_client_error() || response.status().is_server_error();
    match is_api && failed && content_type(&response) != MEDIA_TYPE {
        true => as_problem(response).await,
        false => response,
    }
}

fn content_type(response: &Response) -> &str {
    let value = response.headers().get(header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or("")
}

async fn as_problem(response: Response) -> Response {
    let is_text = content_type(&response).starts_with("text/plain");
    let (mut parts, body) = response.into_parts();
    let text = match is_text {
        true => to_bytes(body, DETAIL_BYTES).await.unwrap_or_default(),
        false => Default::default(),
    };
    let reason = parts.status.canonical_reason().unwrap_or("request failed");
    let text = String::from_utf8_lossy(&text);
    let detail = if text.is_empty() { reason } else { &text };
    let problem = Problem::new(parts.status, code_of(parts.status), detail);
    parts.headers.remove(header::CONTENT_LENGTH);
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    parts.headers.insert(header::CONTENT_TYPE, media_type);
    Response::from_parts(parts, Body::from(problem.to_json()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use retain_core::{BoxError, LimitKind, SessionKey};

    use super::*;

    fn key() -> SessionKey {
        SessionKey::new("a", "u", "s")
    }

    fn cause() -> BoxError {
        BoxError::from("the secret of the house")
    }

    /// An error with the status and the code of its response.
    type ErrorCase = (SessionError, u16, &'static str);

    fn conflict_errors() -> Vec<ErrorCase> {
        let (key, waited) = (key(), Duration::from_millis(5));
        let conflict = |conflict| SessionError::Conflict {
            key: key.clone(),
            conflict,
        };
        let position = conflict(Conflict::Position {
            expected: 1,
            found: 2,
        });
        let event_id = conflict(Conflict::EventId {
            id: "e".into(),
            position: 1,
        });
        let exists = SessionError::AlreadyExists { key: key.clone() };
        let busy = SessionError::RunBusy {
            key: key.clone(),
            waited,
        };
        let cancelled = SessionError::Cancelled { key: key.clone() };
        let lost = SessionError::RunLost {
            key: key.clone(),
            token: 1,
        };
        let nested = SessionError::NestedRun { key };
        vec![
            (position, 409, "position_conflict"),
            (event_id, 409, "event_id_taken"),
            (exists, 409, "session_exists"),
            (busy, 409, "run_busy"),
            (cancelled, 409, "run_cancelled"),
            (lost, 409, "run_lost"),
            (nested, 409, "run_nested"),
        ]
    }

    fn request_errors() -> Vec<ErrorCase> {
        let not_found = SessionError::NotFound { key: key() };
        let no_invocation = SessionError::InvocationNotFound {
            key: key(),
            invocation_id: "i".into(),
        };
        let no_position = SessionError::PositionNotFound {
            key: key(),
            position: 2,
            last: 1,
        };
        let invalid = SessionError::invalid("user id", "is empty");
        let too_large = SessionError::TooLarge {
            what: LimitKind::Event,
            limit: 1,
            found: 2,
        };
        let import = SessionError::Import {
            line: 1,
            reason: "no".into(),
        };
        vec![
            (not_found, 404, "session_not_found"),
            (no_invocation, 404, "invocation_not_found"),
            (no_position, 404, "position_not_found"),
            (invalid, 400, "invalid"),
            (too_large, 413, "too_large"),
            (import, 400, "import_invalid"),
        ]
    }

    fn store_errors() -> Vec<ErrorCase> {
        let (store, operation) = ("sqlite", "read");
        let corrupt = SessionError::Corrupt {
            key: key(),
            place: "event 1".into(),
            source: cause(),
        };
        let open = SessionError::Open {
            uri: "sqlite:///secret".into(),
            reason: "no".into(),
            source: None,
        };
        let full = SessionError::Full {
            store,
            operation,
            source: cause(),
        };
        let unsupported = SessionError::Unsupported { store, operation };
        let failed = SessionError::Store {
            store,
            operation,
            source: cause(),
        };
        vec![
            (corrupt, 500, "corrupt"),
            (open, 503, "store_failed"),
            (full, 507, "store_full"),
            (unsupported, 501, "unsupported"),
            (failed, 503, "store_failed"),
        ]
    }

    #[test]
    fn problem_has_the_status_of_its_error_and_hides_the_cause() {
        let sessions = [conflict_errors(), request_errors(), store_errors()];
        let sessions = sessions.into_iter().flatten();
        let sessions = sessions.map(|(error, status, code)| (Problem::from(error), status, code));
        let memory = [
            (MemoryError::unsupported("add_memory"), 501, "unsupported"),
            (MemoryError::NoService, 501, "unsupported"),
            (
                MemoryError::invalid_input("user id", "is empty"),
                400,
                "invalid",
            ),
            (
                MemoryError::LimitExceeded {
                    what: "memories",
                    limit: 1,
                    found: 2,
                },
                413,
                "limit_exceeded",
            ),
            (
                MemoryError::Corrupt {
                    id: "m".into(),
                    source: cause(),
                },
                500,
                "corrupt",
            ),
            (MemoryError::backend(cause()), 503, "store_failed"),
        ];
        let memory = memory.map(|(error, status, code)| (Problem::from(error), status, code));
        let (store, operation) = ("file", "read");
        let place = String::from("a");
        let uri = String::from("artifact://x");
        let artifacts = [
            (ArtifactError::NoService, 501, "unsupported"),
            (ArtifactError::invalid("name", "is empty"), 400, "invalid"),
            (
                ArtifactError::Reference {
                    uri,
                    reason: "is not a reference",
                },
                422,
                "artifact_reference",
            ),
            (
                ArtifactError::Corrupt {
                    address: place,
                    version: 1,
                    source: cause(),
                },
                500,
                "corrupt",
            ),
            (
                ArtifactError::Full {
                    store,
                    operation,
                    source: cause(),
                },
                507,
                "store_full",
            ),
            (
                ArtifactError::Store {
                    store,
                    operation,
                    source: cause(),
                },
                503,
                "store_failed",
            ),
        ];
        let artifacts = artifacts.map(|(error, status, code)| (Problem::from(error), status, code));
        for (problem, status, code) in sessions.chain(memory).chain(artifacts) {
            assert_eq!(
                (problem.status.as_u16(), problem.code),
                (status, code),
                "{problem:?}"
            );
            assert!(!problem.to_json().contains("secret"), "{problem:?}");
        }
    }

    #[test]
    fn rewind_failed_by_an_artifact_has_the_status_of_the_artifact_error() {
        let rewind_error = |source: BoxError| {
            let filename = "a.txt".to_owned();
            Problem::from(SessionError::Artifact {
                key: key(),
                filename,
                source,
            })
        };
        let (store, operation) = ("file", "save");
        let source = cause();
        let full = ArtifactError::Full {
            store,
            operation,
            source,
        };
        let cases = [
            (
                rewind_error(Box::new(ArtifactError::invalid("name", "is reserved"))),
                409,
            ),
            (rewind_error(Box::new(full)), 507),
            (rewind_error(cause()), 500),
        ];
        for (problem, status) in cases {
            assert_eq!(problem.status.as_u16(), status);
            assert_eq!(problem.code, "artifact_not_restored");
        }
    }

    /// The errors are `#[non_exhaustive]`, so the compiler does not report unmapped variants.
    #[test]
    fn problem_maps_every_variant_of_every_error() {
        let mapped = include_str!("problem.rs");
        for (error, source) in [
            ("SessionError", include_str!("../../../core/src/error.rs")),
            ("Conflict", include_str!("../../../core/src/error.rs")),
            (
                "MemoryError",
                include_str!("../../../core/src/memory/service.rs"),
            ),
            (
                "ArtifactError",
                include_str!("../../../core/src/artifacts/service.rs"),
            ),
        ] {
            let start = format!("pub enum {error} {{");
            let (_, body) = source
                .split_once(&start)
                .expect("the source contains the enum");
            let (body, _) = body.split_once("\n}").expect("the enum has an end");
            let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
            let variants =
                variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
            let names = variants.filter_map(|line| line.split([' ', ',', '(']).next());
            let names: Vec<&str> = names.collect();
            assert!(names.len() > 1, "{error}: {names:?}");
            for name in names {
                let arm = format!("{error}::{name}");
                assert!(mapped.contains(&arm), "{arm} has no status and code");
            }
        }
    }
}
