//! Checkpoints: the progress of each agent in a run, as the run's own events record it.
//!
//! A resumable run stores them as it proceeds: which agent of a sequence is next, which have ended.
//! A resumed run reads them from the log, so that it does not repeat work.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::{Event, Json, JsonMap};

use crate::agents::AgentTree;

/// The progress of one agent since it last began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoint {
    /// The state that the agent saved, or an empty map if it has only emitted content.
    pub(crate) state: Option<JsonMap>,
    /// Whether the agent has ended.
    pub(crate) is_ended: bool,
    /// Whether any agent below this one has escalated.
    pub(crate) is_escalated: bool,
    /// Whether an agent directly below this one has escalated.
    pub(crate) is_escalated_directly: bool,
    /// The number of events in the run before the agent began.
    pub(crate) since: usize,
}

impl Checkpoint {
    /// Whether the agent has not done anything yet.
    pub(crate) fn is_new(&self) -> bool {
        self.state.is_none() && !self.is_ended
    }

    fn record(&mut self, state: JsonMap) {
        *self = Checkpoint {
            state: Some(state),
            since: self.since,
            ..Checkpoint::default()
        };
    }
}

/// The progress of a run's agents, by name.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints(Mutex<HashMap<String, Checkpoint>>);

impl Checkpoints {
    /// Reads the checkpoints from the events of a run, oldest first.
    pub(crate) fn of_run(tree: &AgentTree, events: &[&Event]) -> Checkpoints {
        let mut reader = CheckpointReader {
            tree,
            checkpoints: HashMap::new(),
            callers: HashMap::new(),
        };
        for (number, event) in events.iter().enumerate() {
            reader.apply_event(number, event);
        }
        Checkpoints(Mutex::new(reader.checkpoints))
    }

    pub(crate) fn get(&self, agent: &str) -> Option<Checkpoint> {
        self.lock().get(agent).cloned()
    }

    /// Whether the agent has ended.
    pub(crate) fn is_ended(&self, agent: &str) -> bool {
        self.lock()
            .get(agent)
            .is_some_and(|checkpoint| checkpoint.is_ended)
    }

    /// Records the state of an agent.
    pub(crate) fn set_state(&self, agent: &str, state: JsonMap) {
        let mut checkpoints = self.lock();
        let checkpoint = checkpoints.entry(agent.to_owned()).or_default();
        checkpoint.record(state);
    }

    /// Records that an agent has ended.
    pub(crate) fn end(&self, agent: &str) {
        let mut checkpoints = self.lock();
        let checkpoint = checkpoints.entry(agent.to_owned()).or_default();
        checkpoint.state = None;
        checkpoint.is_ended = true;
    }

    /// Resets an agent and those below it, so that they start over.
    pub(crate) fn reset(&self, tree: &AgentTree, agent: &str) {
        let mut checkpoints = self.lock();
        if checkpoints.is_empty() {
            return;
        }
        tree.for_each_descendant(agent, &mut |name| {
            checkpoints.remove(name);
        });
    }

    /// Records a transfer: the target starts over, and the transferring agent keeps its checkpoint.
    pub(crate) fn transfer_to(&self, tree: &AgentTree, agent: &str, target: &str) {
        let own = self.get(agent).filter(|_| agent != target);
        self.reset(tree, target);
        self.lock().extend(own.map(|own| (agent.to_owned(), own)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Checkpoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads checkpoints from the events of a run.
struct CheckpointReader<'a> {
    tree: &'a AgentTree,
    checkpoints: HashMap<String, Checkpoint>,
    /// Maps each call id to the agent that made the call.
    callers: HashMap<String, String>,
}

impl CheckpointReader<'_> {
    fn apply_event(&mut self, number: usize, event: &Event) {
        if event.author == "user" {
            self.reopen(number, event);
            return;
        }
        if self.tree.find(&event.author).is_none() {
            return;
        }
        for call in event.function_calls() {
            if let Some(id) = &call.id {
                self.callers.insert(id.clone(), event.author.clone());
            }
        }
        let checkpoint = self.checkpoints.entry(event.author.clone());
        let checkpoint = checkpoint.or_insert_with(|| Checkpoint {
            since: number,
            ..Checkpoint::default()
        });
        if event.actions.end_of_agent == Some(true) {
            checkpoint.is_ended = true;
            checkpoint.state = None;
            return;
        }
        if let Some(state) = &event.actions.agent_state {
            checkpoint.record(state.clone());
            let next = state.get("current_sub_agent").and_then(Json::as_str);
            self.reset_below(number + 1, &event.author, next);
            return;
        }
        // A callback's output after the agent's end does not restart the agent.
        if event.content().is_some() && !checkpoint.is_ended {
            checkpoint.state.get_or_insert_with(JsonMap::default);
        }
        if event.actions.escalate == Some(true) {
            self.record_escalation(&event.author);
        }
        if let Some(target) = &event.actions.transfer_to_agent {
            self.transfer_to(number + 1, &event.author, target);
        }
    }

    /// Reopens ended agents whose calls the user's event answers.
    fn reopen(&mut self, number: usize, answer: &Event) {
        for response in answer.function_responses() {
            let id = response.id.as_deref().unwrap_or_default();
            let checkpoint = self
                .callers
                .get(id)
                .and_then(|name| self.checkpoints.get_mut(name));
            if let Some(ended) = checkpoint.filter(|checkpoint| checkpoint.is_ended) {
                *ended = Checkpoint {
                    state: Some(JsonMap::default()),
                    since: number,
                    ..Checkpoint::default()
                };
            }
        }
    }

    /// Resets the sub-agents of an agent that saved a checkpoint: the sub-agent that the checkpoint
    /// names, or all of them.
    fn reset_below(&mut self, number: usize, agent: &str, next: Option<&str>) {
        let Some(agent) = self.tree.find(agent) else {
            return;
        };
        let below = agent.sub_agents().iter().map(|agent| agent.name());
        let restarted: Vec<String> = below
            .filter(|name| next.is_none_or(|next| next == *name))
            .map(str::to_owned)
            .collect();
        for name in restarted {
            self.reset(number, &name);
        }
    }

    /// Records a transfer: the target starts over, and the transferring agent keeps its checkpoint.
    fn transfer_to(&mut self, number: usize, agent: &str, target: &str) {
        let own = self
            .checkpoints
            .get(agent)
            .filter(|_| agent != target)
            .cloned();
        self.reset(number, target);
        self.checkpoints
            .extend(own.map(|own| (agent.to_owned(), own)));
    }

    fn reset(&mut self, number: usize, agent: &str) {
        let tree = self.tree;
        tree.for_each_descendant(agent, &mut |name| {
            self.checkpoints.remove(name);
        });
        let restarted = Checkpoint {
            since: number,
            ..Checkpoint::default()
        };
        self.checkpoints.insert(agent.to_owned(), restarted);
    }

    /// Records the agent's escalation in the checkpoints of all its ancestors.
    fn record_escalation(&mut self, agent: &str) {
        let tree = self.tree;
        for (level, above) in tree.ancestors(agent).enumerate() {
            let checkpoint = self.checkpoints.entry(above.name().to_owned());
            let checkpoint = checkpoint.or_default();
            checkpoint.is_escalated = true;
            checkpoint.is_escalated_directly |= level == 0;
        }
    }
}
