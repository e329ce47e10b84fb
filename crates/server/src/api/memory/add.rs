//! Taking up: a session, events, memories as they are.

use std::sync::Arc;

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Event, JsonMap, MemoryAdded, MemoryEntry, Session, SessionKey, Window};
use retain_memory::IngestOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Api,
        body::{JsonBody, ok},
        operation::Operation,
        path::OfUser,
        problem::Problem,
        query::Params,
        sessions::read,
        shapes::{EventObject, FreeObject, MemoryEntryObject, Ttl},
    },
    long_term,
};
use crate::{guard::Scope, routes::Access, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const SESSIONS: &str = "/api/v1/apps/{app}/users/{user}/memory/sessions";
    const EVENTS: &str = "/api/v1/apps/{app}/users/{user}/memory/events";
    const ENTRIES: &str = "/api/v1/apps/{app}/users/{user}/memory/entries";
    let access = Access::Path(Scope::MemoryWrite);
    let session = Operation::new(
        Method::POST,
        SESSIONS,
        "rememberSession",
        "Take up what a session says; one that has grown may be taken up again",
    );
    let events = Operation::new(
        Method::POST,
        EVENTS,
        "rememberEvents",
        "Take up events; those that are known stay as they are",
    );
    let entries = Operation::new(
        Method::POST,
        ENTRIES,
        "remember",
        "Take up memories as they are",
    );
    api.add(
        session
            .takes::<AddSession>()
            .answers::<Added>(200)
            .fails(&[404]),
        access,
        add_session,
    )
    .add(
        events.takes::<AddEvents>().answers::<Added>(200),
        access,
        add_events,
    )
    .add(
        entries.takes::<AddEntries>().answers::<Added>(200),
        access,
        add_entries,
    )
}

/// A session to be taken up: one of this server by its id, or one that is kept elsewhere.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RememberSession")]
struct AddSession {
    /// A session of this server.
    session_id: Option<String>,
    /// A session with its events.
    session: Option<GivenSession>,
    /// Notes for everything that is taken up.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// How long it is remembered.
    ttl_seconds: Option<Ttl>,
    /// Whether what tools answered is taken up too.
    tool_responses: Option<bool>,
}

/// A session as ADK writes it, in either spelling. What is not named here does not matter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GivenSession {
    /// Its id.
    id: String,
    /// The app; that of the path.
    #[serde(alias = "app_name")]
    app_name: Option<String>,
    /// The user; that of the path.
    #[serde(alias = "user_id")]
    user_id: Option<String>,
    /// Its events.
    #[serde(default)]
    #[schemars(with = "Vec<EventObject>")]
    events: Vec<Event>,
}

/// Events to be taken up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RememberEvents")]
struct AddEvents {
    /// The events.
    #[schemars(with = "Vec<EventObject>")]
    events: Vec<Event>,
    /// The session they are of.
    session_id: Option<String>,
    /// Notes for everything that is taken up.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// How long it is remembered.
    ttl_seconds: Option<Ttl>,
    /// Whether what tools answered is taken up too.
    tool_responses: Option<bool>,
}

/// Memories to be taken up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Remember")]
struct AddEntries {
    /// The memories.
    #[schemars(with = "Vec<MemoryEntryObject>")]
    memories: Vec<MemoryEntry>,
    /// Notes for everything that is taken up.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// How long it is remembered.
    ttl_seconds: Option<Ttl>,
}

/// What became of it; null where the memory service does not count.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Remembered")]
struct Added {
    /// New ones.
    added: Option<u64>,
    /// Known ones that say something else now.
    replaced: Option<u64>,
    /// Those that were there already.
    known: Option<u64>,
    /// Those that were forgotten before, and stay so.
    forgotten: Option<u64>,
}

impl From<MemoryAdded> for Added {
    fn from(added: MemoryAdded) -> Added {
        Added {
            added: Some(added.added),
            replaced: Some(added.replaced),
            known: Some(added.known),
            forgotten: Some(added.forgotten),
        }
    }
}

/// What only Retain's memory can do, if it is asked for.
fn options(
    server: &Shared,
    ttl: Option<Ttl>,
    tool_responses: Option<bool>,
    custom_metadata: Option<JsonMap>,
) -> Result<IngestOptions, Problem> {
    if ttl.is_some() {
        long_term(server, "ttlSeconds")?;
    }
    if tool_responses.is_some() {
        long_term(server, "toolResponses")?;
    }
    Ok(IngestOptions {
        ttl: ttl.map(Into::into),
        tool_responses,
        custom_metadata: custom_metadata.unwrap_or_default(),
    })
}

async fn add_session(
    State(server): State<Shared>,
    of: OfUser,
    params: Params,
    JsonBody(body): JsonBody<AddSession>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let session = match (body.session_id, body.session) {
        (Some(id), None) => {
            let key = SessionKey::new(of.app, of.user, id);
            read(&server, &key, Window::ALL).await?
        }
        (None, Some(given)) => session_of(of, given)?,
        _ => {
            let detail = "give either `sessionId` or `session`";
            return Err(Problem::invalid_body(detail));
        }
    };
    let metadata = body.custom_metadata;
    let options = options(&server, body.ttl_seconds, body.tool_responses, metadata)?;
    let services = &server.services;
    match &services.long_term_memory {
        Some(memory) => ok(&Added::from(
            memory.add_session_with(&session, &options).await?,
        )),
        None => {
            services.memory.add_session_to_memory(&session).await?;
            ok(&Added::default())
        }
    }
}

/// The session that came in the body, which must be of the user in the path.
fn session_of(of: OfUser, given: GivenSession) -> Result<Session, Problem> {
    let differs = |said: Option<String>, path: &str| said.is_some_and(|said| said != path);
    if differs(given.app_name, &of.app) || differs(given.user_id, &of.user) {
        let detail = "the session is of another app or user than the path";
        return Err(Problem::invalid_body(detail));
    }
    let mut session = Session::new(of.app, of.user, given.id);
    for (position, event) in (1..).zip(given.events) {
        session.events.push(position, event);
    }
    Ok(session)
}

async fn add_events(
    State(server): State<Shared>,
    OfUser { app, user }: OfUser,
    params: Params,
    JsonBody(body): JsonBody<AddEvents>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let events: Vec<Arc<Event>> = body.events.into_iter().map(Arc::new).collect();
    let session = body.session_id.as_deref();
    let metadata = body.custom_metadata;
    let options = options(&server, body.ttl_seconds, body.tool_responses, metadata)?;
    let services = &server.services;
    match &services.long_term_memory {
        Some(memory) => {
            let added = memory.add_events_with(&app, &user, &events, session, &options);
            ok(&Added::from(added.await?))
        }
        None => {
            let notes = Some(&options.custom_metadata).filter(|notes| !notes.is_empty());
            let added = services
                .memory
                .add_events_to_memory(&app, &user, &events, session, notes);
            added.await?;
            ok(&Added::default())
        }
    }
}

async fn add_entries(
    State(server): State<Shared>,
    OfUser { app, user }: OfUser,
    params: Params,
    JsonBody(body): JsonBody<AddEntries>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let options = options(&server, body.ttl_seconds, None, body.custom_metadata)?;
    let services = &server.services;
    match &services.long_term_memory {
        Some(memory) => {
            let added = memory.add_memory_with(&app, &user, &body.memories, &options);
            ok(&Added::from(added.await?))
        }
        None => {
            let notes = Some(&options.custom_metadata).filter(|notes| !notes.is_empty());
            let added = services
                .memory
                .add_memory(&app, &user, &body.memories, notes);
            added.await?;
            ok(&Added::default())
        }
    }
}
