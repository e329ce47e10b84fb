//! `/run_live`: speech in both directions, which is not served. The socket is accepted and closed
//! with the reason, for a browser shows nothing of a refused one.

use axum::{
    extract::{
        RawQuery, State as Shares, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket},
    },
    http::{Extensions, Method},
    response::Response,
};

use super::{apps::query_value, errors::AdkError, run::app_name};
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
    extensions: Extensions,
    upgrade: WebSocketUpgrade,
) -> Result<Response, AdkError> {
    let caller = extensions.get::<Caller>().cloned().unwrap_or_default();
    let query = query.as_deref();
    let app = app_name(&server, query_value(query, "app_name"));
    let user = query_value(query, "user_id");
    caller.check_owner(app.as_deref(), user.as_deref())?;
    let frame = match app {
        Some(_) => CloseFrame {
            code: 1011,
            reason: "live runs are not supported by this server; use /run_sse".into(),
        },
        None => CloseFrame {
            code: 1008,
            reason: "app_name query parameter is required when ADK_DEFAULT_APP_NAME is not set"
                .into(),
        },
    };
    Ok(upgrade.on_upgrade(|socket| close(socket, frame)))
}

async fn close(mut socket: WebSocket, frame: CloseFrame) {
    // Whoever is gone needs no reason.
    let _ = socket.send(Message::Close(Some(frame))).await;
    let goodbye = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(5), goodbye).await;
}
