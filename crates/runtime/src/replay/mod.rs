//! Answers runs from recordings, and compares what they ask for with what was recorded: the
//! protocol of ADK's conformance tests.
//!
//! ```text
//! a run begins → Scripts (is it to be replayed, and from what) → Replay
//! model call   → model.rs: compare the request, give the recorded answers
//! tool call    → plugin.rs: compare the call, run the tool, give the recorded result
//! ```
//!
//! The first difference ends the run with an error that names the place.

mod difference;
mod model;
mod plugin;
mod request;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{BoxError, Json, LlmResponse, State};

pub use difference::{Difference, differences};

use crate::{
    config::yaml_to_json,
    models::{LlmRequest, Model},
    plugins::Plugin,
};
use model::ReplayModel;
use plugin::ReplayPlugin;
use request::{comparable_request, recorded_request, request_json};

/// How many runs are followed at once. A run that was cut off leaves its place behind.
const RUNS_MAX: usize = 256;

/// Calls of models and tools in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub struct Recordings(Arc<[Json]>);

impl Recordings {
    /// From entries as they stand in a file.
    pub fn new(entries: Vec<Json>) -> Recordings {
        Recordings(entries.into())
    }

    /// From the text of a file that `adk conformance record` wrote.
    pub fn from_yaml(text: &str) -> Result<Recordings, BoxError> {
        let file = yaml_to_json(text)?;
        match file["recordings"].as_array() {
            Some(entries) => Ok(Recordings(entries.into())),
            None if file.is_null() => Ok(Recordings::default()),
            None => Err("there is no list of recordings".into()),
        }
    }

    /// All of them.
    pub fn entries(&self) -> &[Json] {
        &self.0
    }
}

/// What one run is answered from.
#[derive(Debug, Clone)]
pub struct Script {
    /// The recordings of the whole conversation.
    pub recordings: Recordings,
    /// Which of the user's messages begins the run, counted from 0.
    pub message: i64,
}

/// Knows which runs are to be replayed.
#[async_trait]
pub trait Scripts: std::fmt::Debug + Send + Sync + 'static {
    /// What a run is answered from that begins on a session with this state; `None` if it is a run
    /// like any other.
    async fn script(&self, state: &State) -> Result<Option<Script>, BoxError>;
}

/// Replays runs. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Replay {
    scripts: Arc<dyn Scripts>,
    checks_results: bool,
    keeps_differences: bool,
    runs: Arc<Mutex<Runs>>,
}

#[derive(Debug, Default)]
struct Runs {
    by_id: HashMap<String, Run>,
    /// Their ids, oldest first.
    order: VecDeque<String>,
    /// What was found in all of them, where that is kept.
    differences: Vec<Difference>,
}

/// One run, and how far it is.
#[derive(Debug)]
struct Run {
    script: Script,
    /// How many recordings an agent has used, by agent and kind.
    used: HashMap<(String, Kind), usize>,
    /// The recorded results of the tools that run, by call.
    running: HashMap<String, (String, Json)>,
}

/// What a recording is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Model,
    Tool,
}

impl Kind {
    fn key(self) -> &'static str {
        match self {
            Kind::Model => "llm_recording",
            Kind::Tool => "tool_recording",
        }
    }
}

impl Replay {
    /// Replays what `scripts` says.
    pub fn new(scripts: impl Scripts) -> Replay {
        Replay {
            scripts: Arc::new(scripts),
            checks_results: false,
            keeps_differences: false,
            runs: Arc::default(),
        }
    }

    /// Whether tools must give what was recorded. Otherwise they run for their effects only.
    pub fn check_results(mut self, check: bool) -> Replay {
        self.checks_results = check;
        self
    }

    /// Whether what was found is kept for [`differences`](Self::differences). It grows with every
    /// run that differs: nothing for a server, whose clients are told anyway.
    pub fn keep_differences(mut self, keep: bool) -> Replay {
        self.keeps_differences = keep;
        self
    }

    /// What a runner needs beside [`model`](Self::model).
    pub fn plugin(&self) -> Arc<dyn Plugin> {
        Arc::new(ReplayPlugin(self.clone()))
    }

    /// The model that agents ask under a name. Runs that are not replayed go to `otherwise`.
    pub fn model(
        &self,
        name: impl Into<String>,
        otherwise: Option<Arc<dyn Model>>,
    ) -> Arc<dyn Model> {
        Arc::new(ReplayModel {
            name: name.into(),
            replay: self.clone(),
            otherwise,
        })
    }

