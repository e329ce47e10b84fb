//! `ToolContext`: what a tool gets beside its arguments.

use std::ops::Deref;

use super::{CallbackContext, InvocationContext};

/// What a running tool may do: all that a callback may, for one call of the model.
#[derive(Debug, Clone)]
pub struct ToolContext {
    callback: CallbackContext,
    function_call_id: Option<String>,
}

impl ToolContext {
    /// For a call, or for preparing a request if there is none.
    pub(crate) fn new(
        invocation: &InvocationContext,
        function_call_id: Option<String>,
    ) -> ToolContext {
        ToolContext {
            callback: invocation.callback(),
            function_call_id,
        }
    }

    /// The call that is answered.
    pub fn function_call_id(&self) -> Option<&str> {
        self.function_call_id.as_deref()
    }
}

impl Deref for ToolContext {
    type Target = CallbackContext;

    fn deref(&self) -> &CallbackContext {
        &self.callback
    }
}
