//! The routes of the other faces: ADK's, which ADK describes, and operations.

use axum::http::Method;

/// A route that is described elsewhere, in outline.
pub(super) struct Other {
    method: Method,
    path: &'static str,
    pub(super) summary: &'static str,
    /// Whether it is one of ADK's.
    pub(super) is_adk: bool,
    /// The media type of what it takes.
    pub(super) takes: Option<&'static str>,
    /// The media type of what it answers.
    pub(super) answers: Option<&'static str>,
    /// The statuses that it answers with.
    pub(super) statuses: &'static [u16],
}

const JSON: Option<&str> = Some("application/json");

fn operation(path: &'static str, summary: &'static str, statuses: &'static [u16]) -> Other {
    Other {
        method: Method::GET,
        path,
        summary,
        is_adk: false,
        takes: None,
        answers: JSON,
        statuses,
    }
}

/// All of them.
fn others() -> Vec<Other> {
    vec![operation("/health", "Whether the server is there", &[200])]
}

/// The description of a route.
pub(super) fn find(method: &Method, path: &str) -> Option<Other> {
    let mut others = others().into_iter();
    others.find(|other| other.method == method && other.path == path)
}
