//! Processor `basic`: sets the model's name, the agent's settings, the run's labels and the output
//! schema.

use crate::{
    agents::LlmAgent,
    context::InvocationContext,
    models::{LlmRequest, Model},
};

pub(super) fn process(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    model: &dyn Model,
    request: &mut LlmRequest,
) {
    request.model = model.name().to_owned();
    if let Some(config) = &agent.generate_content_config {
        request.config = config.clone();
    }
    let labels = &ctx.run_config().labels;
    if !labels.is_empty() {
        let all = request.config.labels.get_or_insert_default();
        all.extend(labels.iter().map(|(key, value)| (key, value.clone())));
    }
    if let Some(schema) = &agent.output_schema
        && (agent.tools.is_empty() || model.capabilities().output_schema_and_tools)
    {
        request.set_output_schema(schema.schema().clone());
    }
}
