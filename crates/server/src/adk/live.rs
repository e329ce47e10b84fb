//! `/run_live`: live audio is not supported. The server accepts the WebSocket and closes it with a
//! reason, because a browser hides the reason of a rejected handshake.

use std::time::Duration;

use axum::{
    extract::{
        FromRequestParts as _, RawQuery, Request, State as Shares,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::Method,
    response::Response,
};

use super::{apps::query_value, errors::AdkError, run::app_name};
use crate::{
    guard::{Caller, Scope},
    routes::{Access, Routes},
    services::Shared,
};

/// How long the client may take to answer the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn routes(routes: Routes) -> Routes {
    routes.add(Method::GET, "/run_live", Access::Body(Scope::Run), run_live)
}

async fn run_live(
    Shares(server): Shares<Shared>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, AdkError> {
    let caller = Caller::from_extensions(request.extensions());
    let query = query.as_deref();
    let app = app_name(&server, query_value(query, "app_name"));
    let user = query_value(query, "user_id");
    caller.check_owner(app.as_deref(), user.as_deref())?;
    let (code, reason) = match app {
        Some(_) => (
            close_code::ERROR,
            "live runs are not supported by this server; use /run_sse",
        ),
        None => (
            close_code::POLICY,
            "app_name query parameter is required when ADK_DEFAULT_APP_NAME is not set",
        ),
    };
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    // FastAPI has no plain HTTP route at this path.
    let upgrade = upgrade.map_err(|_| AdkError::not_found("Not Found"))?;
    Ok(upgrade.on_upgrade(|socket| close(socket, frame)))
}

/// Sends the reason and waits until the client closes. An error means that the client disconnected.
async fn close(mut socket: WebSocket, frame: CloseFrame) {
    let closed = async {
        if socket.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
}
