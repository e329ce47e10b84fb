//! Errors as FastAPI writes them: `{"detail": …}`, and a bare 500 for unexpected ones.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use retain_core::{
    ArtifactError, Json, JsonMap, MemoryError, SessionError, budget::OverBudget,
    python_text::python_repr,
};
use retain_runtime::RunError;

use super::{answers::json_response, validate::Problem};
use crate::{
    api::{is_full, quota_status},
    apps::AppError,
    failures::log_failure,
    guard::{AccessDenied, TooManyRuns},
};

/// An error response of ADK's API.
#[derive(Debug)]
pub(crate) enum AdkError {
    /// `{"detail": "text"}`.
    Detail(StatusCode, String),
    /// 422, with one entry for each error in the body or the query.
    Invalid(Vec<Problem>),
    /// Too many active runs.
    TooManyRuns(TooManyRuns),
    /// An internal error: a bare 500; the log has the reason.
    Internal,
}

impl AdkError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> AdkError {
        AdkError::Detail(status, detail.into())
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> AdkError {
        AdkError::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> AdkError {
        AdkError::new(StatusCode::NOT_FOUND, detail)
    }

    /// Returns a bare 500 and logs the reason.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> AdkError {
        log_failure(error, "a request failed");
        AdkError::Internal
    }
}

impl IntoResponse for AdkError {
    fn into_response(self) -> Response {
        match self {
            AdkError::Detail(status, detail) => {
                detail_response(status, JsonMap::from([("detail", detail)]))
            }
            AdkError::Invalid(problems) => {
                let problems: Vec<Json> = problems.into_iter().map(Problem::into_json).collect();
                let detail = JsonMap::from([("detail", Json::from(problems))]);
                detail_response(StatusCode::UNPROCESSABLE_ENTITY, detail)
            }
            AdkError::TooManyRuns(refused) => {
                let detail = JsonMap::from([("detail", refused.to_string())]);
                let mut response = detail_response(StatusCode::TOO_MANY_REQUESTS, detail);
                let soon = HeaderValue::from_static("1");
                response.headers_mut().insert(header::RETRY_AFTER, soon);
                response
            }
            AdkError::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
                "Internal Server Error",
            )
                .into_response(),
        }
    }
}

fn detail_response(status: StatusCode, body: JsonMap) -> Response {
    let mut response = json_response(Json::from(body).to_string());
    *response.status_mut() = status;
    response
}

impl From<AccessDenied> for AdkError {
    fn from(refused: AccessDenied) -> AdkError {
        AdkError::new(StatusCode::FORBIDDEN, refused.0)
    }
}

impl From<TooManyRuns> for AdkError {
    fn from(refused: TooManyRuns) -> AdkError {
        AdkError::TooManyRuns(refused)
    }
}

impl From<SessionError> for AdkError {
    fn from(error: SessionError) -> AdkError {
        use SessionError as E;
        let status = match &error {
            E::NotFound { .. } => return AdkError::not_found("Session not found"),
            E::AlreadyExists { key } => {
                let detail = format!("Session already exists: {}", key.id);
                return AdkError::new(StatusCode::CONFLICT, detail);
            }
            E::Conflict { .. }
            | E::RunBusy { .. }
            | E::Cancelled { .. }
            | E::RunLost { .. }
            | E::NestedRun { .. } => StatusCode::CONFLICT,
            E::InvocationNotFound { .. } | E::PositionNotFound { .. } => StatusCode::NOT_FOUND,
            E::Invalid { .. } | E::Import { .. } => StatusCode::BAD_REQUEST,
            E::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            E::QuotaExceeded(exceeded) => quota_status(exceeded.kind),
            E::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            E::OverBudget(error) => return (*error).into(),
            E::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
            // The other variants: `Artifact`, `Corrupt`, `Open` and `Store`.
            _ => return AdkError::internal(&error),
        };
        AdkError::new(status, error.to_string())
    }
}

impl From<OverBudget> for AdkError {
    fn from(error: OverBudget) -> AdkError {
        AdkError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<ArtifactError> for AdkError {
    fn from(error: ArtifactError) -> AdkError {
        use ArtifactError as E;
        let status = match &error {
            E::Invalid { .. } | E::Reference { .. } => StatusCode::BAD_REQUEST,
            E::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            E::OverBudget(error) => return (*error).into(),
            E::QuotaExceeded(exceeded) => quota_status(exceeded.kind),
            E::NoService => StatusCode::NOT_IMPLEMENTED,
            E::SessionGone { .. } => StatusCode::NOT_FOUND,
            // The other variants: `Corrupt` and `Store`.
            _ => return AdkError::internal(&error),
        };
        AdkError::new(status, error.to_string())
    }
}

impl From<MemoryError> for AdkError {
    fn from(error: MemoryError) -> AdkError {
        use MemoryError as E;
        let status = match &error {
            E::NoService => return AdkError::bad_request("Memory service is not configured."),
            E::InvalidInput { .. } => StatusCode::BAD_REQUEST,
            E::LimitExceeded { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            E::OverBudget(error) => return (*error).into(),
            E::QuotaExceeded(exceeded) => quota_status(exceeded.kind),
            E::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
            E::SessionGone { .. } => StatusCode::NOT_FOUND,
            error if is_full(error) => StatusCode::INSUFFICIENT_STORAGE,
            // The other variants: `Corrupt` and `Backend`.
            _ => return AdkError::internal(&error),
        };
        AdkError::new(status, error.to_string())
    }
}

impl From<RunError> for AdkError {
    /// Converts the error of a run that failed before its response started.
    fn from(error: RunError) -> AdkError {
        use RunError as E;
        match error {
            E::Session(SessionError::NotFound { key }) => {
                AdkError::not_found(format!("Session not found: {}", key.id))
            }
            E::Session(error) => error.into(),
            E::InvalidMessage { .. } => AdkError::bad_request(error.to_string()),
            E::NotResumable { invocation_id } => AdkError::bad_request(format!(
                "cannot resume run {invocation_id:?}: this server is not resumable; start \
                 `retain serve` with --resumable, or with RETAIN_RESUMABLE=true"
            )),
            _ => AdkError::internal(&error),
        }
    }
}

impl From<AppError> for AdkError {
    fn from(error: AppError) -> AdkError {
        match &error {
            AppError::NotFound { app, .. } => {
                let name = python_repr(&Json::from(app.as_str()));
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                AdkError::not_found(match !app.is_empty() && app.chars().all(is_word) {
                    true => format!("Agent not found: {name}."),
                    false => format!(
                        "Invalid agent name: {name}. Agent names must be valid Python identifiers \
                         (letters, digits, and underscores only)."
                    ),
                })
            }
            AppError::Config(_) | AppError::Build(_) | AppError::BrokenOff { .. } => {
                // The operator must correct the app's files. The error quotes no text of users.
                tracing::error!(error = ?error.to_string(), "failed to load an app");
                AdkError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed to load agent")
            }
        }
    }
}
