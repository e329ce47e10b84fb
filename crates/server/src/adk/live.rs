//! `/run_live`: speech in both directions, which is not served. The socket is accepted and closed
//! with the reason, for a browser shows nothing of a refused one.

use axum::{
    extract::{RawQuery, Request, State as Shares},
    http::Method,
    response::Response,
};

use super::{
    apps::query_value,
    errors::AdkError,
    run::app_name,
    websocket::{self, Close},
};
use crate::{
    guard::{Caller, Scope},
    routes::{Access, Routes},
    services::Shared,
};

pub(super) fn routes(routes: Routes) -> Routes {
    routes.add(Method::GET, "/run_live", Access::Body(Scope::Run), run_live)
}

async fn run_live(
    Shares(server): Shares<Shared>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, AdkError> {
    let caller = Caller::of(request.extensions());
    let query = query.as_deref();
    let app = app_name(&server, query_value(query, "app_name"));
    let user = query_value(query, "user_id");
    caller.check_owner(app.as_deref(), user.as_deref())?;
    let close = match app {
        Some(_) => Close {
            code: 1011,
            reason: "live runs are not supported by this server; use /run_sse",
        },
        None => Close {
            code: 1008,
            reason: "app_name query parameter is required when ADK_DEFAULT_APP_NAME is not set",
        },
    };
    // To FastAPI there is nothing here but a socket.
    websocket::accept_and_close(request, close).ok_or_else(|| AdkError::not_found("Not Found"))
}
