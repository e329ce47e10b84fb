//! Finds where a run begins, or where it continues after a crash, a failure or a pause. The events
//! in the log determine the place.

use std::sync::Arc;

use retain_core::{Content, Event, Session, SessionError, SessionKey};

use crate::{
    agents::{Agent, AgentTree, agent_to_run, latest_branch},
    contents::valid_events,
    context::{Checkpoints, NodePaths, last_agent},
    error::Result,
    interrupts,
};

/// The place where a run begins or continues.
#[derive(Debug)]
pub(crate) struct StartPoint {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) branch: Option<String>,
    /// The agent's node path in the earlier part of the run, if the agent continues.
    pub(crate) path: Option<String>,
    pub(crate) paths: NodePaths,
    pub(crate) checkpoints: Checkpoints,
    /// Whether nothing is left to do in the run.
    pub(crate) is_over: bool,
}

impl StartPoint {
    fn new(agent: Arc<dyn Agent>) -> StartPoint {
        StartPoint {
            agent,
            branch: None,
            path: None,
            paths: NodePaths::default(),
            checkpoints: Checkpoints::default(),
            is_over: false,
        }
    }
}

/// Finds where the run for a message begins, from the history before the message.
pub(crate) fn start_for_message(
    tree: &AgentTree,
    session: &Session,
    message: &Event,
    is_resumable: bool,
) -> StartPoint {
    let content = message.content().cloned().unwrap_or_default();
    let answers = content.function_responses().next().is_some();
    let invocation_id = answers.then_some(message.invocation_id.as_str());
    let agent = || match tree.root().sub_agents().is_empty() {
        true => Arc::clone(tree.root()),
        false => agent_to_run(tree, &session.events, &content),
    };
    let mut start = match invocation_id.filter(|_| is_resumable) {
        None => StartPoint::new(agent()),
        Some(id) => {
            let run = ResumedRun::new(tree, session, id);
            let start = run.continue_with_answer(&content);
            start.unwrap_or_else(|| StartPoint {
                checkpoints: run.checkpoints(),
                ..StartPoint::new(agent())
            })
        }
    };
    if !Arc::ptr_eq(&start.agent, tree.root()) {
        start.branch = latest_branch(&session.events, start.agent.name(), invocation_id);
    }
    start
}

/// Finds where a run resumes without a message. Also returns the message that began the run.
pub(crate) fn start_without_message(
    tree: &AgentTree,
    session: &Session,
    invocation_id: &str,
) -> Result<(StartPoint, Content)> {
    let run = ResumedRun::new(tree, session, invocation_id);
    let Some(began_with) = first_message(&run.events) else {
        let (app, user) = (&session.app_name, &session.user_id);
        return Err(SessionError::InvocationNotFound {
            key: SessionKey::new(app, user, &session.id),
            invocation_id: invocation_id.to_owned(),
        }
        .into());
    };
    let mut start = run.continue_run(began_with);
    if !Arc::ptr_eq(&start.agent, tree.root()) {
        start.branch = latest_branch(&session.events, start.agent.name(), Some(invocation_id));
    }
    Ok((start, began_with.clone()))
}

/// Returns the event with the message that began a run.
pub(crate) fn first_event<'a>(run: &[&'a Event]) -> Option<&'a Event> {
    let mut user_events = run.iter().filter(|event| event.author == "user");
    let is_message = |content: &Content| {
        !content.parts().is_empty() && content.function_responses().next().is_none()
    };
    user_events
        .find(|event| event.content().is_some_and(is_message))
        .copied()
}

/// Returns the message that began a run.
pub(crate) fn first_message<'a>(run: &[&'a Event]) -> Option<&'a Content> {
    first_event(run)?.content()
}

/// A run in the log that is about to be resumed.
struct ResumedRun<'a> {
    tree: &'a AgentTree,
    session: &'a Session,
    /// The events of the run.
    events: Vec<&'a Event>,
    is_conversation: bool,
}

