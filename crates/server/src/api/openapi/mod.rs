//! The OpenAPI 3.1 document, made from the registered routes and the types of their bodies.

mod adk_schemas;
mod document;
mod other_routes;

use std::sync::LazyLock;

use axum::{
    http::{Method, header},
    response::IntoResponse,
};

pub(super) use adk_schemas::component;

use super::{
    Api,
    operation::{Body, Operation},
};
use crate::routes::Access;

/// The document as text, the same for every server of this version.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = format!("{:#}", document::document());
    text.push('\n');
    text
});

pub(super) fn routes(api: Api) -> Api {
    let get = Operation::new(
        Method::GET,
        "/openapi.json",
        "getOpenApi",
        "Read this OpenAPI document",
    );
    let get = get.answers_body(200, Body::stream("application/json"));
    api.add(get, Access::Public, openapi)
}

/// Returns the description of all routes, as OpenAPI 3.1 in JSON.
pub fn openapi_json() -> &'static str {
    &TEXT
}

async fn openapi() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, openapi_json())
}
