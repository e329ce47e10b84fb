//! `Event`: one entry of a session's log.

use crate::{
    actions::EventActions,
    content::{Content, FunctionCall, FunctionResponse},
    json::Json,
    response::LlmResponse,
    wire::{IdSet, Shaped, wire_object, wire_text},
    wire_shapes::NodeInfo,
};

wire_object! {
    /// One entry of a session's log: its author, message and effects.
    ///
    /// An empty `id` and a `timestamp` of 0 mean that they are not set: the append sets them.
    ///
    /// ```
    /// use retain_core::{Content, Event, LlmResponse};
    /// let mut event = Event::new("assistant", LlmResponse::from_content(Content::model("Hello")));
    /// event.actions.state_delta.insert("user:greeted", true);
    /// assert!(event.is_final_response());
    /// assert_eq!(event.response.content.unwrap().text_concat(), "Hello");
    /// ```
    pub struct Event: EVENT with response: LlmResponse {
        /// The run that created the event.
        invocation_id: String,
        /// `user`, or the agent's name.
        author: String,
        /// The effects of the event.
        actions: EventActions,
        /// The output of a workflow node.
        output: Option<Json>,
        /// The workflow node that created the event.
        node_info: Option<Shaped<NodeInfo>>,
        /// Ids of long-running calls whose response comes later.
        long_running_tool_ids: Option<IdSet>,
        /// The branch of the agent in a tree of parallel agents, as `parent.child`.
        branch: Option<String>,
        /// The delegated task that the event belongs to.
        isolation_scope: Option<String>,
        /// The event id, unique in its session.
        id: String,
        /// The time, in seconds since 1970. Events are ordered by position, not by time.
        timestamp: f64,
    }
}

wire_text!(Event);

impl Event {
    /// Creates an event of `author` with a response.
    pub fn new(author: impl Into<String>, response: LlmResponse) -> Event {
        Event {
            author: author.into(),
            response,
            ..Event::default()
        }
    }

    /// Reads the event like [`from_json`](Self::from_json), directly into the `Arc`.
    pub fn shared_from_json(text: &str) -> Result<std::sync::Arc<Event>, crate::JsonError> {
        let mut event = std::sync::Arc::<Event>::default();
        if let Some(event) = std::sync::Arc::get_mut(&mut event) {
            let mut reader = crate::json::Reader::new(text);
            crate::wire::Wire::read_into(event, &mut reader)?;
            reader.end()?;
        }
        Ok(event)
    }

    /// Creates a text message of the user.
    pub fn user_text(text: impl Into<String>) -> Event {
        Event::new("user", LlmResponse::from_content(Content::user(text)))
    }

    /// Creates a text message of the agent `author`.
    pub fn model_text(author: impl Into<String>, text: impl Into<String>) -> Event {
        Event::new(author, LlmResponse::from_content(Content::model(text)))
    }

    /// Whether it is a chunk of a streaming response. Partial events are never stored.
    pub fn is_partial(&self) -> bool {
        self.response.partial == Some(true)
    }

    /// Returns the content, if there is one.
    pub fn content(&self) -> Option<&Content> {
        self.response.content.as_ref()
    }

    /// Returns the function calls in the event.
    pub fn function_calls(&self) -> Vec<&FunctionCall> {
        self.content()
            .map(|content| content.function_calls().collect())
            .unwrap_or_default()
    }

    /// Returns the function responses in the event.
    pub fn function_responses(&self) -> Vec<&FunctionResponse> {
        self.content()
            .map(|content| content.function_responses().collect())
            .unwrap_or_default()
    }

    /// Whether the event ends with a code execution result, which the model has not seen yet.
    pub fn has_trailing_code_execution_result(&self) -> bool {
        let last = self.content().and_then(|content| content.parts().last());
        last.is_some_and(|part| part.code_execution_result.is_some())
    }

    /// Whether this is a final response and not an intermediate step, by the rule of ADK 2.13.
    pub fn is_final_response(&self) -> bool {
        let pending_calls = self.long_running_tool_ids.as_ref();
        if self.actions.skip_summarization == Some(true)
            || pending_calls.is_some_and(|ids| !ids.is_empty())
        {
            return true;
        }
        let calls = !self.function_calls().is_empty();
        if self.response.error_code.is_some() && !self.is_partial() && !calls {
            return true;
        }
        !calls
            && self.function_responses().is_empty()
            && !self.is_partial()
            && !self.has_trailing_code_execution_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{CodeExecutionResult, Part};

    fn event(parts: Vec<Part>) -> Event {
        Event::new("a", LlmResponse::from_content(Content::new("model", parts)))
    }

    #[test]
    fn event_with_text_is_final_unless_partial() {
        let mut text = event(vec![Part::text("x")]);
        assert!(text.is_final_response());
        text.response.partial = Some(true);
        assert!(!text.is_final_response());
    }

    #[test]
    fn event_with_calls_or_responses_is_not_final_unless_it_skips_summarization() {
        let mut call = event(vec![FunctionCall::new("f", Json::Null).into()]);
        assert!(!call.is_final_response());
        // ADK gives every call event an empty set when no tool is long running.
        call.long_running_tool_ids = Some(IdSet::default());
        assert!(!call.is_final_response());
        call.long_running_tool_ids = Some(["c1"].into_iter().collect());
        assert!(call.is_final_response());

        let answer = FunctionResponse::new("c1", "f", Default::default());
        let mut response = event(vec![answer.into()]);
        assert!(!response.is_final_response());
        response.actions.skip_summarization = Some(true);
        assert!(response.is_final_response());
    }

    #[test]
    fn event_with_an_error_is_final_unless_partial_or_with_calls() {
        let mut error = event(vec![FunctionResponse::default().into()]);
        error.response.error_code = Some("X".into());
        assert!(error.is_final_response());
        error.response.partial = Some(true);
        assert!(!error.is_final_response());
        let mut call = event(vec![FunctionCall::default().into()]);
        call.response.error_code = Some("X".into());
        assert!(!call.is_final_response());
    }

    #[test]
    fn event_that_ends_with_a_code_result_is_not_final() {
        let result = Part {
            code_execution_result: Some(CodeExecutionResult::default()),
            ..Part::default()
        };
        assert!(!event(vec![Part::text("x"), result.clone()]).is_final_response());
        assert!(event(vec![result, Part::text("x")]).is_final_response());
    }
}
