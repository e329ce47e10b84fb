//! `/run` and `/run_sse`: run an agent on a message.

use std::sync::Arc;

use axum::{
    extract::{Request, State as Shares},
    http::{Method, StatusCode},
    response::Response,
};
use retain_core::{
    adk::{ValueType, table},
    budget::Meter,
};
use retain_runtime::{RunConfig, RunRequest, RunStream, Runner, StreamingMode};

use super::{
    answers::{events_text, json_response},
    bodies::{self, Body},
    errors::AdkError,
    sse,
};
use crate::{
    guard::{Caller, Guards, KeyWatch, RunPermit, Scope},
    routes::{Access, Routes},
    services::Shared,
    untrusted_input,
};

pub(super) fn routes(routes: Routes) -> Routes {
    let runs = Access::Body(Scope::Run);
    routes
        .add(Method::POST, "/run", runs, run)
        .add(Method::POST, "/run_sse", runs, run_sse)
}

/// Returns all events together. A client that disconnects drops this future, which cancels the run.
async fn run(Shares(server): Shares<Shared>, request: Request) -> Result<Response, AdkError> {
    let input = RunInput::read(&server, request).await?;
    let (run, _permit) = input.start(StreamingMode::None).await?;
    let events = run.collect_events().await?;
    Ok(json_response(events_text(&events)?))
}

/// Returns each event as it arrives.
async fn run_sse(Shares(server): Shares<Shared>, request: Request) -> Result<Response, AdkError> {
    let guards = request.extensions().get::<Arc<Guards>>();
    let key = guards.map(|guards| KeyWatch::from_request(guards, request.headers()));
    let input = RunInput::read(&server, request).await?;
    let answered_call = input.body.text("functionCallEventId");
    let splits_artifacts = answered_call.is_none_or(|id| id.is_empty());
    let mode = match input.body.bool("streaming") {
        true => StreamingMode::Sse,
        false => StreamingMode::None,
    };
    if mode == StreamingMode::Sse && input.body.text("serviceTier").as_deref() == Some("deferred") {
        return Err(AdkError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "serviceTier \"deferred\" cannot be used with streaming: there would be nothing to stream",
        ));
    }
    let (run, permit) = input.start(mode).await?;
    Ok(sse::response(run, permit, key, splits_artifacts))
}

/// Returns the named app, or the default one.
pub(super) fn app_name(server: &Shared, named: Option<String>) -> Option<String> {
    let named = named.filter(|app| !app.is_empty());
    named.or_else(|| server.apps.default_app().map(str::to_owned))
}

/// Returns the runner of an app.
pub(super) async fn runner(server: &Shared, app: &str) -> Result<Runner, AdkError> {
    if app.starts_with("__") {
        return Err(AdkError::new(
            StatusCode::FORBIDDEN,
            "Access to internal special agents is disabled in API server mode and on a development \
             server not known to be bound to a loopback address.",
        ));
    }
    Ok(server.runner(app).await?)
}

/// The input of a run.
struct RunInput {
    runner: Runner,
    body: Body,
    permit: RunPermit,
}

impl RunInput {
    async fn read(server: &Shared, request: Request) -> Result<RunInput, AdkError> {
        static BODY: ValueType = ValueType::Object(&table::RUN_AGENT_REQUEST);
        let caller = Caller::from_extensions(request.extensions());
        let body = bodies::read_of_owner(request, &BODY, |app, user| {
            let app = app_name(server, app.map(str::to_owned));
            // A missing name is reported below.
            let app = app.as_deref().or(caller.app.as_deref());
            Ok(caller.check_owner(app, user.or(caller.user.as_deref()))?)
        });
        let body = body.await?;
        let Some(app) = app_name(server, body.text("appName")) else {
            return Err(AdkError::bad_request(
                "app_name is required when ADK_DEFAULT_APP_NAME is not set",
            ));
        };
        let user = body.required_text("userId")?;
        caller.check_owner(Some(&app), Some(&user))?;
        untrusted_input::check_state(&caller, body.keys("stateDelta"))?;
        let runner = runner(server, &app).await?;
        let permit = server.apps.runs().admit(&app, &user)?;
        Ok(RunInput {
            runner,
            body,
            permit,
        })
    }

    /// Starts the run. The message is stored when this returns.
    async fn start(
        self,
        streaming_mode: StreamingMode,
    ) -> Result<(RunStream, RunPermit), AdkError> {
        let body = self.body;
        let config = RunConfig::default()
            .with_streaming_mode(streaming_mode)
            .with_custom_metadata(body.map("customMetadata").unwrap_or_default());
        let mut request = RunRequest::new("")
            .with_state_delta(body.map("stateDelta").unwrap_or_default())
            .with_config(config);
        request.message = body.content("newMessage")?;
        request.invocation_id = body.text("invocationId").filter(|id| !id.is_empty());
        let (user, session) = (
            body.required_text("userId")?,
            body.required_text("sessionId")?,
        );
        if request.message.is_none() && request.invocation_id.is_none() {
            return Err(missing_input_error(&self.runner, &user, &session).await);
        }
        let run = self.runner.run_with(&user, Some(&session), request).await?;
        if let Some(meter) = Meter::current() {
            // The run has begun, so it must be able to store its events.
            meter.admit();
        }
        Ok((run, self.permit))
    }
}

/// Returns the error for a request with neither a message nor a run to resume. As in ADK, a missing
/// session is reported first.
async fn missing_input_error(runner: &Runner, user: &str, session: &str) -> AdkError {
    let none = retain_core::GetSessionConfig {
        num_recent_events: Some(0),
        ..Default::default()
    };
    let sessions = runner.session_service();
    let found = sessions.get_session(runner.app_name(), user, session, none);
    match found.await {
        Ok(Some(_)) => AdkError::bad_request(
            "Running an agent requires either newMessage, or invocationId to resume a run.",
        ),
        Ok(None) => AdkError::not_found(format!("Session not found: {session}")),
        Err(error) => error.into(),
    }
}
