//! Forgetting for good: by id, session, tool or condition.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Forget, ForgetReceipt, MemoryFilter};
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
        "Forget memories for good: taking up what they were of does not bring them back",
    );
    api.add(
        forget_it.takes::<ForgetBody>().answers::<Forgotten>(200),
        Access::Path(Scope::MemoryDelete),
        forget,
    )
}

/// What is to be forgotten. Exactly one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Forget")]
struct ForgetBody {
    /// The memories with these ids.
    ids: Option<Vec<String>>,
    /// What was said in this session so far.
    session: Option<String>,
    /// What this tool has said so far.
    tool: Option<String>,
    /// Those that are meant; at least one condition.
    filter: Option<Filter>,
    /// Everything.
    all: Option<bool>,
}

/// What was forgotten.
#[derive(Debug, Serialize, JsonSchema)]
struct Forgotten {
    /// Memories that are gone.
    memories: u64,
    /// Bytes that they took.
    bytes: u64,
    /// Hashes that were left, so that they do not come back.
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
            let detail = "the filter says nothing; to forget everything, say {\"all\": true}";
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
            let detail = "give exactly one of `ids`, `session`, `tool`, `filter`, `all`";
            Err(Problem::invalid_body(detail))
        }
    }
}

async fn forget(
    State(server): State<Shared>,
    OfUser { app, user }: OfUser,
    params: Params,
    JsonBody(body): JsonBody<ForgetBody>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let what = what(body)?;
    let memory = long_term(&server, "way to forget by condition")?;
    let ForgetReceipt {
        memories,
        bytes,
        tombstones,
    } = memory.forget(&app, &user, what).await?;
    ok(&Forgotten {
        memories,
        bytes,
        tombstones,
    })
}
