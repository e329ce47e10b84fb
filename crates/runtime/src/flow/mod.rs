//! The flow of one agent in a run: build a request, call the model, run the tools, call again.
//!
//! A step is one model call. Small processors, each in its own file, build the request in the order
//! that [`request::build`] gives.

mod basic;
mod calls;
mod compaction;
mod confirmation;
mod contents;
mod dynamic_instructions;
mod finish;
mod identity;
mod instructions;
mod merge;
mod model_call;
mod output_schema;
mod oversize;
mod planning;
mod request;
mod resumable;
mod resume;
mod tools;
mod transfer;

use std::sync::Arc;

use retain_core::Event;
pub(crate) use transfer::find_transfer_target;

pub(crate) use resumable::{has_answered, run_resumably};

use resume::Decision;

use crate::{
    agents::{LlmAgent, OutputRecorder},
    context::InvocationContext,
    error::Result,
    models::Model,
};

/// Runs the agent until it has answered.
pub(crate) async fn run(agent: &LlmAgent, ctx: &InvocationContext) -> Result<()> {
    let mut flow = AgentFlow {
        agent,
        ctx,
        model: agent.resolve_model(ctx)?,
        output: OutputRecorder::default(),
        last: None,
        has_open_calls: false,
    };
    loop {
        flow.last = None;
        Box::pin(flow.run_step()).await?;
        match flow.last {
            Some(StepOutcome::Continue) if !ctx.is_ended() && !ctx.has_transferred() => {}
            _ => return Ok(()),
        }
    }
}

/// Whether the agent continues after the last event of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    /// The agent continues.
    Continue,
    /// The agent is done.
    Final,
}

/// The state of one agent's model calls in a run.
struct AgentFlow<'a> {
    agent: &'a LlmAgent,
    ctx: &'a InvocationContext,
    model: Arc<dyn Model>,
    output: OutputRecorder,
    last: Option<StepOutcome>,
    /// Whether a call of this agent in this run is answered later.
    has_open_calls: bool,
}

impl AgentFlow<'_> {
    /// Makes one model call and handles its answers.
    async fn run_step(&mut self) -> Result<()> {
        let mut request = request::build(self.agent, self.ctx, &*self.model).await?;
        if self.ctx.is_ended() {
            return Ok(());
        }
        if self.is_confirmation() {
            if !Box::pin(self.run_confirmed(&request.tools)).await? {
                return Ok(());
            }
            // Build the request again, because the model must see the results.
            request = Box::pin(request::build(self.agent, self.ctx, &*self.model)).await?;
        }
        match resume::decide(self.ctx, &request) {
            Decision::CallModel => self.call_model(request).await,
            Decision::RunCalls(event) => Box::pin(self.run_calls(&request, &event, true)).await,
            Decision::Pause => {
                self.ctx.pause();
                Ok(())
            }
        }
    }

    /// Emits an event of the agent. `nothing_follows` tells that the model is done and no tool call
    /// remains.
    async fn emit(
        &mut self,
        event: impl Into<Box<Event>>,
        nothing_follows: bool,
    ) -> Result<Box<Event>> {
        let mut event = event.into();
        if event.author == self.ctx.agent_name() {
            self.agent.store_output(&mut self.output, &mut event)?;
        }
        let ends = event.is_final_response() || event.is_partial();
        self.last = Some(if ends {
            StepOutcome::Final
        } else {
            StepOutcome::Continue
        });
        let open = event.long_running_tool_ids.as_ref();
        self.has_open_calls |= open.is_some_and(|open| !open.is_empty());
        let last = nothing_follows && ends && self.ends_the_run();
        self.ctx.send(event, last).await
    }

    /// Whether the run ends with this agent's answer, so that the run's last append can release the
    /// lease.
    fn ends_the_run(&self) -> bool {
        // A custom agent can call `run` of this agent directly and emit more events afterwards.
        let running = self.ctx.agent.as_llm_agent();
        running.is_some_and(|running| std::ptr::eq(running, self.agent))
            && self.ctx.is_run_by_runner()
            // A resumable run also stores that the agent has ended.
            && !self.ctx.is_resumable()
            && self.ctx.shared.plugins.is_empty()
            && !self.agent.has_after_callbacks()
    }
}
