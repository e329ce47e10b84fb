//! Processor `instructions`: adds the global instruction, the static one and the agent's own.

use retain_core::{BoxError, Content, prompt_text::own_instruction};

use crate::{
    agents::{Instruction, LlmAgent},
    context::InvocationContext,
    error::{Result, RunError},
    models::LlmRequest,
    template::Template,
};

pub(super) async fn process(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    request: &mut LlmRequest,
) -> Result<()> {
    // The root agent's global instruction applies to all agents.
    if let Some(root) = ctx.shared.tree.root().as_llm_agent()
        && !root.global_instruction.is_empty()
    {
        let text = render(&root.global_instruction, ctx).await?;
        request.append_instruction(&text);
    }
    if let Some(content) = &agent.static_instruction {
        request.append_static_instruction(content);
    }
    if agent.instruction.is_empty() {
        return Ok(());
    }
    let text = render(&agent.instruction, ctx).await?;
    match agent.static_instruction {
        None => request.append_instruction(&text),
        // Keep changing text out of the part that providers cache.
        Some(_) => {
            let content = Content::user(own_instruction(&text));
            request.contents.push(content.into());
        }
    }
    Ok(())
}

/// Returns an instruction as text. Placeholders are rendered only in a plain text; a provider's
/// text is used verbatim.
async fn render(instruction: &Instruction, ctx: &InvocationContext) -> Result<String> {
    match instruction {
        Instruction::Provider(provider) => {
            let text = provider.instruction(ctx.readonly()).await;
            text.map_err(|source: BoxError| RunError::Callback {
                agent: ctx.agent_name().to_owned(),
                callback: "instruction",
                source,
            })
        }
        Instruction::Text(text) => {
            let rendered = ctx.render(&Template::parse(text)).await;
            rendered.map_err(|source| RunError::Template {
                agent: ctx.agent_name().to_owned(),
                source,
            })
        }
    }
}
