//! Events: read a range, append, rewind; and the runs that they belong to.

use std::time::Duration;

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Append, AppendReceipt, Event, Rewind, RunOptions, RunUse, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Api,
    body::{JsonBody, no_content, ok},
    caller::RequestCaller,
    operation::Operation,
    path::{RunPath, SessionPath, run_token, token_text},
    problem::Problem,
    query::{Kind, Param, Params},
    sessions::{WINDOW, read, window},
    shapes::{EventObject, LoggedEvent, Position, WaitMs, logged_events},
};
use crate::{guard::Scope, routes::Access, services::Shared, untrusted_input};

const LIMIT: Param = Param::new(
    "limit",
    Kind::Integer(1, 10_000),
    "Maximum number of events, oldest first, to read page by page (default: all).",
);
const READ: &[Param] = &[WINDOW[0], WINDOW[1], WINDOW[2], WINDOW[3], LIMIT];

pub(super) fn routes(api: Api) -> Api {
    const EVENTS: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/events";
    const REWIND: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/rewind";
    const RUN: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/runs/{token}";
    const RENEW: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/runs/{token}/renew";
    let reads = Access::Path(Scope::SessionsRead);
    let writes = Access::Path(Scope::SessionsWrite);
    let get = Operation::new(Method::GET, EVENTS, "getEvents", "Read events of a session");
    let post = Operation::new(
        Method::POST,
        EVENTS,
        "appendEvents",
        "Append events atomically; repeating the same append succeeds and changes nothing",
    );
    let rewind_it = Operation::new(
        Method::POST,
        REWIND,
        "rewindSession",
        "Rewind a session and its artifacts to before an invocation",
    );
    let renew_it = Operation::new(Method::POST, RENEW, "renewRun", "Renew the lease of a run");
    let end_it = Operation::new(Method::DELETE, RUN, "endRun", "End a run");
    api.add(
        get.query(READ).answers::<EventPage>(200).fails(&[404]),
        reads,
        get_events,
    )
    .add(
        post.takes::<AppendBody>()
            .answers::<AppendReceiptBody>(200)
            .fails(&[404, 409]),
        writes,
        append,
    )
    .add(
        rewind_it
            .takes::<RewindBody>()
            .answers::<RewindReceiptBody>(200)
            .fails(&[404, 409]),
        writes,
        rewind,
    )
    .add(renew_it.fails(&[404, 409]), writes, renew)
    .add(end_it.fails(&[404, 409]), writes, end)
}

/// A range of a session's events.
#[derive(Debug, Serialize, JsonSchema)]
struct EventPage {
    /// The events, oldest first.
    events: Vec<LoggedEvent>,
    /// The last position of the log.
    position: u64,
    /// With a `limit`: pass this as `afterPosition` to read the next page; null at the end.
    next: Option<u64>,
}

/// Events to append.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Append")]
struct AppendBody {
    /// The events in order. Partial events are skipped.
    #[schemars(with = "Vec<EventObject>")]
    events: Vec<Event>,
    /// Fail unless the log ends at this position.
    expected: Option<Position>,
    /// How this append relates to a run.
    run: Option<RunBody>,
}

/// How an append relates to a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[schemars(rename = "RunUse")]
enum RunBody {
    /// Start a run as soon as no other run writes the session.
    Begin {
        /// How long to wait for another run to end (default: do not wait).
        wait_ms: Option<WaitMs>,
    },
    /// Append as part of the run with this token.
    Within(String),
    /// Append and end the run with this token.
    End(String),
}

/// The result of an append.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AppendReceipt")]
struct AppendReceiptBody {
    /// The events as stored.
    events: Vec<LoggedEvent>,
    /// The position of the last stored event, or of the session if none was stored.
    position: u64,
    /// The time of the last stored event, or of the session's last update if none was stored.
    last_update_time: f64,
    /// The token of the run that was started or continues.
    run: Option<String>,
}

/// A rewind request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Rewind")]
struct RewindBody {
    /// Rewind to before the first event of this invocation.
    before_invocation_id: String,
}

/// The result of a rewind.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RewindReceipt")]
struct RewindReceiptBody {
    /// The rewind event as stored.
    events: Vec<LoggedEvent>,
    /// The last position of the log.
    position: u64,
}

async fn get_events(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(READ)?;
    let limit = params.count(&LIMIT)?;
    let window = Window {
        // Read one more to know whether there is a next page.
        oldest: limit.map(|limit| limit + 1),
        ..window(&params)?
    };
    let session = read(&server, &key, window).await?;
    let mut events = logged_events(&session);
    let has_more = limit.is_some_and(|limit| events.len() > limit);
    events.truncate(limit.unwrap_or(usize::MAX));
    let last = events.last().map(LoggedEvent::position);
    ok(&EventPage {
        events,
        position: session.position,
        next: last.filter(|_| has_more),
    })
}

fn run_use(run: Option<RunBody>) -> Result<RunUse, Problem> {
    Ok(match run {
        None => RunUse::Outside,
        Some(RunBody::Begin { wait_ms }) => RunUse::Begin(
            RunOptions::default()
                .with_wait(wait_ms.map_or(Duration::ZERO, |wait| Duration::from_millis(wait.0))),
        ),
        Some(RunBody::Within(token)) => RunUse::Within(run_token(&token)?),
        Some(RunBody::End(token)) => RunUse::End(run_token(&token)?),
    })
}

async fn append(
    State(server): State<Shared>,
    RequestCaller(caller): RequestCaller,
    SessionPath(key): SessionPath,
    params: Params,
    JsonBody(body): JsonBody<AppendBody>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    for event in &body.events {
        untrusted_input::check_state(&caller, event.actions.state_delta.keys())?;
    }
    let events = untrusted_input::mark_events_of_user_keys(&caller, body.events);
    let mut append = Append::from(events);
    append.expected = body.expected.map(|position| position.0);
    append.run = run_use(body.run)?;
    let AppendReceipt { events, run, .. } = server.services.sessions.append(&key, append).await?;
    let events: Vec<LoggedEvent> = events.into_iter().map(LoggedEvent::from).collect();
    let (position, last_update_time) = match events.last() {
        Some(last) => (last.position(), last.timestamp()),
        None => {
            let session = read(&server, &key, Window::NONE).await?;
            (session.position, session.last_update_time)
        }
    };
    ok(&AppendReceiptBody {
        events,
        position,
        last_update_time,
        run: run.map(token_text),
    })
}

async fn rewind(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
    JsonBody(body): JsonBody<RewindBody>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let services = &server.services;
    let rewind = Rewind::before(body.before_invocation_id);
    let rewind = rewind.with_artifacts(services.artifacts.clone());
    let appended = services.sessions.rewind_with(&key, rewind).await?;
    let events: Vec<LoggedEvent> = appended.events.into_iter().map(LoggedEvent::from).collect();
    let position = events.last().map_or(0, LoggedEvent::position);
    ok(&RewindReceiptBody { events, position })
}

async fn renew(
    State(server): State<Shared>,
    RunPath(key, token): RunPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    server.services.sessions.renew_run(&key, token).await?;
    Ok(no_content())
}

async fn end(
    State(server): State<Shared>,
    RunPath(key, token): RunPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    server.services.sessions.end_run(&key, token).await?;
    Ok(no_content())
}
