//! Replays recorded model answers and tool results in runs, and compares each model request and
//! tool call with the recorded one. This is the protocol of ADK's conformance tests.
//!
//! ```text
//! run begins   → Scripts decides whether to replay the run, and from which recordings → Replay
//! model call   → model.rs: compare the request, return the recorded answers
//! tool call    → plugin.rs: compare the call, run the tool, return the recorded result
//! ```
//!
//! The first difference ends the run with an error that names its location.

mod difference;
mod model;
mod plugin;
mod request;

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use lru::LruCache;
use retain_core::{BoxError, Json, LlmResponse, State};

pub use difference::{Difference, differences};

use model::ReplayModel;
use plugin::ReplayPlugin;
use request::{comparable_request, recorded_request, request_json};
use retain_runtime::{LlmRequest, Model, Plugin, yaml_to_json};

/// Maximum number of tracked runs. An aborted run stays tracked until newer runs evict it.
const RUNS_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// Recorded model and tool calls, in order.
#[derive(Debug, Clone, Default)]
pub struct Recordings(Arc<[Json]>);

impl Recordings {
    /// Creates recordings from the entries of a file.
    pub fn new(entries: Vec<Json>) -> Recordings {
        Recordings(entries.into())
    }

    /// Parses a file that `adk conformance record` wrote.
    pub fn from_yaml(text: &str) -> Result<Recordings, BoxError> {
        let file = yaml_to_json(text)?;
        match file["recordings"].as_array() {
            Some(entries) => Ok(Recordings(entries.into())),
            None if file.is_null() => Ok(Recordings::default()),
            None => Err("`recordings` is missing or not a list".into()),
        }
    }

    /// Returns all entries.
    pub fn entries(&self) -> &[Json] {
        &self.0
    }
}

/// The recordings for one run.
#[derive(Debug, Clone)]
pub struct Script {
    /// The recordings of the whole conversation.
    pub recordings: Recordings,
    /// Index of the user message that starts the run, counted from 0.
    pub message: i64,
}

/// Decides which runs must be replayed.
#[async_trait]
pub trait Scripts: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the script for a run on a session with this state; `None` if the run must not be
    /// replayed.
    async fn script(&self, state: &State) -> Result<Option<Script>, BoxError>;
}

/// Replays runs. Clones share their state.
#[derive(Debug, Clone)]
pub struct Replay {
    scripts: Arc<dyn Scripts>,
    checks_results: bool,
    records_differences: bool,
    runs: Arc<Mutex<Runs>>,
}

#[derive(Debug)]
struct Runs {
    by_id: LruCache<String, Run>,
    /// The differences of all runs, if the replay records them.
    differences: Vec<Difference>,
}

/// The progress of one run.
#[derive(Debug)]
struct Run {
    script: Script,
    /// Number of recordings that the run has used, by agent and kind.
    used: HashMap<(String, Kind), usize>,
    /// The location and the recorded result of each running tool call, by call ID.
    running: HashMap<String, (String, Json)>,
}

