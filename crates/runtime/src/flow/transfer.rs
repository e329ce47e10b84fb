//! Processor `transfer`: lets the model transfer the conversation to another agent, and carries out
//! the transfer.

use std::sync::Arc;

use retain_core::{Json, JsonMap};

use super::{AgentFlow, StepOutcome};
use crate::{
    agents::Agent,
    context::{InvocationContext, ToolContext},
    error::{Result, RunError},
    models::LlmRequest,
    tools::{FunctionTool, Tool, ToolOutput},
};

const TRANSFER: &str = "transfer_to_agent";

const DESCRIPTION: &str = "Transfer the query to another agent.

Use this tool to hand off control to another agent that is more suitable to
answer the user's query according to the agent's description.

Args:
  agent_name: the agent name to transfer to.";

pub(super) fn process(ctx: &InvocationContext, request: &mut LlmRequest) {
    let targets = ctx.shared.tree.transfer_targets(ctx.agent_name());
    if targets.is_empty() {
        return;
    }
    request.append_instruction(&instruction(ctx, &targets));
    let tool: Arc<dyn Tool> = Arc::new(transfer_tool(&targets));
    request.append_tool(&tool);
}

/// Creates the tool that a model calls to transfer.
fn transfer_tool(targets: &[Arc<dyn Agent>]) -> FunctionTool {
    let names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {"agent_name": {"type": "string", "enum": names}},
        "required": ["agent_name"],
    });
    let transfer_to = |ctx: ToolContext, args: JsonMap| async move {
        let name = args.get("agent_name").and_then(Json::as_str);
        ctx.update_actions(|actions| actions.transfer_to_agent = name.map(str::to_owned));
        Ok(ToolOutput::none())
    };
    let tool = FunctionTool::untyped(TRANSFER, DESCRIPTION, Some(parameters.into()), transfer_to);
    tool.with_kind("TransferToAgentTool")
}

/// Describes the possible targets to the model.
fn instruction(ctx: &InvocationContext, targets: &[Arc<dyn Agent>]) -> String {
    let about = |target: &Arc<dyn Agent>| {
        let (name, description) = (target.name(), target.description());
        format!("\nAgent name: {name}\nAgent description: {description}\n")
    };
    let about: Vec<String> = targets.iter().map(about).collect();
    let mut names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
    names.sort_unstable();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut text = format!(
        "\nYou have a list of other agents to transfer to:\n\n{}\n\nIf you are the best to answer \
         the question according to your description,\nyou can answer it.\n\nIf another agent is \
         better for answering the question according to its\ndescription, call `{TRANSFER}` \
         function to transfer the question to that\nagent. When transferring, do not generate any \
         text other than the function\ncall.\n\n**NOTE**: the only available agents for \
         `{TRANSFER}` function are\n{}.\n",
        about.join("\n"),
        names.join(", ")
    );
    let agent = ctx.agent.as_llm_agent();
    let may_transfer_up = agent.is_some_and(|agent| !agent.disallow_transfer_to_parent);
    if let Some(parent) = ctx
        .shared
        .tree
        .parent(ctx.agent_name())
        .filter(|_| may_transfer_up)
    {
        text += &format!(
            "\nIf neither you nor the other agents are best for the question, transfer to your \
             parent agent {}.\n",
            parent.name()
        );
    }
    text
}

impl AgentFlow<'_> {
    /// Transfers to another agent. If the runner itself runs this agent, the runner continues with
    /// the target; otherwise the target runs here.
    pub(super) async fn transfer(&mut self, name: &str) -> Result<()> {
        let runner_continues = self.ctx.is_run_by_runner() && self.ctx.shared.is_conversation;
        if runner_continues && self.has_open_calls {
            // As in ADK, an agent that waits for an answer keeps the conversation. Nothing follows,
            // except that a resumable run stores the agent's end.
            self.ctx.end_invocation();
            return self.ctx.record_agent_end().await;
        }
        if runner_continues {
            let target = find_transfer_target(self.ctx, name)?;
            self.reset_target(name);
            self.ctx.transfer_to(target);
            return Ok(());
        }
        // As in ADK, a nested agent that transfers to itself just continues.
        let target = match name == self.ctx.agent_name() {
            true => Arc::clone(&self.ctx.agent),
            false => self.target(name)?,
        };
        self.reset_target(name);
        let output = std::mem::take(&mut self.output);
        self.ctx
            .with_waiting_agent(output)
            .run_agent(&target)
            .await?;
        // The other agent's answer is also this agent's answer.
        self.last = Some(StepOutcome::Final);
        Ok(())
    }

    /// Resets the target's checkpoints, because the target may have run before.
    fn reset_target(&self, target: &str) {
        let (tree, checkpoints) = (&self.ctx.shared.tree, &self.ctx.shared.checkpoints);
        checkpoints.transfer_to(tree, self.ctx.agent_name(), target);
    }

    fn target(&self, name: &str) -> Result<Arc<dyn Agent>> {
        let targets = self.ctx.shared.tree.transfer_targets(self.ctx.agent_name());
        let target = targets.into_iter().find(|target| target.name() == name);
        target.ok_or_else(|| transfer_error(self.ctx, name))
    }
}

/// Finds the sub-agent, parent or sibling with this name that the agent may transfer to.
pub(crate) fn find_transfer_target(ctx: &InvocationContext, name: &str) -> Result<Arc<dyn Agent>> {
    let from = &ctx.agent;
    let is_it = |agent: &&Arc<dyn Agent>| agent.name() == name && name != from.name();
    if let Some(below) = from.sub_agents().iter().find(is_it) {
        return Ok(Arc::clone(below));
    }
    let (mut up, mut sideways) = (true, true);
    if let Some(agent) = from.as_llm_agent() {
        up = !agent.disallow_transfer_to_parent;
        sideways = !agent.disallow_transfer_to_peers;
    }
    let target = match ctx.shared.tree.parent(from.name()) {
        Some(parent) if parent.name() == name => Some(parent).filter(|_| up),
        Some(parent) => parent.sub_agents().iter().find(is_it).filter(|_| sideways),
        None => None,
    };
    target.cloned().ok_or_else(|| transfer_error(ctx, name))
}

fn transfer_error(ctx: &InvocationContext, name: &str) -> RunError {
    let reason = match ctx.shared.tree.find(name) {
        _ if name == ctx.agent_name() => "cannot transfer to itself".to_owned(),
        Some(_) => format!("is not allowed to transfer to agent {name:?}"),
        None => format!("wants to transfer to agent {name:?}, which does not exist"),
    };
    RunError::Agent {
        agent: ctx.agent_name().to_owned(),
        source: reason.into(),
    }
}
