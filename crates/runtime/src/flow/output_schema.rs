//! Processor `output_schema`: models that cannot combine a schema with tools give their final
//! answer through a tool call.

use std::sync::Arc;

use retain_core::{Content, Event, LlmResponse};

use crate::{
    agents::LlmAgent,
    context::InvocationContext,
    models::{LlmRequest, Model},
    tools::{SET_MODEL_RESPONSE, SetModelResponseTool, Tool},
};

const HINT: &str = "IMPORTANT: You have access to other tools, but you must provide your final \
    response using the set_model_response tool with the required structured format. After using \
    any other tools needed to complete the task, always call set_model_response with your final \
    answer in the specified schema format.";

pub(super) fn process(agent: &LlmAgent, model: &dyn Model, request: &mut LlmRequest) {
    let Some(schema) = &agent.output_schema else {
        return;
    };
    if agent.tools.is_empty() || model.capabilities().output_schema_and_tools {
        return;
    }
    let tool: Arc<dyn Tool> = Arc::new(SetModelResponseTool::new(schema.clone()));
    request.append_tool(&tool);
    request.append_instruction(HINT);
}

/// Returns the event with the final answer, if the model gave it through the tool call.
pub(super) fn structured_answer(ctx: &InvocationContext, answered: &Event) -> Option<Event> {
    let calls = answered.function_responses();
    let is_answer = |name: Option<&str>| name == Some(SET_MODEL_RESPONSE);
    if !calls.iter().any(|call| is_answer(call.name.as_deref())) {
        return None;
    }
    let value = answered.actions.set_model_response.as_ref()?;
    let content = Content::model(retain_core::python_text::python_json(value));
    Some(Event {
        response: LlmResponse::from_content(content),
        ..ctx.new_event()
    })
}
