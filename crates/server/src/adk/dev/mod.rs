//! What ADK's web UI needs besides the API: its files, graphs of agents and traces of runs.
//!
//! ```text
//! ui.rs (files) · graph.rs, dot.rs (graphs) · trace.rs · builder.rs (YAML) · evals.rs
//! (unsupported)
//! initial_state.rs (initial state of new sessions)
//! ```
//!
//! Serves the paths of ADK 1.x and 2.x, and none of them without [`Dev`]: a production server shows
//! no graphs and keeps no traces.

mod builder;
mod dot;
mod evals;
mod graph;
mod initial_state;
mod local;
mod trace;
mod ui;

use std::path::{Path, PathBuf};

use axum::{
    extract::FromRequestParts,
    http::{Method, StatusCode, request::Parts},
    response::Response,
};
use retain_core::Json;

use super::{answers::json_response, errors::AdkError};
use crate::{
    guard::Scope,
    routes::{Access, Routes},
    services::Shared,
    trace::Traces,
};

/// The developer tools of a server.
#[derive(Debug, Clone, Default)]
pub struct Dev {
    ui_dir: Option<PathBuf>,
    traces: Traces,
}

impl Dev {
    /// Graphs and traces, for a web UI served from elsewhere.
    pub fn new() -> Dev {
        Dev::default()
    }

    /// Add the files of the web UI: the folder `browser` of an installed google-adk.
    pub fn with_ui_dir(mut self, dir: impl Into<PathBuf>) -> Dev {
        self.ui_dir = Some(dir.into());
        self
    }

    /// The recorded traces.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    pub(crate) fn files(&self) -> Option<&Path> {
        self.ui_dir.as_deref()
    }
}

pub(super) use initial_state::seeded;

pub(super) fn routes(routes: Routes) -> Routes {
    let routes = telemetry(ui::routes(routes));
    let routes = trace::routes(graph::routes(routes));
    evals::routes(builder::routes(routes))
}

/// An extractor that is 404 without developer tools.
pub(super) struct DevOnly(pub(super) Dev);

impl FromRequestParts<Shared> for DevOnly {
    type Rejection = AdkError;

    async fn from_request_parts(_: &mut Parts, server: &Shared) -> Result<DevOnly, AdkError> {
        let dev = server.apps.dev_settings().cloned();
        dev.map(DevOnly)
            .ok_or_else(|| AdkError::not_found("Not Found"))
    }
}

fn json(value: impl Into<Json>) -> Response {
    json_response(value.into().to_string())
}

/// An operation that this server does not support.
fn not_supported(what: &str) -> AdkError {
    let detail = format!("{what} is not part of this server.");
    AdkError::new(StatusCode::NOT_IMPLEMENTED, detail)
}

/// Access to the structure of an app.
const LOOKS: Access = Access::Path(Scope::SessionsRead);

/// Access to change an app.
const CHANGES: Access = Access::Path(Scope::Admin);

fn telemetry(routes: Routes) -> Routes {
    let path = "/config/telemetry";
    routes.add(Method::GET, path, Access::Public, consent).add(
        Method::POST,
        path,
        Access::Public,
        consent,
    )
}

/// The web UI asks whether it may report to Google. The answer is always no, so that it does not
/// ask its user.
async fn consent(_: DevOnly) -> Response {
    json(retain_core::JsonMap::from([("telemetry", false)]))
}
