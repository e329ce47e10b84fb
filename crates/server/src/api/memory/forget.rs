//! Delete memories permanently: by id, session, tool or filter.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Forget, ForgetReceipt, MemoryFilter};
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
    /// All memories of this session so far.
    session: Option<String>,
    /// All memories from this tool so far.
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
    /// Number of hashes kept, so that ingesting again does not restore them.
    tombstones: u64,
}

fn what(body: ForgetBody) -> Result<Forget, Problem> {
    let mut asked = Vec::new();
    asked.extend(body.ids.map(Forget::Ids));
    asked.extend(body.session.map(Forget::session));
    asked.extend(body.tool.map(Forget::tool));
    if let Some(filter) = body.filter {
        let filter = MemoryFilter::from(filter);
        if filter.is_any() {
            let detail = "the filter is empty; to forget everything, send {\"all\": true}";
            return Err(Problem::invalid_body(detail));
        }
        asked.push(Forget::Matching(filter));
    }
    if body.all == Some(true) {
        asked.push(Forget::Matching(MemoryFilter::default()));
    }
    match (asked.pop(), asked.is_empty()) {
        (Some(what), true) => Ok(what),
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
    let what = what(body)?;
    let memory = long_term(&server, "forgetting by condition")?;
    let ForgetReceipt {
        memories,
        bytes,
        tombstones,
    } = memory.forget(&app, &user, what).await?;
    ok(&ForgetReceiptBody {
        memories,
        bytes,
        tombstones,
    })
}
