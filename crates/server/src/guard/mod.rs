//! Who asks, from where, and how much: what stands before every handler.

mod caller;

pub(crate) use caller::Refused;
pub use caller::{Caller, Scope};
