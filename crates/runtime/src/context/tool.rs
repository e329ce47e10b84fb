//! `ToolContext`: the context of a tool call.

use std::{ops::Deref, sync::Arc};

use retain_core::{Json, Shaped, ToolConfirmation};

use super::{CallbackContext, InvocationContext};

/// The context of a running tool: a callback context for one of the model's calls.
#[derive(Debug, Clone)]
pub struct ToolContext {
    callback: CallbackContext,
    function_call_id: Option<String>,
    confirmation: Option<Arc<ToolConfirmation>>,
}

impl ToolContext {
    /// Creates the context of a tool call. Without a call id, the tool only prepares a request.
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

    /// Adds the user's decision about the call.
    pub(crate) fn with_confirmation(mut self, decision: Option<ToolConfirmation>) -> ToolContext {
        self.confirmation = decision.map(Arc::new);
        self
    }

    /// Returns the user's decision about the call, if the user has been asked and has answered.
    pub fn tool_confirmation(&self) -> Option<&ToolConfirmation> {
        self.confirmation.as_deref()
    }

    /// Asks the user to approve the call. The tool must then return a result that says so. After
    /// the decision, the tool is called again, and [`tool_confirmation`](Self::tool_confirmation)
    /// returns the decision.
    pub fn request_confirmation(&self, hint: impl Into<String>, payload: Option<Json>) {
        let request = ToolConfirmation {
            hint: hint.into(),
            payload,
            ..ToolConfirmation::default()
        };
        let json = request.to_json().and_then(|text| Json::parse(&text));
        // If the payload cannot be serialized, the append fails and reports the reason.
        let json = json.unwrap_or_else(|_| request.payload.unwrap_or_default());
        let id = self.function_call_id().unwrap_or_default();
        self.update_actions(|actions| {
            let earlier = actions.requested_tool_confirmations.as_object();
            let mut all = earlier.cloned().unwrap_or_default();
            all.insert(id, json);
            actions.requested_tool_confirmations = Shaped::new(all);
        });
    }

    /// Returns the id of the call.
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
