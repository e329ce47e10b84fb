//! The progress of an agent in a resumable run: stored as it proceeds, and read when the run is
//! resumed.

use retain_core::{Event, EventActions, Events, JsonMap};

use super::{InvocationContext, checkpoints::Checkpoint};
use crate::{contents::valid_events, error::Result};

impl InvocationContext {
    /// Whether the run can be resumed after a pause or an interruption.
    pub fn is_resumable(&self) -> bool {
        self.shared.is_resumable
    }

    /// Returns the state that this agent last stored with
    /// [`save_agent_state`](Self::save_agent_state), if the run was resumed before the agent ended;
    /// `None` if the agent starts over.
    pub fn agent_state(&self) -> Option<JsonMap> {
        self.checkpoint()?.state
    }

    /// Stores the progress of this agent. Does nothing in a run that is not resumable.
    ///
    /// ```
    /// use async_trait::async_trait;
    /// use retain_core::JsonMap;
    /// use retain_runtime::{Agent, InvocationContext, RunError};
    ///
    /// #[derive(Debug)]
    /// struct Chapters;
    ///
    /// #[async_trait]
    /// impl Agent for Chapters {
    ///     fn name(&self) -> &str {
    ///         "chapters"
    ///     }
    ///
    ///     async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
    ///         let state = ctx.agent_state().unwrap_or_default();
    ///         let done = state.get("done").and_then(|done| done.as_i64()).unwrap_or(0);
    ///         for chapter in done..3 {
    ///             // ... write the chapter ...
    ///             ctx.save_agent_state(JsonMap::from([("done", chapter + 1)])).await?;
    ///         }
    ///         ctx.record_agent_end().await
    ///     }
    /// }
    /// ```
    pub async fn save_agent_state(&self, state: JsonMap) -> Result<()> {
        if !self.is_resumable() {
            return Ok(());
        }
        self.shared
            .checkpoints
            .set_state(self.agent_name(), state.clone());
        let actions = EventActions {
            agent_state: Some(state),
            ..EventActions::default()
        };
        self.emit_actions(actions, false).await
    }

    /// Stores that this agent has ended, so that a resumed run skips it. Does nothing in a run that
    /// is not resumable.
    pub async fn record_agent_end(&self) -> Result<()> {
        if !self.is_resumable() {
            return Ok(());
        }
        self.shared.checkpoints.end(self.agent_name());
        let actions = EventActions {
            end_of_agent: Some(true),
            ..EventActions::default()
        };
        let callbacks = self.agent.callbacks();
        let nothing_follows = self.is_run_by_runner()
            && self.shared.plugins.is_empty()
            && callbacks.is_none_or(|callbacks| callbacks.after.is_empty())
            && !self.has_transferred();
        self.emit_actions(actions, nothing_follows).await
    }

    async fn emit_actions(&self, actions: EventActions, last: bool) -> Result<()> {
        let event = Event {
            actions,
            ..self.new_event()
        };
        self.send(Box::new(event), last).await?;
        Ok(())
    }

    /// Returns the progress of this agent.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        self.shared.checkpoints.get(self.agent_name())
    }

    /// Tells the agents above that the run pauses here.
    pub(crate) fn pause(&self) {
        self.for_each_watch(|watch| watch.record_pause());
    }

    /// Returns the user's last message to this agent. Summaries, state changes and messages to
    /// agents on sibling branches do not count.
    pub(crate) fn last_user_message<'a>(&self, events: &'a Events) -> Option<&'a Event> {
        let is_on_way = |event: &Event| {
            let (Some(theirs), Some(own)) = (event.branch.as_deref(), self.branch()) else {
                return true;
            };
            let is_below = |one: &str, other: &str| {
                let rest = one.strip_prefix(other);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            is_below(theirs, own) || is_below(own, theirs)
        };
        events.iter().rfind(|event| {
            event.author == "user"
                && event.actions.compaction.is_none()
                && event.content().is_some()
                && is_on_way(event)
        })
    }

    /// Returns this run's events among `events`, oldest first.
    pub(crate) fn events_of_run<'a>(&self, events: &'a Events) -> Vec<&'a Event> {
        let mut events = valid_events(events);
        events.retain(|event| event.invocation_id == self.invocation_id());
        events
    }

    /// Returns the run's events on this agent's branch: those emitted on it, and user messages to
    /// all agents, to this one, or to branches below it.
    pub(crate) fn events_on_branch<'a>(&self, run: Vec<&'a Event>) -> Vec<&'a Event> {
        let Some(branch) = self.branch() else {
            let is_here = |event: &&Event| event.author == "user" || event.branch.is_none();
            return run.into_iter().filter(is_here).collect();
        };
        let below = format!("{branch}.");
        let is_at = |event: &Event| event.branch.as_deref() == Some(branch);
        let is_below = |event: &Event| {
            let branch = event.branch.as_deref();
            branch.is_some_and(|branch| branch.starts_with(&below))
        };
        let own_calls: Vec<&str> = run
            .iter()
            .filter(|event| is_at(event) || is_below(event))
            .flat_map(|event| event.function_calls())
            .filter_map(|call| call.id.as_deref())
            .collect();
        let is_user_message_here = |event: &Event| {
            let responses = event.function_responses();
            let mut ids = responses
                .iter()
                .filter_map(|it| it.id.as_deref())
                .peekable();
            let is_for_others = ids.peek().is_some() && !ids.any(|id| own_calls.contains(&id));
            !is_for_others && (event.branch.is_none() || is_at(event) || is_below(event))
        };
        let is_here = |event: &&Event| match event.author.as_str() {
            "user" => is_user_message_here(event),
            _ => is_at(event),
        };
        run.into_iter().filter(is_here).collect()
    }
}
