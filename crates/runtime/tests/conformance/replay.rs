//! Answers from the recordings: a model, and a plugin around the tools. What was asked is compared
//! with what was recorded; the first difference ends the run.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::stream;
use retain_core::{BoxError, Json, JsonMap, LlmResponse};
use retain_runtime::{
    Hooked, LlmRequest, Model, ModelError, ModelStream, Plugin, Tool, ToolContext,
};

use crate::{
    case::list,
    compare::{Difference, comparable_request, differences, recorded_request, request_json},
};

const MODEL: &str = "llm_recording";
const TOOL: &str = "tool_recording";

/// The recordings of one run, and how far they were used.
#[derive(Debug)]
pub(crate) struct Replay {
    recordings: Vec<Json>,
    message: AtomicUsize,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// How many recordings an agent has used, by message, agent and kind.
    used: HashMap<(usize, String, &'static str), usize>,
    /// The recorded results of the tools that run, by call.
    running: HashMap<String, (String, Json)>,
    differences: Vec<Difference>,
}

impl Replay {
    pub(crate) fn new(recordings: Vec<Json>) -> Arc<Replay> {
        Arc::new(Replay {
            recordings,
            message: AtomicUsize::new(0),
            progress: Mutex::default(),
        })
    }

    /// The user says the next thing.
    pub(crate) fn set_message(&self, number: usize) {
        self.message.store(number, Ordering::SeqCst);
    }

    /// What was found so far.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        self.progress().differences.clone()
    }

    /// What was recorded and never asked for.
    pub(crate) fn unused(&self) -> Option<Difference> {
        let used: usize = self.progress().used.values().sum();
        let expected = format!("{} recordings are used", self.recordings.len());
        let is_used = used == self.recordings.len();
        (!is_used).then(|| Difference::of("recordings", expected, used.to_string()))
    }

    /// The next recording of `kind` for this agent, and where it stands.
    fn next(&self, agent: &str, kind: &'static str) -> (String, Option<Json>) {
        let message = self.message.load(Ordering::SeqCst);
        let mut progress = self.progress();
        let key = (message, agent.to_owned(), kind);
        let number = progress.used.entry(key).or_default();
        let place = format!("message {message}, agent {agent}, {kind} {number}");
        let is_ours = |recording: &&Json| {
            recording["agent_name"] == *agent
                && recording["user_message_index"] == message as i64
                && !recording[kind].is_null()
        };
        let recording = self.recordings.iter().filter(is_ours).nth(*number);
        if recording.is_some() {
            *number += 1;
        }
        (place, recording.map(|recording| recording[kind].clone()))
    }

    /// Keeps differences; fails if there are any.
    fn check(&self, found: Vec<Difference>) -> Result<(), String> {
        let Some(first) = found.first().map(Difference::to_string) else {
            return Ok(());
        };
        self.progress().differences.extend(found);
        Err(first)
    }

    fn answer(&self, agent: &str, request: &LlmRequest) -> Result<Vec<LlmResponse>, String> {
        let (place, recording) = self.next(agent, MODEL);
        let ours = comparable_request(request_json(request));
        let Some(recording) = recording else {
            let found = Difference::of(place, "no model call", ours.to_string());
            self.check(vec![found])?;
            return Ok(Vec::new());
        };
        let theirs = comparable_request(recorded_request(&recording["llm_request"]));
        self.check(differences(&place, &theirs, &ours))?;
        let responses = list(&recording["llm_responses"]).into_iter();
        let responses = responses.map(|response| LlmResponse::from_json(&response.to_string()));
        let responses: Result<Vec<_>, _> = responses.collect();
        Ok(responses.expect("responses are recorded"))
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The model of all agents that name it or inherit it.
#[derive(Debug)]
pub(crate) struct ReplayModel {
    pub(crate) name: String,
    pub(crate) replay: Arc<Replay>,
}

impl Model for ReplayModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        let answers = match self.replay.answer(agent_of(&request), &request) {
            Ok(responses) => responses.into_iter().map(Ok).collect(),
            Err(difference) => vec![Err(ModelError::new(difference))],
        };
        Box::pin(stream::iter(answers))
    }
}

/// Who asks: the model is told.
fn agent_of(request: &LlmRequest) -> &str {
    let told = request.config.system_instruction.as_deref();
    let name = told.and_then(|told| told.split_once("Your internal name is \""));
    let name = name.and_then(|(_, rest)| rest.split_once('"'));
    name.map_or("", |(name, _)| name)
}

/// Checks the calls of tools, lets them run, and puts the recorded results in place of theirs.
#[derive(Debug)]
pub(crate) struct ReplayTools(pub(crate) Arc<Replay>);

#[async_trait]
impl Plugin for ReplayTools {
    fn name(&self) -> &str {
        "replay"
    }

    async fn before_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &mut JsonMap,
    ) -> Hooked<Json> {
        let (place, recording) = self.0.next(ctx.agent_name(), TOOL);
        let ours = JsonMap::from([
            ("name", Json::from(tool.name())),
            ("args", args.clone().into()),
        ]);
        let Some(recording) = recording else {
            let found = Difference::of(place, "no tool call", Json::from(ours).to_string());
            self.0.check(vec![found])?;
            return Ok(None);
        };
        let call = &recording["tool_call"];
        let recorded_args = call["args"].as_object().cloned().unwrap_or_default();
        let theirs = JsonMap::from([
            ("name", call["name"].clone()),
            ("args", recorded_args.into()),
        ]);
        let found = differences(&place, &theirs.into(), &ours.into());
        self.0.check(found).map_err(BoxError::from)?;
        let response = recording["tool_response"]["response"].clone();
        let id = ctx.function_call_id().expect("a call has an id").to_owned();
        self.0
            .progress()
            .running
            .insert(id, (place, response.clone()));
        // An agent that is called as a tool was not recorded: its answer is taken.
        let is_agent = format!("{tool:?}").starts_with("AgentTool");
        Ok(is_agent.then_some(response))
    }

    async fn after_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        _args: &JsonMap,
        result: &Json,
    ) -> Hooked<Json> {
        let id = ctx.function_call_id().expect("a call has an id");
        let running = self.0.progress().running.remove(id);
        let (place, recorded) = running.expect("a tool that ends has begun");
        // The tools are ADK's own, so they must give what ADK's gave.
        let ours = match result {
            Json::Null if tool.is_long_running() => Json::Null,
            Json::Object(_) => result.clone(),
            plain => JsonMap::from([("result", plain.clone())]).into(),
        };
        let found = differences(&format!("{place}, result"), &recorded, &ours);
        self.0.check(found).map_err(BoxError::from)?;
        Ok((!recorded.is_null()).then_some(recorded))
    }
}
