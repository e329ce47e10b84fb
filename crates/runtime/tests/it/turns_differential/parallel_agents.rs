//! Finds a script's parallel agents, and their events up to the point where one agent ended the
//! others.

use std::collections::{HashMap, HashSet};

use retain_core::{Json, JsonMap};

/// The agents of a script that run in parallel with others.
#[derive(Debug, Default)]
pub(crate) struct ParallelAgents {
    /// Direct sub-agents of a parallel agent.
    children: HashSet<String>,
    /// Agents anywhere below a parallel agent.
    descendants: HashSet<String>,
}

impl ParallelAgents {
    pub(crate) fn from_tree(tree: &Json) -> ParallelAgents {
        let mut agents = ParallelAgents::default();
        agents.add(tree, false);
        agents
    }

    fn add(&mut self, node: &Json, is_parallel: bool) {
        let name = |node: &Json| node["name"].as_str().unwrap_or_default().to_owned();
        if is_parallel {
            self.descendants.insert(name(node));
        }
        let below = node["below"].as_array().unwrap_or_default();
        let runs_several = node["kind"] == "parallel" && below.len() > 1;
        for node in below {
            if runs_several {
                self.children.insert(name(node));
            }
            self.add(node, is_parallel || runs_several);
        }
    }

    /// Whether the author of an event runs in parallel with others.
    fn is_by_parallel_agent(&self, event: &Json) -> bool {
        self.descendants
            .contains(event["author"].as_str().unwrap_or_default())
    }

    /// Whether a parallel agent ended the others in this turn, by failing or escalating.
    pub(crate) fn ends_others(&self, turn: &Json) -> bool {
        let events = turn["events"].as_array().unwrap_or_default();
        let escalates = |event: &Json| {
            let author = event["author"].as_str().unwrap_or_default();
            event["actions"]["escalate"] == true && self.children.contains(author)
        };
        // An agent may fail before the turn's first event.
        let may_be_parallel =
            events.is_empty() || events.iter().any(|event| self.is_by_parallel_agent(event));
        let failed = !turn["failed"].is_null() && !self.descendants.is_empty() && may_be_parallel;
        failed || events.iter().any(escalates)
    }

    /// Returns for each branch the number of events that both sides have.
    pub(crate) fn common(&self, ours: &[Json], theirs: &[Json]) -> HashMap<String, usize> {
        let (mut common, theirs) = (self.lengths(ours), self.lengths(theirs));
        for (branch, length) in &mut common {
            *length = theirs.get(branch).copied().unwrap_or(0).min(*length);
        }
        common
    }

    fn lengths(&self, events: &[Json]) -> HashMap<String, usize> {
        let mut lengths = HashMap::new();
        for event in events
            .iter()
            .filter(|event| self.is_by_parallel_agent(event))
        {
            *lengths.entry(branch(event)).or_default() += 1;
        }
        lengths
    }

    /// Keeps a turn's events before the parallel agents, and the first events of each branch.
    pub(crate) fn shorten(&self, turn: &mut JsonMap, lengths: &HashMap<String, usize>) {
        turn.remove("state");
        let mut left = lengths.clone();
        let mut has_begun = false;
        if let Some(events) = turn.get_mut("events").and_then(Json::as_array_mut) {
            events.retain(|event| {
                let is_parallel = self.is_by_parallel_agent(event);
                has_begun |= is_parallel;
                let left = left.get_mut(&branch(event));
                let is_common = is_parallel && left.as_ref().is_some_and(|left| **left > 0);
                if let Some(left) = left.filter(|_| is_common) {
                    *left -= 1;
                }
                is_common || !has_begun
            });
        }
    }
}

fn branch(event: &Json) -> String {
    event["branch"].as_str().unwrap_or_default().to_owned()
}
