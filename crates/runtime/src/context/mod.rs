//! What runs sees of its run: the invocation, and the smaller views that callbacks, tools and
//! instruction providers get.

mod callback;
mod invocation;
mod live_state;
mod paths;
mod tool;
mod watch;

pub use callback::{CallbackContext, ReadonlyContext};
pub use invocation::InvocationContext;
pub(crate) use invocation::{Emitted, Invocation};
pub use live_state::LiveState;
pub(crate) use paths::NodePaths;
pub use tool::ToolContext;
pub(crate) use watch::EventWatch;
