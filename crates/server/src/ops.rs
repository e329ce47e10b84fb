//! What operators ask: is it there, is it ready.

use axum::http::{Method, header};
use axum::response::IntoResponse;

use crate::routes::{Access, Routes};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(Method::GET, "/health", Access::Public, health)
}

async fn health() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        r#"{"status":"ok"}"#,
    )
}
