//! The routes of ADK's web UI besides the API: its files, graphs of agents and traces of runs.
//!
//! ```text
//! ui.rs (files) · graph.rs, dot.rs (graphs) · trace.rs · builder.rs (YAML) · evals.rs
//! (unsupported)
//! initial_state.rs (initial state of new sessions)
//! ```
//!
//! Serves the paths of ADK 1.x and 2.x. A production server, without [`Dev`], serves none of them
//! and records no traces.

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
    /// Enables graphs and traces, without the files of the web UI.
    pub fn new() -> Dev {
        Dev::default()
    }

    /// Adds the files of the web UI: the folder `browser` of an installed google-adk.
    pub fn with_ui_dir(mut self, dir: impl Into<PathBuf>) -> Dev {
        self.ui_dir = Some(dir.into());
        self
    }

    /// Returns the recorded traces.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    pub(crate) fn ui_dir(&self) -> Option<&Path> {
        self.ui_dir.as_deref()
    }
}

pub(super) use initial_state::with_initial_state;

pub(super) fn routes(routes: Routes) -> Routes {
    let routes = telemetry(ui::routes(routes));
    let routes = trace::routes(graph::routes(routes));
    evals::routes(builder::routes(routes))
}

/// An extractor that rejects requests with 404 if the server has no developer tools.
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

/// Returns the error for an operation that this server does not support.
fn not_supported(what: &str) -> AdkError {
    let detail = format!("{what} is not supported by this server.");
    AdkError::new(StatusCode::NOT_IMPLEMENTED, detail)
}

/// Access to view the structure of an app.
const VIEW: Access = Access::Path(Scope::SessionsRead);

/// Access to edit an app.
const EDIT: Access = Access::Path(Scope::Admin);

fn telemetry(routes: Routes) -> Routes {
    let path = "/config/telemetry";
    routes.add(Method::GET, path, Access::Public, consent).add(
        Method::POST,
        path,
        Access::Public,
        consent,
    )
}

/// Tells the web UI not to send telemetry to Google, so that it does not ask its user for consent.
async fn consent(_: DevOnly) -> Response {
    json(retain_core::JsonMap::from([("telemetry", false)]))
}
