//! State: keys with a scope (`app:`, `user:`, `temp:` or the session's own), and the JSON values
//! they hold.

pub use retain_core::{
    Json, JsonError, JsonMap, Number, ScopedDelta, State, StateDelta, StateScope, TrackedState,
};
