//! `ToolContext`: what a tool gets beside its arguments.

use std::{ops::Deref, sync::Arc};

use retain_core::{Json, Shaped};

use super::{CallbackContext, InvocationContext};
use crate::tools::ToolConfirmation;

/// What a running tool may do: all that a callback may, for one call of the model.
#[derive(Debug, Clone)]
pub struct ToolContext {
    callback: CallbackContext,
    function_call_id: Option<String>,
    confirmation: Option<Arc<ToolConfirmation>>,
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
            confirmation: None,
        }
    }

    /// With what a person said about the call.
    pub(crate) fn with_confirmation(mut self, said: Option<ToolConfirmation>) -> ToolContext {
        self.confirmation = said.map(Arc::new);
        self
    }

    /// What a person said about the call, if one was asked and has answered.
    pub fn tool_confirmation(&self) -> Option<&ToolConfirmation> {
        self.confirmation.as_deref()
    }

    /// Asks a person to approve the call. Answer with something that says so; when the person has
    /// decided, the tool is called again, and [`tool_confirmation`](Self::tool_confirmation) says
    /// how.
    pub fn request_confirmation(&self, hint: impl Into<String>, payload: Option<Json>) {
        let asked = ToolConfirmation {
            hint: hint.into(),
            confirmed: false,
            payload,
        };
        let id = self.function_call_id().unwrap_or_default();
        self.update_actions(|actions| {
            let known = actions.requested_tool_confirmations.as_object();
            let mut all = known.cloned().unwrap_or_default();
            all.insert(id, asked.to_json());
            actions.requested_tool_confirmations = Shaped::new(all);
        });
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
