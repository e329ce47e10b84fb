//! Node paths: the place in the agent tree where an event was emitted, as ADK writes it
//! (`desk@1/billing@1`).
//!
//! Only runs whose root is an LLM agent have node paths. The number after `@` counts the runs of an
//! agent at its place in the tree.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::agents::AgentTree;

/// The node paths of a run.
#[derive(Debug, Default)]
pub(crate) struct NodePaths(Mutex<Paths>);

#[derive(Debug, Default)]
struct Paths {
    /// The path of each agent's last run. For an agent that has not run itself, the path under
    /// which its sub-agents run.
    current: HashMap<String, String>,
    /// The number of runs of each agent, by its path without the number.
    runs: HashMap<String, u32>,
}

impl NodePaths {
    /// Creates the paths of a resumed run from the paths in its events, so that counting continues.
    pub(crate) fn for_resumed_run<'a>(seen: impl Iterator<Item = &'a str>) -> NodePaths {
        let mut paths = Paths::default();
        for path in seen {
            paths.record(path);
        }
        NodePaths(Mutex::new(paths))
    }

    /// Starts another run of the agent `name` and returns its path.
    pub(crate) fn enter(&self, tree: &AgentTree, name: &str) -> String {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match tree.parent(name) {
            None => name.to_owned(),
            Some(parent) => {
                let above = paths.parent_path(tree, parent.name());
                format!("{above}/{name}")
            }
        };
        let run = paths.runs.entry(place.clone()).or_default();
        *run += 1;
        let path = format!("{place}@{run}");
        paths.current.insert(name.to_owned(), path.clone());
        path
    }
}

/// Returns the agent in the last segment of a path.
pub(crate) fn last_agent(path: &str) -> &str {
    let segment = path.rsplit('/').next().unwrap_or_default();
    segment.rsplit_once('@').map_or(segment, |(name, _)| name)
}

impl Paths {
    /// Records a path and the paths above it.
    fn record(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let Some((place, run)) = path[..end].rsplit_once('@') else {
                continue;
            };
            let run = run.parse().unwrap_or(1);
            let known = self.runs.entry(place.to_owned()).or_default();
            *known = (*known).max(run);
            let name = last_agent(&path[..end]).to_owned();
            self.current.insert(name, path[..end].to_owned());
        }
    }

    /// Returns the path under which agents below `name` run, even if `name` itself has not run.
    fn parent_path(&mut self, tree: &AgentTree, name: &str) -> String {
        if let Some(path) = self.current.get(name) {
            return path.clone();
        }
        let path = match tree.parent(name) {
            None => {
                self.runs.insert(name.to_owned(), 1);
                format!("{name}@1")
            }
            Some(parent) => {
                let above = self.parent_path(tree, parent.name());
                format!("{above}/{name}@1")
            }
        };
        self.current.insert(name.to_owned(), path.clone());
        path
    }
}
