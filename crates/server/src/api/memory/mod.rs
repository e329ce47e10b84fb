//! Long-term memory: take up, search, list, change, forget.
//!
//! What ADK's memory services can do works with every service; the rest needs Retain's, and is
//! answered with 501 where there is another one.

mod about;
mod add;
mod entries;
mod filter;
mod forget;
mod search;

use std::sync::Arc;

use retain_memory::LongTermMemory;

use super::{Api, problem::Problem};
use crate::services::Shared;

pub(super) fn routes(api: Api) -> Api {
    forget::routes(entries::routes(search::routes(add::routes(api))))
}

/// Retain's own memory, if that is what this server has.
fn long_term<'a>(server: &'a Shared, what: &str) -> Result<&'a Arc<dyn LongTermMemory>, Problem> {
    server.services.long_term_memory.as_ref().ok_or_else(|| {
        let detail = format!("the memory service of this server has no {what}");
        Problem::unsupported(detail)
    })
}
