//! Retain's own API, `/api/v1`: operations of the services that ADK's API does not offer.
//!
//! ```text
//! path.rs, query.rs, body.rs (validated input) → handler → services → body.rs | problem.rs
//! ```
//!
//! A route is added together with its [`Operation`], so that the API description lists every route.

mod artifacts;
mod body;
mod caller;
mod erase;
mod events;
mod memory;
mod openapi;
mod operation;
mod path;
mod problem;
mod query;
mod secrets;
mod sessions;
mod shapes;
mod state;
mod tail;
mod texts;
mod transfer;
mod usage;

use axum::{handler::Handler, middleware::from_fn};
pub use openapi::openapi_json;
use operation::Operation;
pub(crate) use problem::{is_full, quota_status, refusal, refusals_as_problems};
pub use texts::{erase_report_json, memory_hit_json, memory_json};

use crate::{
    routes::{Access, Routes},
    services::Shared,
};

/// Routes with their descriptions.
#[derive(Default)]
struct Api {
    routes: Routes,
    operations: Vec<(Operation, Access)>,
}

impl Api {
    fn add<H, T>(mut self, operation: Operation, access: Access, handler: H) -> Api
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let method = operation.method.clone();
        let (routes, path) = (self.routes, operation.path);
        let handler = handler.layer(from_fn(secrets::without_secrets));
        self.routes = routes.add(method, path, access, handler);
        self.operations.push((operation, access));
        self
    }
}

fn api(routes: Routes) -> Api {
    let api = Api {
        routes,
        operations: Vec::new(),
    };
    let api = events::routes(sessions::routes(api));
    let api = transfer::routes(tail::routes(state::routes(api)));
    let api = memory::routes(erase::routes(usage::routes(api)));
    openapi::routes(artifacts::routes(api))
}

pub(crate) fn routes(routes: Routes) -> Routes {
    api(routes).routes
}

/// Returns the descriptions of all routes of this API.
fn operations() -> Vec<(Operation, Access)> {
    api(Routes::default()).operations
}
