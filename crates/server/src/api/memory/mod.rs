//! Long-term memory: ingest, search, list, update, forget.
//!
//! Operations that ADK's memory service also has work with every memory service. The others need
//! Retain's own service and return 501 with any other.

mod add;
mod entries;
mod filter;
mod forget;
mod info;
mod search;

use std::sync::Arc;

use retain_memory::LongTermMemory;

pub(super) use info::MemoryBody;
pub(super) use search::HitBody;

use super::{Api, problem::Problem};
use crate::services::Shared;

pub(super) fn routes(api: Api) -> Api {
    forget::routes(entries::routes(search::routes(add::routes(api))))
}

/// Returns Retain's own memory service, or 501 if the server has another one.
fn long_term<'a>(server: &'a Shared, what: &str) -> Result<&'a Arc<dyn LongTermMemory>, Problem> {
    server.services.long_term_memory.as_ref().ok_or_else(|| {
        let detail = format!("the memory service of this server does not support {what}");
        Problem::unsupported(detail)
    })
}
