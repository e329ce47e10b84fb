//! Processor `identity`: tells the model which agent it is.

use crate::{
    agents::{Agent as _, LlmAgent},
    models::LlmRequest,
};

pub(super) fn process(agent: &LlmAgent, request: &mut LlmRequest) {
    let mut text = format!(
        "You are an agent. Your internal name is \"{}\".",
        agent.name()
    );
    if !agent.description().is_empty() {
        text += &format!(" The description about you is \"{}\".", agent.description());
    }
    request.append_instruction(&text);
}
