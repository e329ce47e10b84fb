//! Delete memories permanently: by id, session, tool or filter.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Forget, MemoryFilter};
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
    },
    filter::Filter,
    long_term,
};
use crate::{guard::Scope, routes::Access, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const FORGET: &str = "/api/v1/apps/{app}/users/{user}/memory/forget";
    let forget_it = Operation::new(
        Method::POST,
        FORGET,
        "forgetMemories",
        "Delete memories permanently; later ingests do not restore them",
    );
    api.add(
        forget_it
            .takes::<ForgetBody>()
            .answers::<ForgetReceiptBody>(200),
        Access::Path(Scope::MemoryDelete),
        forget,
    )
}

/// What to delete. Set exactly one field.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Forget")]
struct ForgetBody {
    /// The memories with these ids.
    ids: Option<Vec<String>>,
    /// All current memories of this session.
    session: Option<String>,
    /// All current memories from this tool.
    tool: Option<String>,
    /// The memories that match; at least one condition is required.
    filter: Option<Filter>,
    /// All memories of the user.
    all: Option<bool>,
}

/// What was deleted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ForgetReceipt")]
struct ForgetReceiptBody {
    /// Number of deleted memories.
    memories: u64,
    /// Their size in bytes.
    bytes: u64,
    /// Number of stored hashes that prevent a later ingest from restoring the memories.
    tombstones: u64,
}

fn parse_forget(body: ForgetBody) -> Result<Forget, Problem> {
    let mut selections = Vec::new();
    selections.extend(body.ids.map(Forget::Ids));
    selections.extend(body.session.map(Forget::session));
    selections.extend(body.tool.map(Forget::tool));
    if let Some(mut filter) = body.filter {
        let filter = filter.take_filter();
        if filter.is_any() {
            let detail = "the filter is empty; to forget everything, send {\"all\": true}";
            return Err(Problem::invalid_body(detail));
        }
        selections.push(Forget::Matching(filter));
    }
    if body.all == Some(true) {
        selections.push(Forget::Matching(MemoryFilter::default()));
    }
    match (selections.pop(), selections.is_empty()) {
        (Some(selection), true) => Ok(selection),
        _ => {
            let detail = "set exactly one of `ids`, `session`, `tool`, `filter`, `all`";
            Err(Problem::invalid_body(detail))
        }
    }
}

async fn forget(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
    JsonBody(body): JsonBody<ForgetBody>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let forget = parse_forget(body)?;
    let memory = long_term(&server, "the forget operation")?;
    let receipt = memory.forget(&app, &user, forget).await?;
    ok(&ForgetReceiptBody {
        memories: receipt.memories,
        bytes: receipt.bytes,
        tombstones: receipt.tombstones,
    })
}