    /// What was found in all runs so far, if that is [kept](Self::keep_differences).
    pub fn differences(&self) -> Vec<Difference> {
        self.runs().differences.clone()
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run is replayed; `state` is its session's. One that was begun as a replay and has
    /// lost its place to newer ones fails: it must never come to the real model or its tools.
    async fn is_replayed(&self, run: &str, state: &State) -> Result<bool, BoxError> {
        if self.runs().by_id.contains_key(run) {
            return Ok(true);
        }
        match self.scripts.script(state).await? {
            None => Ok(false),
            Some(_) => Err(format!(
                "the recording of this run was given up: more than {RUNS_MAX} runs are replayed at \
                 once"
            )
            .into()),
        }
    }

    fn begin(&self, id: &str, script: Script) {
        let mut runs = self.runs();
        let run = Run {
            script,
            used: HashMap::new(),
            running: HashMap::new(),
        };
        // A run that a later message goes on with has the same id.
        if runs.by_id.insert(id.to_owned(), run).is_some() {
            return;
        }
        runs.order.push_back(id.to_owned());
        if runs.order.len() > RUNS_MAX
            && let Some(oldest) = runs.order.pop_front()
        {
            runs.by_id.remove(&oldest);
        }
    }

    /// Forgets a run.
    fn end(&self, id: &str) -> Option<Run> {
        let mut runs = self.runs();
        runs.order.retain(|known| known != id);
        runs.by_id.remove(id)
    }

    /// The next recording of `kind` for this agent, and where it stands.
    fn next(&self, run: &str, agent: &str, kind: Kind) -> (String, Option<Json>) {
        let mut runs = self.runs();
        let Some(run) = runs.by_id.get_mut(run) else {
            return (format!("agent {agent}"), None);
        };
        let message = run.script.message;
        let number = run.used.entry((agent.to_owned(), kind)).or_default();
        let key = kind.key();
        let place = format!("message {message}, agent {agent}, {key} {number}");
        let is_ours = |recording: &&Json| {
            recording["agent_name"] == *agent
                && recording["user_message_index"] == message
                && !recording[key].is_null()
        };
        let mut recordings = run.script.recordings.entries().iter().filter(is_ours);
        let recording = recordings.nth(*number).map(|found| found[key].clone());
        if recording.is_some() {
            *number += 1;
        }
        (place, recording)
    }

    /// Fails if there are differences, and keeps them where that is wished.
    fn check(&self, found: Vec<Difference>) -> Result<(), String> {
        let Some(first) = found.first().map(Difference::to_string) else {
            return Ok(());
        };
        if self.keeps_differences {
            self.runs().differences.extend(found);
        }
        Err(first)
    }

    /// One difference.
    fn differs<T>(
        &self,
        place: String,
        expected: &str,
        found: impl Into<String>,
    ) -> Result<T, String> {
        let found = Difference::of(place, expected, found);
        let told = found.to_string();
        self.check(vec![found])?;
        Err(told)
    }

    /// What was recorded as the answer to a request, if the request is as it was recorded.
    fn answer(
        &self,
        run: &str,
        agent: &str,
        request: &LlmRequest,
    ) -> Result<Vec<LlmResponse>, String> {
        let (place, recording) = self.next(run, agent, Kind::Model);
        let ours = comparable_request(request_json(request)?);
        let Some(recording) = recording else {
            return self.differs(place, "no model call", ours.to_string());
        };
        let theirs = recorded_request(&recording["llm_request"]);
        let theirs = comparable_request(theirs.map_err(|problem| format!("{place}: {problem}"))?);
        self.check(differences(&place, &theirs, &ours))?;
        let read = |response: &Json| LlmResponse::from_json(&response.to_string());
        // Recorders before 2.x knew of one response to a request only.
        let responses = match recording["llm_responses"].as_array() {
            Some(responses) => responses.iter().map(read).collect(),
            None if recording["llm_response"].is_null() => Ok(Vec::new()),
            None => read(&recording["llm_response"]).map(|response| vec![response]),
        };
        responses.map_err(|problem: retain_core::JsonError| format!("{place}: {problem}"))
    }

    /// What was recorded for the message of a run and never asked for.
    fn unused(&self, run: &Run) -> Option<Difference> {
        let message = run.script.message;
        let recordings = run.script.recordings.entries().iter();
        let expected = recordings
            .filter(|recording| recording["user_message_index"] == message)
            .count();
        let used: usize = run.used.values().sum();
        let place = format!("message {message}, recordings");
        (used != expected).then(|| {
            let expected = format!("{expected} are used");
            Difference::of(place, expected, used.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use retain_core::JsonMap;

    use super::*;

    /// Replays nothing, on sessions that ask for it.
    #[derive(Debug)]
    struct Asked;

    #[async_trait]
    impl Scripts for Asked {
        async fn script(&self, state: &State) -> Result<Option<Script>, BoxError> {
            Ok(state.get("replay").map(|_| nothing()))
        }
    }

    fn nothing() -> Script {
        Script {
            recordings: Recordings::default(),
            message: 0,
        }
    }

    fn asking() -> State {
        State::from(JsonMap::from([("replay", true)]))
    }

    #[tokio::test]
    async fn a_run_that_lost_its_place_fails_and_never_comes_to_the_real_model() {
        let replay = Replay::new(Asked);
        for run in 0..=RUNS_MAX {
            replay.begin(&format!("e-{run}"), nothing());
        }
        let state = asking();
        assert!(replay.is_replayed("e-1", &state).await.unwrap());
        let lost = replay.is_replayed("e-0", &state).await.unwrap_err();
        assert!(lost.to_string().contains("256 runs"), "{lost}");
        let plain = replay.is_replayed("e-x", &State::default()).await;
        assert!(!plain.unwrap(), "a run like any other");
    }

    #[test]
    fn differences_are_kept_only_where_they_are_asked_for() {
        for keep in [false, true] {
            let replay = Replay::new(Asked).keep_differences(keep);
            for _ in 0..3 {
                let found = Difference::of("here".to_owned(), "a", "b");
                assert!(replay.check(vec![found]).is_err());
            }
            assert_eq!(replay.differences().len(), if keep { 3 } else { 0 });
        }
    }
}
