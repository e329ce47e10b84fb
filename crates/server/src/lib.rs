//! Retain's HTTP server. It depends on no database: the program passes the services.
//!
//! ```text
//! request → guard/ (authentication, origin, limits) → adk/ | api/ | ops.rs → services, Runner
//! ```
//!
//! [`Server`] holds the state that all requests share; [`Server::router`] combines the APIs, and
//! [`serve`] listens.

mod adk;
mod api;
mod apps;
mod conformance;
mod failures;
mod guard;
mod maintenance;
mod metrics;
mod ops;
mod routes;
mod serve;
mod services;
mod shutdown;
mod stall_timer;
mod timed_socket;
mod trace;
mod untrusted_input;

pub use adk::Dev;
pub use api::{erase_report_json, memory_hit_json, memory_json, openapi_json};
pub use apps::{AppError, Apps};
pub use conformance::Conformance;
pub use guard::{
    Caller, Guards, Keys, Origins, OriginsError, RunPermit, Runs, Scope, ServerLimits, Streams,
    TooManyRuns, TraceContext, is_loopback_name,
};
pub use metrics::Metrics;
pub use routes::{Access, RouteInfo};
pub use serve::{serve, serve_guarded};
pub use services::{Server, Services};
pub use shutdown::Shutdown;
pub use trace::Traces;
