//! HTTP access to providers: client, API keys, timeouts, retries and server-sent events.
//!
//! ```text
//! HttpModel::generate (model) → Provider::call → Http::open (client, retry)
//!     → Sse (sse) → StreamReader
//! ```

mod address;
mod auth;
mod call;
mod client;
mod encode;
mod model;
mod options;
mod retry;
mod secret;
mod sse;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use address::Address;
pub(crate) use auth::{Auth, TokenSource};
pub(crate) use call::Call;
pub(crate) use client::{Exchange, cut_off, malformed};
pub use client::{Http, HttpSettings};
pub(crate) use encode::percent_encode;
pub(crate) use model::HttpModel;
pub(crate) use options::http_option;
pub use retry::Retries;
pub(crate) use retry::{AttemptError, delay_from_secs};
pub use secret::Secret;
pub(crate) use secret::Secrets;
#[cfg(test)]
pub(crate) use sse::Sse;
pub(crate) use sse::SseEvent;
