//! Routes for operators: health, readiness and metrics.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{Method, StatusCode, header},
    response::IntoResponse,
};

use crate::{
    failures::reasons,
    guard::{Guards, Scope},
    routes::{Access, Routes},
    services::Shared,
};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(Method::GET, "/health", Access::Public, health)
        .add(Method::GET, "/ready", Access::Public, ready)
        .add(
            Method::GET,
            "/metrics",
            Access::Anybody(Scope::Admin),
            metrics,
        )
}

async fn health() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        r#"{"status":"ok"}"#,
    )
}

/// Whether the store is reachable and its schema is current. The reason goes only to the log,
/// because this route is public.
async fn ready(State(server): State<Shared>) -> impl IntoResponse {
    let json = [(header::CONTENT_TYPE, "application/json")];
    match server.services.sessions.ready().await {
        Ok(()) => (StatusCode::OK, json, r#"{"status":"ready"}"#),
        Err(error) => {
            tracing::error!(error = ?reasons(&error), "the store is unavailable");
            let body = r#"{"status":"not ready","detail":"the store cannot be used; see the log"}"#;
            (StatusCode::SERVICE_UNAVAILABLE, json, body)
        }
    }
}

async fn metrics(
    State(server): State<Shared>,
    Extension(guards): Extension<Arc<Guards>>,
) -> impl IntoResponse {
    let runs = server.apps.runs();
    let text = guards.metrics.text(&[
        (
            "retain_runs_total",
            "counter",
            "Agent runs started.",
            runs.begun(),
        ),
        (
            "retain_runs_active",
            "gauge",
            "Agent runs in progress.",
            runs.running() as u64,
        ),
        (
            "retain_events_appended_total",
            "counter",
            "Events stored and acknowledged.",
            server.services.sessions.appended_events(),
        ),
    ]);
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text)
}
