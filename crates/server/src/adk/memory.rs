//! `PATCH …/memory`: ingest a session into the user's memory.

use axum::{
    extract::{Path, Request, State as Shares},
    http::Method,
    response::Response,
};
use retain_core::adk::{ValueType, table};

use super::{answers::null_response, bodies, errors::AdkError, sessions};
use crate::{
    guard::Scope,
    routes::{Access, Routes},
    services::Shared,
};

pub(super) fn routes(routes: Routes) -> Routes {
    let path = "/apps/{app}/users/{user}/memory";
    let writes = Access::Path(Scope::MemoryWrite);
    routes.add(Method::PATCH, path, writes, add_session)
}

async fn add_session(
    Shares(server): Shares<Shared>,
    Path((app, user)): Path<(String, String)>,
    request: Request,
) -> Result<Response, AdkError> {
    static BODY: ValueType = ValueType::Object(&table::UPDATE_MEMORY_REQUEST);
    let body = bodies::read(request, &BODY).await?;
    let session = body.required_text("sessionId")?;
    let session = sessions::find(&server, &app, &user, &session).await?;
    let memory = server.services.memory_for(&session);
    memory.add_session_to_memory(&session).await?;
    Ok(null_response())
}