impl<'a> ResumedRun<'a> {
    fn new(tree: &'a AgentTree, session: &'a Session, invocation_id: &str) -> ResumedRun<'a> {
        let mut events = valid_events(&session.events);
        events.retain(|event| event.invocation_id == invocation_id);
        ResumedRun {
            tree,
            session,
            events,
            is_conversation: tree.root().as_llm_agent().is_some(),
        }
    }

    fn checkpoints(&self) -> Checkpoints {
        Checkpoints::of_run(self.tree, &self.events)
    }

    /// Finds where the run continues with a function response: at the outermost agent that runs the
    /// calling agent. `None` if only the calling agent continues.
    fn continue_with_answer(&self, answer: &Content) -> Option<StartPoint> {
        let id = answer.function_responses().next()?.id.as_deref()?;
        let call = interrupts::call_event(self.events.iter().copied(), id)?;
        let checkpoints = self.checkpoints();
        let top = match self.is_conversation {
            true => self.tree.find(last_agent(node_path_of(call)?))?,
            false => self.tree.root(),
        };
        let checkpoint = checkpoints.get(top.name()).filter(|it| !it.is_new())?;
        let is_over = checkpoint.is_ended;
        if self.is_conversation && (is_over || top.name() == call.author) {
            return None;
        }
        Some(StartPoint {
            checkpoints,
            is_over,
            ..StartPoint::new(Arc::clone(top))
        })
    }

    /// Finds where the run continues without a message.
    fn continue_run(&self, began_with: &Content) -> StartPoint {
        let checkpoints = self.checkpoints();
        if self.was_answered_by_plugin() {
            return StartPoint {
                is_over: true,
                ..StartPoint::new(Arc::clone(self.tree.root()))
            };
        }
        let has_started = |name: &str| checkpoints.get(name).is_some_and(|it| !it.is_new());
        if !self.is_conversation && has_started(self.tree.root().name()) {
            return StartPoint {
                is_over: checkpoints.is_ended(self.tree.root().name()),
                checkpoints,
                ..StartPoint::new(Arc::clone(self.tree.root()))
            };
        }
        let last = self
            .events
            .iter()
            .rev()
            .find_map(|event| node_path_of(event));
        let top = last.and_then(|path| Some((path, self.tree.find(last_agent(path))?)));
        let Some((path, top)) = top else {
            let agent = agent_to_run(self.tree, &self.session.events, began_with);
            return StartPoint {
                is_over: checkpoints.is_ended(agent.name()),
                checkpoints,
                ..StartPoint::new(agent)
            };
        };
        let paths = self
            .events
            .iter()
            .filter_map(|event| self::node_path_of(event));
        let paths = NodePaths::for_resumed_run(paths);
        let is_ended = checkpoints.is_ended(top.name());
        match self.transfer_target(top).filter(|_| is_ended) {
            Some(target) => StartPoint {
                paths,
                checkpoints,
                ..StartPoint::new(Arc::clone(target))
            },
            None => StartPoint {
                path: Some(path.to_owned()),
                paths,
                is_over: is_ended,
                checkpoints,
                ..StartPoint::new(Arc::clone(top))
            },
        }
    }

    /// Whether a plugin answered in place of the agents.
    fn was_answered_by_plugin(&self) -> bool {
        let is_agent = |name: &str| name == "user" || self.tree.find(name).is_some();
        let mut others = self.events.iter().filter(|event| !is_agent(&event.author));
        others.any(|event| event.author == "model" && event.content().is_some())
    }

    /// Returns the agent to which `agent` transferred in its last event with content, if the
    /// transfer is allowed and `agent` does not wait for an answer.
    fn transfer_target(&self, agent: &Arc<dyn Agent>) -> Option<&'a Arc<dyn Agent>> {
        let name = agent.name();
        let own = self
            .events
            .iter()
            .rev()
            .filter(|event| event.author == name);
        let last = own.into_iter().find(|event| event.content().is_some())?;
        let target = last.actions.transfer_to_agent.as_deref()?;
        let targets = self.tree.transfer_targets(name);
        let may = targets.iter().any(|it| it.name() == target);
        let stays = interrupts::is_waiting(&self.events, name);
        self.tree.find(target).filter(|_| may && !stays)
    }
}

/// Returns the node path in an agent's event.
fn node_path_of(event: &Event) -> Option<&str> {
    let path = event.node_info.as_ref()?.get("path")?.as_str()?;
    (event.author != "user" && !path.is_empty()).then_some(path)
}
