//! Contexts: the invocation, and the smaller views of it for callbacks, tools and instruction
//! providers.

mod artifacts;
mod callback;
mod checkpoints;
mod invocation;
mod live_state;
mod paths;
mod progress;
mod tool;
mod watch;

pub use callback::{CallbackContext, ReadonlyContext};
pub(crate) use checkpoints::Checkpoints;
pub use invocation::InvocationContext;
pub(crate) use invocation::{EmittedEvent, Invocation};
pub use live_state::LiveState;
pub(crate) use paths::{NodePaths, last_agent};
pub use tool::ToolContext;
pub(crate) use watch::EventWatch;
