//! Single memories: list, read, update, delete; and statistics.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Content, JsonMap, MemoryStatistics, MemoryUpdate, micros};
use retain_memory::ListMemories;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Api,
        body::{JsonBody, no_content, ok},
        operation::Operation,
        path::{MemoryPath, UserPath},
        problem::Problem,
        query::{INTEGER_MAX, Kind, Param, Params},
        shapes::{ContentObject, FreeObject, Time, nullable},
    },
    filter,
    info::MemoryBody,
    long_term,
};
use crate::{guard::Scope, routes::Access, services::Shared};

const AFTER: Param = Param::new(
    "after",
    Kind::Integer(0, INTEGER_MAX),
    "The `next` of the previous page.",
);
const LIMIT: Param = Param::new(
    "limit",
    Kind::Integer(1, 1000),
    "Maximum number of results (default 100).",
);
const LIST: &[Param] = &[
    AFTER,
    LIMIT,
    filter::PARAMS[0],
    filter::PARAMS[1],
    filter::PARAMS[2],
    filter::PARAMS[3],
    filter::PARAMS[4],
    filter::PARAMS[5],
    filter::PARAMS[6],
];

pub(super) fn routes(api: Api) -> Api {
    const ENTRIES: &str = "/api/v1/apps/{app}/users/{user}/memory/entries";
    const ENTRY: &str = "/api/v1/apps/{app}/users/{user}/memory/entries/{memory}";
    const STATISTICS: &str = "/api/v1/apps/{app}/users/{user}/memory/statistics";
    let reads = Access::Path(Scope::MemoryRead);
    let list_it = Operation::new(
        Method::GET,
        ENTRIES,
        "listMemories",
        "List memories in order of arrival",
    );
    let get_it = Operation::new(Method::GET, ENTRY, "getMemory", "Read a memory");
    let change_it = Operation::new(
        Method::PATCH,
        ENTRY,
        "changeMemory",
        "Update a memory; later ingests leave it unchanged",
    );
    let delete_it = Operation::new(
        Method::DELETE,
        ENTRY,
        "deleteMemory",
        "Delete the memories with this id permanently; succeeds if there are none",
    );
    let count_it = Operation::new(
        Method::GET,
        STATISTICS,
        "memoryStatistics",
        "Count the memories of a user",
    );
    api.add(list_it.query(LIST).answers::<Page>(200), reads, list)
        .add(get_it.answers::<MemoryBody>(200).fails(&[404]), reads, get)
        .add(
            change_it
                .takes::<MemoryUpdateBody>()
                .answers::<MemoryBody>(200)
                .fails(&[404]),
            Access::Path(Scope::MemoryWrite),
            change,
        )
        .add(delete_it, Access::Path(Scope::MemoryDelete), delete)
        .add(count_it.answers::<Statistics>(200), reads, statistics)
}

/// A page of memories.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MemoryPage")]
struct Page {
    /// The memories.
    memories: Vec<MemoryBody>,
    /// Pass this as `after` to read the next page; null at the end.
    next: Option<String>,
}

/// The fields to update. Missing fields stay unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MemoryUpdate")]
struct MemoryUpdateBody {
    /// The new content.
    #[schemars(with = "Option<ContentObject>")]
    content: Option<Content>,
    /// The new custom metadata.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
    /// When it expires, in seconds since 1970; null for never.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Time>")]
    expires_at: Option<Option<Time>>,
}

/// Statistics about a user's memories.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MemoryStatistics")]
struct Statistics {
    /// Number of memories.
    entries: u64,
    /// Size of their content and metadata in bytes.
    bytes: u64,
    /// Number of sessions that they come from.
    sessions: u64,
    /// Number of memories that come from tools.
    from_tools: u64,
    /// Number of memories that were stored directly.
    direct: u64,
    /// Number of memories that have an embedding.
    embedded: u64,
    /// Number of hashes of forgotten memories.
    tombstones: u64,
    /// Time of the oldest memory.
    oldest: Option<f64>,
    /// Time of the newest memory.
    newest: Option<f64>,
    /// Revision of the user's memory; it grows with each change.
    revision: u64,
}

impl From<MemoryStatistics> for Statistics {
    fn from(it: MemoryStatistics) -> Statistics {
        Statistics {
            entries: it.entries,
            bytes: it.bytes,
            sessions: it.sessions,
            from_tools: it.from_tools,
            direct: it.direct,
            embedded: it.embedded,
            tombstones: it.tombstones,
            oldest: it.oldest,
            newest: it.newest,
            revision: it.revision,
        }
    }
}

fn not_found(id: &str) -> Problem {
    Problem::not_found("memory_not_found", format!("memory {id:?} not found"))
}

async fn list(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(LIST)?;
    let mut list = ListMemories::default().with_filter(filter::from_query(&params)?);
    list.limit = params.count(&LIMIT)?.unwrap_or(list.limit);
    list.after = params.integer(&AFTER)?;
    let page = long_term(&server, "listing memories")?
        .list(&app, &user, list)
        .await?;
    ok(&Page {
        memories: page.memories.into_iter().map(MemoryBody::from).collect(),
        next: page.next.map(|next| next.to_string()),
    })
}

async fn get(
    State(server): State<Shared>,
    MemoryPath { of, id }: MemoryPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    read(&server, &of, &id).await
}

async fn read(server: &Shared, of: &UserPath, id: &str) -> Result<Response, Problem> {
    let memory = long_term(server, "reading a memory")?;
    let record = memory.get(&of.app, &of.user, id).await?;
    ok(&MemoryBody::from(record.ok_or_else(|| not_found(id))?))
}

async fn change(
    State(server): State<Shared>,
    MemoryPath { of, id }: MemoryPath,
    params: Params,
    JsonBody(change): JsonBody<MemoryUpdateBody>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let mut update = MemoryUpdate::default();
    update.content = change.content;
    update.custom_metadata = change.custom_metadata;
    update.expires_us = change.expires_at.map(|at| at.map(|at| micros(at.0)));
    let memory = long_term(&server, "updating a memory")?;
    match memory.update(&of.app, &of.user, &id, update).await? {
        true => read(&server, &of, &id).await,
        false => Err(not_found(&id)),
    }
}

async fn delete(
    State(server): State<Shared>,
    MemoryPath { of, id }: MemoryPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let memory = &server.services.memory;
    memory.delete_memory(&of.app, &of.user, Some(&id)).await?;
    Ok(no_content())
}

async fn statistics(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let found = long_term(&server, "statistics")?.statistics(&app, &user);
    ok(&Statistics::from(found.await?))
}
