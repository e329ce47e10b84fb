//! A runner's agents as a tree, indexed by name.

use std::{collections::HashMap, sync::Arc};

use super::Agent;
use crate::error::BuildError;

/// Maximum depth of the tree. Each level nests one more future.
const DEPTH_MAX: usize = 64;
/// Maximum number of agents.
const AGENTS_MAX: usize = 10_000;

/// A runner's agents. Their names are unique.
#[derive(Debug)]
pub(crate) struct AgentTree {
    nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Node {
    agent: Arc<dyn Agent>,
    parent: Option<usize>,
}

impl AgentTree {
    /// Builds the tree below `root`. Returns an error if the agents do not form a valid tree.
    pub(crate) fn new(root: Arc<dyn Agent>) -> Result<AgentTree, BuildError> {
        let mut tree = AgentTree {
            nodes: Vec::new(),
            by_name: HashMap::new(),
        };
        tree.add(root, None, 1)?;
        Ok(tree)
    }

    fn add(
        &mut self,
        agent: Arc<dyn Agent>,
        parent: Option<usize>,
        depth: usize,
    ) -> Result<(), BuildError> {
        let name = agent.name().to_owned();
        let what = format!("agent {name:?}");
        if depth > DEPTH_MAX || self.nodes.len() == AGENTS_MAX {
            let reason = format!(
                "exceeds a limit: a tree has at most {DEPTH_MAX} levels and {AGENTS_MAX} agents"
            );
            return Err(BuildError::new(what, reason));
        }
        let at = self.nodes.len();
        if let Some(twin) = self.by_name.insert(name, at) {
            let reason = match Arc::ptr_eq(&self.nodes[twin].agent, &agent) {
                true => "is in the tree twice, but an agent has one parent; build a second agent",
                false => "occurs twice; give each agent of a tree a unique name",
            };
            return Err(BuildError::new(what, reason));
        }
        self.nodes.push(Node {
            agent: Arc::clone(&agent),
            parent,
        });
        for child in agent.sub_agents() {
            self.add(Arc::clone(child), Some(at), depth + 1)?;
        }
        Ok(())
    }

    /// Returns the root agent.
    pub(crate) fn root(&self) -> &Arc<dyn Agent> {
        &self.nodes[0].agent
    }

    /// Returns the agent with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Agent>> {
        Some(&self.nodes[*self.by_name.get(name)?].agent)
    }

    /// Returns the parent of the agent with this name.
    pub(crate) fn parent(&self, name: &str) -> Option<&Arc<dyn Agent>> {
        let parent = self.nodes[*self.by_name.get(name)?].parent?;
        Some(&self.nodes[parent].agent)
    }

    /// Returns the ancestors of the agent with this name, nearest first.
    pub(crate) fn ancestors<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Arc<dyn Agent>> {
        std::iter::successors(self.parent(name), |agent| self.parent(agent.name()))
    }

    /// Calls `each` with the names of an agent and all its descendants.
    pub(crate) fn for_each_descendant(&self, name: &str, each: &mut dyn FnMut(&str)) {
        each(name);
        let agent = self.find(name);
        for below in agent.iter().flat_map(|agent| agent.sub_agents()) {
            self.for_each_descendant(below.name(), each);
        }
    }

    /// Returns all agents.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &Arc<dyn Agent>> {
        self.nodes.iter().map(|node| &node.agent)
    }

    /// Returns the agents that this agent may transfer to: its sub-agents, its parent and its
    /// siblings, unless its settings disallow them.
    pub(crate) fn transfer_targets(&self, name: &str) -> Vec<Arc<dyn Agent>> {
        let Some(agent) = self.find(name).and_then(|agent| agent.as_llm_agent()) else {
            return Vec::new();
        };
        let mut targets: Vec<_> = agent.sub_agents().to_vec();
        let parent = self
            .parent(name)
            .filter(|parent| parent.as_llm_agent().is_some());
        let Some(parent) = parent else {
            return targets;
        };
        if !agent.disallow_transfer_to_parent {
            targets.push(Arc::clone(parent));
        }
        if !agent.disallow_transfer_to_peers {
            let peers = parent
                .sub_agents()
                .iter()
                .filter(|peer| peer.name() != name);
            targets.extend(peers.cloned());
        }
        targets
    }

    /// Whether the conversation can reach every agent from this one: it and all its ancestors are
    /// `LlmAgent`s that may transfer to their parents.
    pub(crate) fn is_transferable(&self, name: &str) -> bool {
        let may = |agent: &Arc<dyn Agent>| {
            let agent = agent.as_llm_agent();
            agent.is_some_and(|agent| !agent.disallow_transfer_to_parent)
        };
        self.find(name).is_some_and(may) && self.ancestors(name).all(may)
    }
}
