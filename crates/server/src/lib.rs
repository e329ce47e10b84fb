//! The HTTP faces of Retain. Knows no database: what it serves with is given to it.
//!
//! ```text
//! a request → guard/ (who asks, from where, how much) → adk/ | api/ | ops.rs → services, Runner
//! ```
//!
//! [`Server`] has what all requests share; [`Server::router`] puts the faces together, and
//! [`serve`] listens.

mod adk;
mod api;
mod apps;
mod guard;
mod ops;
mod routes;
mod serve;
mod services;

pub use api::openapi_json;
pub use apps::{AppError, Apps};
pub use guard::{Caller, Scope};
pub use routes::{Access, RouteInfo};
pub use serve::serve;
pub use services::{Server, Services};
