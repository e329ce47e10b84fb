//! Ingest a session, events or ready-made memories.

use std::sync::Arc;

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Event, IngestReceipt, JsonMap, MemoryEntry, Session, SessionKey, Window};
use retain_memory::IngestOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Api,
        body::{JsonBody, ok},
        operation::Operation,
        path::UserPath,
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
        "ingestSession",
        "Ingest a session; a session that has grown may be ingested again",
    );
    let events = Operation::new(
        Method::POST,
        EVENTS,
        "ingestEvents",
        "Ingest events; existing entries are skipped",
    );
    let entries = Operation::new(
        Method::POST,
        ENTRIES,
        "ingestEntries",
        "Store memories as given",
    );
    api.add(
        session
            .takes::<AddSession>()
            .answers::<IngestReceiptBody>(200)
            .fails(&[404]),
        access,
        add_session,
    )
    .add(
        events
            .takes::<AddEvents>()
            .answers::<IngestReceiptBody>(200),
        access,
        add_events,
    )
    .add(
        entries
            .takes::<AddEntries>()
            .answers::<IngestReceiptBody>(200),
        access,
        add_entries,
    )
}

/// A session to ingest: the id of a session of this server, or a whole session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IngestSession")]
struct AddSession {
    /// The id of a session of this server.
    session_id: Option<String>,
    /// A session with its events.
    session: Option<SessionInput>,
    /// Custom metadata for all created entries.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// Time to live of the created entries.
    ttl_seconds: Option<Ttl>,
    /// Whether to ingest tool responses too.
    tool_responses: Option<bool>,
}

/// A session in ADK's JSON, in camelCase or snake_case. Other fields are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionInput {
    /// Its id.
    id: String,
    /// The app; must equal the app of the path.
    #[serde(alias = "app_name")]
    app_name: Option<String>,
    /// The user; must equal the user of the path.
    #[serde(alias = "user_id")]
    user_id: Option<String>,
    /// Its events.
    #[serde(default)]
    #[schemars(with = "Vec<EventObject>")]
    events: Vec<Event>,
}

/// Events to ingest.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IngestEvents")]
struct AddEvents {
    /// The events.
    #[schemars(with = "Vec<EventObject>")]
    events: Vec<Event>,
    /// The session that the events belong to.
    session_id: Option<String>,
    /// Custom metadata for all created entries.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// Time to live of the created entries.
    ttl_seconds: Option<Ttl>,
    /// Whether to ingest tool responses too.
    tool_responses: Option<bool>,
}

/// Memories to store.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "IngestEntries")]
struct AddEntries {
    /// The memories.
    #[schemars(with = "Vec<MemoryEntryObject>")]
    memories: Vec<MemoryEntry>,
    /// Custom metadata for all created entries.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// Time to live of the created entries.
    ttl_seconds: Option<Ttl>,
}

/// The result of an ingest. The numbers are null if the memory service does not count.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "IngestReceipt")]
struct IngestReceiptBody {
    /// Number of new entries.
    added: Option<u64>,
    /// Number of entries whose content changed.
    replaced: Option<u64>,
    /// Number of entries that existed already.
    unchanged: Option<u64>,
    /// Number of entries skipped because they were forgotten earlier.
    forgotten: Option<u64>,
}

impl From<IngestReceipt> for IngestReceiptBody {
    fn from(added: IngestReceipt) -> IngestReceiptBody {
        IngestReceiptBody {
            added: Some(added.added),
            replaced: Some(added.replaced),
            unchanged: Some(added.unchanged),
            forgotten: Some(added.forgotten),
        }
    }
}

/// Builds the ingest options. Fails with 501 if an option is set that only Retain's own memory
/// supports.
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
    let mut options = IngestOptions::default();
    options.ttl = ttl.map(Into::into);
    options.tool_responses = tool_responses;
    options.custom_metadata = custom_metadata.unwrap_or_default();
    Ok(options)
}

async fn add_session(
    State(server): State<Shared>,
    of: UserPath,
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
            let detail = "set exactly one of `sessionId` and `session`";
            return Err(Problem::invalid_body(detail));
        }
    };
    let metadata = body.custom_metadata;
    let options = options(&server, body.ttl_seconds, body.tool_responses, metadata)?;
    let services = &server.services;
    match services.long_term_memory_for(&session) {
        Some(memory) => ok(&IngestReceiptBody::from(
            memory.add_session_with(&session, &options).await?,
        )),
        None => {
            let memory = services.memory_for(&session);
            memory.add_session_to_memory(&session).await?;
            ok(&IngestReceiptBody::default())
        }
    }
}

/// Reads the session from the body and checks that it belongs to the user of the path.
fn session_of(of: UserPath, given: SessionInput) -> Result<Session, Problem> {
    let differs = |id: Option<String>, path: &str| id.is_some_and(|id| id != path);
    if differs(given.app_name, &of.app) || differs(given.user_id, &of.user) {
        let detail = format!(
            "the app or user of the session differs from the path: expected app {:?} and user {:?}",
            of.app, of.user
        );
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
    UserPath { app, user }: UserPath,
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
            ok(&IngestReceiptBody::from(added.await?))
        }
        None => {
            let metadata = Some(&options.custom_metadata).filter(|metadata| !metadata.is_empty());
            let added = services
                .memory
                .add_events_to_memory(&app, &user, &events, session, metadata);
            added.await?;
            ok(&IngestReceiptBody::default())
        }
    }
}

async fn add_entries(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
    JsonBody(body): JsonBody<AddEntries>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let options = options(&server, body.ttl_seconds, None, body.custom_metadata)?;
    let services = &server.services;
    match &services.long_term_memory {
        Some(memory) => {
            let added = memory.add_memory_with(&app, &user, &body.memories, &options);
            ok(&IngestReceiptBody::from(added.await?))
        }
        None => {
            let metadata = Some(&options.custom_metadata).filter(|metadata| !metadata.is_empty());
            let added = services
                .memory
                .add_memory(&app, &user, &body.memories, metadata);
            added.await?;
            ok(&IngestReceiptBody::default())
        }
    }
}
