//! Processor `dynamic_instructions`: joins the tools' instructions into one.

use crate::models::LlmRequest;

pub(super) fn process(request: &mut LlmRequest) {
    let wanted = std::mem::take(&mut request.dynamic_instructions);
    if !wanted.is_empty() {
        request.append_instruction(&wanted.join("\n\n"));
    }
}
