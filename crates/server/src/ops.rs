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
    metrics::{budget_text, quota_rejections_text},
    routes::{Access, Routes},
    services::{Server, Shared},
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
        // Reads and deletions work, and only deletions can free the space, so the server stays ready.
        Ok(()) if is_low_on_space(&server) => {
            let body = r#"{"status":"ready","detail":"free space is low: writes that add data are refused; see the log"}"#;
            (StatusCode::OK, json, body)
        }
        Ok(()) => (StatusCode::OK, json, r#"{"status":"ready"}"#),
        Err(error) => {
            tracing::error!(error = ?reasons(&error), "the store is unavailable");
            let body = r#"{"status":"not ready","detail":"the store cannot be used; see the log"}"#;
            (StatusCode::SERVICE_UNAVAILABLE, json, body)
        }
    }
}

fn is_low_on_space(server: &Server) -> bool {
    let space = server.services.sessions.free_space();
    let Some(space) = space.filter(|space| space.is_low) else {
        return false;
    };
    let (free, min_free) = (space.free, space.min_free);
    tracing::warn!(
        free,
        min_free,
        "free space is low: writes that add data are refused; free some space"
    );
    true
}

async fn metrics(
    State(server): State<Shared>,
    Extension(guards): Extension<Arc<Guards>>,
) -> impl IntoResponse {
    let (runs, maintenance) = (server.apps.runs(), &server.maintenance_status);
    let mut gauges = vec![
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
        (
            "retain_pending_sessions",
            "gauge",
            "Sessions with work that must still follow their runs, such as ingestion.",
            maintenance.pending_sessions(),
        ),
        (
            "retain_pending_oldest_seconds",
            "gauge",
            "Time since the last write to the session whose work has waited the longest.",
            maintenance.oldest_pending().as_secs(),
        ),
        (
            "retain_pending_failed_sessions",
            "gauge",
            "Sessions whose pending work has failed and waits for its next attempt.",
            maintenance.failed_sessions(),
        ),
        (
            "retain_sweeps_total",
            "counter",
            "Sweeps by this process.",
            maintenance.runs(),
        ),
        (
            "retain_pending_finished_total",
            "counter",
            "Sessions whose pending work a sweep of this process has finished.",
            maintenance.finished_sessions(),
        ),
        (
            "retain_expired_sessions_deleted_total",
            "counter",
            "Expired sessions that this process has deleted.",
            maintenance.swept_sessions(),
        ),
    ];
    if let Some(space) = server.services.sessions.free_space() {
        gauges.extend([
            (
                "retain_free_bytes",
                "gauge",
                "Free bytes of the database's file system.",
                space.free,
            ),
            (
                "retain_min_free_bytes",
                "gauge",
                "Free bytes below which writes that add data are refused.",
                space.min_free,
            ),
            (
                "retain_low_space_rejections_total",
                "counter",
                "Writes that were refused because free space is low.",
                space.refused,
            ),
        ]);
    }
    let mut text = guards.metrics.text(&gauges);
    text.push_str(&budget_text(guards.memory.budget()));
    let rejections = server.services.quotas.rejections();
    text.push_str(&quota_rejections_text(rejections));
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text)
}
