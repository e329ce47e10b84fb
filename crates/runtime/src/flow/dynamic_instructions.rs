//! Processor `dynamic_instructions`: what tools want the model to be told, in one piece.

use crate::models::LlmRequest;

pub(super) fn process(request: &mut LlmRequest) {
    let wanted = std::mem::take(&mut request.dynamic_instructions);
    if !wanted.is_empty() {
        request.append_instruction(&wanted.join("\n\n"));
    }
}
