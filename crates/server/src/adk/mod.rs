//! ADK's API as google-adk 2.13 serves it: paths, status codes, bodies, SSE framing.
//!
//! ```text
//! request → bodies (parsed, validated) → sessions | run | artifacts | memory | apps
//!         → answers (ADK's JSON, secrets removed by redact) or errors (FastAPI's bodies)
//! ```

mod answers;
mod apps;
mod artifacts;
mod bodies;
mod dev;
mod errors;
mod json_error;
mod live;
mod memory;
mod redact;
mod run;
mod session_list;
mod sessions;
mod sse;
mod unmatched;
mod validate;

use crate::routes::Routes;

pub use dev::Dev;

pub(crate) use unmatched::with_fallbacks;

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = apps::routes(routes);
    let routes = sessions::routes(routes);
    let routes = artifacts::routes(routes);
    let routes = memory::routes(routes);
    let routes = dev::routes(routes);
    live::routes(run::routes(routes))
}