/// The kind of a recording.
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
    /// Creates a replay of the runs that `scripts` selects.
    pub fn new(scripts: impl Scripts) -> Replay {
        Replay {
            scripts: Arc::new(scripts),
            checks_results: false,
            records_differences: false,
            runs: Arc::new(Mutex::new(Runs {
                by_id: LruCache::new(RUNS_MAX),
                differences: Vec::new(),
            })),
        }
    }

    /// Sets whether the results of tools must equal the recorded ones. Otherwise tools run only for
    /// their side effects.
    pub fn with_checked_results(mut self, check: bool) -> Replay {
        self.checks_results = check;
        self
    }

    /// Sets whether to record differences for [`differences`](Self::differences). The list grows
    /// with every run that differs, so do not enable this in a server; its clients receive the
    /// differences as errors.
    pub fn with_recorded_differences(mut self, record: bool) -> Replay {
        self.records_differences = record;
        self
    }

    /// Returns the plugin, which a runner needs in addition to [`model`](Self::model).
    pub fn plugin(&self) -> Arc<dyn Plugin> {
        Arc::new(ReplayPlugin(self.clone()))
    }

    /// Returns a model with this name. Requests of runs that are not replayed go to `fallback`.
    pub fn model(
        &self,
        name: impl Into<String>,
        fallback: Option<Arc<dyn Model>>,
    ) -> Arc<dyn Model> {
        Arc::new(ReplayModel {
            name: name.into(),
            replay: self.clone(),
            fallback,
        })
    }

    /// Returns the differences of all runs so far, if they are
    /// [recorded](Self::with_recorded_differences).
    pub fn differences(&self) -> Vec<Difference> {
        self.lock().differences.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run is replayed; `state` is the state of its session. Fails for a replayed run
    /// that newer runs have evicted, because it must never reach the real model or tools.
    async fn is_replayed(&self, run: &str, state: &State) -> Result<bool, BoxError> {
        if self.lock().by_id.contains(run) {
            return Ok(true);
        }
        match self.scripts.script(state).await? {
            None => Ok(false),
            Some(_) => Err(format!(
                "the recording of this run was evicted: more than {RUNS_MAX} runs are replayed at \
                 once; replay fewer runs concurrently"
            )
            .into()),
        }
    }

    /// Starts tracking a run. A resumed run keeps its ID and starts over. If too many runs are
    /// tracked, evicts the least recently used one.
    fn begin(&self, id: &str, script: Script) {
        let run = Run {
            script,
            used: HashMap::new(),
            running: HashMap::new(),
        };
        self.lock().by_id.put(id.to_owned(), run);
    }

    /// Stops tracking a run and returns its progress.
    fn end(&self, id: &str) -> Option<Run> {
        self.lock().by_id.pop(id)
    }

    /// Returns the next recording of `kind` for this agent, and its location.
    fn next_recording(&self, run: &str, agent: &str, kind: Kind) -> (String, Option<Json>) {
        let mut runs = self.lock();
        let Some(run) = runs.by_id.get_mut(run) else {
            return (format!("agent {agent}"), None);
        };
        let message = run.script.message;
        let number = run.used.entry((agent.to_owned(), kind)).or_default();
        let key = kind.key();
        let location = format!("message {message}, agent {agent}, {key} {number}");
        let is_of_agent = |recording: &&Json| {
            recording["agent_name"] == *agent
                && recording["user_message_index"] == message
                && !recording[key].is_null()
        };
        let mut recordings = run.script.recordings.entries().iter().filter(is_of_agent);
        let recording = recordings.nth(*number).map(|found| found[key].clone());
        if recording.is_some() {
            *number += 1;
        }
        (location, recording)
    }

    /// Returns the first difference as an error, and records all of them if configured.
    fn report(&self, found: Vec<Difference>) -> Result<(), String> {
        let Some(first) = found.first().map(Difference::to_string) else {
            return Ok(());
        };
        if self.records_differences {
            self.lock().differences.extend(found);
        }
        Err(first)
    }

    /// Reports one difference as an error.
    fn report_one<T>(
        &self,
        location: String,
        expected: &str,
        found: impl Into<String>,
    ) -> Result<T, String> {
        let found = Difference::in_words(location, expected, found);
        let error = found.to_string();
        self.report(vec![found])?;
        Err(error)
    }

    /// Returns the recorded responses to a request, if the request equals the recorded one.
    fn recorded_responses(
        &self,
        run: &str,
        agent: &str,
        request: &LlmRequest,
    ) -> Result<Vec<LlmResponse>, String> {
        let (location, recording) = self.next_recording(run, agent, Kind::Model);
        let ours = comparable_request(request_json(request)?);
        let Some(recording) = recording else {
            return self.report_one(location, "no model call", ours.to_string());
        };
        let theirs = recorded_request(&recording["llm_request"]);
        let theirs =
            comparable_request(theirs.map_err(|problem| format!("{location}: {problem}"))?);
        self.report(differences(&location, &theirs, &ours))?;
        let read = |response: &Json| LlmResponse::from_json(&response.to_string());
        // ADK recorders before 2.x stored only one response per request.
        let responses = match recording["llm_responses"].as_array() {
            Some(responses) => responses.iter().map(read).collect(),
            None if recording["llm_response"].is_null() => Ok(Vec::new()),
            None => read(&recording["llm_response"]).map(|response| vec![response]),
        };
        responses.map_err(|problem: retain_core::JsonError| format!("{location}: {problem}"))
    }

    /// Returns a difference if a run has not used all recordings of its message.
    fn unused_recordings(&self, run: &Run) -> Option<Difference> {
        let message = run.script.message;
        let recordings = run.script.recordings.entries().iter();
        let expected = recordings
            .filter(|recording| recording["user_message_index"] == message)
            .count();
        let used: usize = run.used.values().sum();
        let location = format!("message {message}, recordings");
        (used != expected).then(|| {
            let expected = format!("{expected} used");
            Difference::in_words(location, expected, used.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use retain_core::JsonMap;

    use super::*;

    /// Replays sessions whose state has the key `replay`, with empty recordings.
    #[derive(Debug)]
    struct ScriptedByState;

    #[async_trait]
    impl Scripts for ScriptedByState {
        async fn script(&self, state: &State) -> Result<Option<Script>, BoxError> {
            Ok(state.get("replay").map(|_| empty_script()))
        }
    }

    fn empty_script() -> Script {
        Script {
            recordings: Recordings::default(),
            message: 0,
        }
    }

    fn replayed_state() -> State {
        State::from(JsonMap::from([("replay", true)]))
    }

    #[tokio::test]
    async fn evicted_replay_fails_without_calling_the_real_model() {
        let replay = Replay::new(ScriptedByState);
        for run in 0..=RUNS_MAX.get() {
            replay.begin(&format!("e-{run}"), empty_script());
        }
        let state = replayed_state();
        assert!(replay.is_replayed("e-1", &state).await.unwrap());
        let error = replay.is_replayed("e-0", &state).await.unwrap_err();
        assert!(error.to_string().contains("256 runs"), "{error}");
        let is_replayed = replay.is_replayed("e-x", &State::default()).await;
        assert!(!is_replayed.unwrap(), "a run without a script is replayed");
    }

    #[test]
    fn run_that_makes_calls_is_not_evicted_by_newer_runs() {
        let replay = Replay::new(ScriptedByState);
        replay.begin("e-active", empty_script());
        for run in 0..RUNS_MAX.get() {
            replay.begin(&format!("e-{run}"), empty_script());
            replay.next_recording("e-active", "a", Kind::Model);
        }
        assert!(replay.end("e-active").is_some());
        assert!(replay.end("e-0").is_none());
    }

    #[test]
    fn differences_are_recorded_only_if_enabled() {
        for record in [false, true] {
            let replay = Replay::new(ScriptedByState).with_recorded_differences(record);
            for _ in 0..3 {
                let found = Difference::in_words("here".to_owned(), "a", "b");
                assert!(replay.report(vec![found]).is_err());
            }
            assert_eq!(replay.differences().len(), if record { 3 } else { 0 });
        }
    }
}
