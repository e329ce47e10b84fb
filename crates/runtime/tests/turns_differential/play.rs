//! Our side: a script on our runner, told in the form of the other side.

use std::{
    collections::{HashMap, VecDeque},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use retain_core::{
    BoxError, Content, Event, FunctionDeclaration, FunctionResponse, GetSessionConfig, Json,
    JsonMap, LlmResponse, SessionService,
};
use retain_runtime::{
    BeforeModel, BeforeTool, CallbackContext, Hooked, IncludeContents, LlmAgent, LlmRequest, Model,
    ModelError, ModelStream, RunConfig, RunRequest, Runner, StreamingMode, Tool, ToolContext,
    ToolError, ToolOutput,
};
use retain_sessions::InMemorySessionService;

use crate::script::{TOOLS, map};

const USER: &str = "ada";

/// What is left of a script while it is played.
#[derive(Debug, Default)]
struct Play {
    replies: VecDeque<Json>,
    hooks: HashMap<String, VecDeque<Json>>,
    asked: Vec<Json>,
}

#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Play>>);

impl Shared {
    fn of(script: &Json) -> Shared {
        let hooks = map(&script["hooks"]);
        let hooks = hooks
            .iter()
            .map(|(hook, plan)| (hook.to_owned(), queue(plan)));
        Shared(Arc::new(Mutex::new(Play {
            replies: queue(&script["replies"]),
            hooks: hooks.collect(),
            asked: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Play> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next step of a callback; what it writes is written.
    fn step(&self, hook: &str, ctx: &CallbackContext) -> Result<Json, BoxError> {
        let step = self
            .lock()
            .hooks
            .get_mut(hook)
            .and_then(VecDeque::pop_front);
        let step = step.unwrap_or_default();
        for (key, value) in map(&step["write"]).iter() {
            ctx.state().set(key, value.clone());
        }
        match step["fail"] == true {
            true => Err("a callback is broken".into()),
            false => Ok(step),
        }
    }

    fn content(&self, hook: &str, ctx: &CallbackContext) -> Hooked<Content> {
        let step = self.step(hook, ctx)?;
        Ok(step["answer"].as_str().map(Content::model))
    }

    fn response(&self, hook: &str, ctx: &CallbackContext) -> Hooked<LlmResponse> {
        Ok(response(&self.step(hook, ctx)?["answer"]))
    }

    fn value(&self, hook: &str, ctx: &CallbackContext) -> Hooked<Json> {
        let step = self.step(hook, ctx)?;
        Ok(Some(step["answer"].clone()).filter(|answer| !answer.is_null()))
    }
}

fn queue(list: &Json) -> VecDeque<Json> {
    list.as_array()
        .unwrap_or_default()
        .iter()
        .cloned()
        .collect()
}

fn response(value: &Json) -> Option<LlmResponse> {
    let text = (!value.is_null()).then(|| value.to_string())?;
    Some(LlmResponse::from_json(&text).expect("a response is scripted"))
}

/// Says what the script says, and keeps what it was asked.
#[derive(Debug)]
struct Told(Shared);

impl Model for Told {
    fn name(&self) -> &str {
        "gemini-told"
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let mut play = self.0.lock();
        play.asked.push(asked(&request));
        let reply = play.replies.pop_front().unwrap_or_else(|| {
            let end = LlmResponse::of(Content::model("Nothing more."));
            let end = Json::parse(&end.to_json().expect("it can be written"));
            JsonMap::from([("responses", vec![end.expect("it can be read")])]).into()
        });
        let responses = reply["responses"].as_array().unwrap_or_default().iter();
        let wanted = responses.filter(|response| stream || response["partial"] != true);
        let mut answers: Vec<_> = wanted.filter_map(response).map(Ok).collect();
        if let Some(error) = reply["error"].as_str() {
            answers.push(Err(ModelError::new(error).with_code("RuntimeError")));
        }
        Box::pin(stream::iter(answers))
    }
}

fn asked(request: &LlmRequest) -> Json {
    let contents = request.contents.iter().map(|content| {
        let text = content.to_json().expect("a content can be written");
        Json::parse(&text).expect("it can be read back")
    });
    let contents: Vec<Json> = contents.collect();
    JsonMap::from([
        ("contents", Json::from(contents)),
        (
            "instruction",
            request.config.system_instruction.clone().into(),
        ),
        ("temperature", request.config.temperature.into()),
    ])
    .into()
}

/// A tool that does what its arguments say.
#[derive(Debug)]
struct Doing(&'static str);

#[async_trait]
impl Tool for Doing {
    fn name(&self) -> &str {
        self.0
    }

    fn is_long_running(&self) -> bool {
        self.0 == "later"
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        Some(FunctionDeclaration::default())
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let arg = |name: &str| args.get(name).cloned().unwrap_or_default();
        let key = arg("key").as_str().unwrap_or_default().to_owned();
        let known = ctx.state().get(&key).unwrap_or_default();
        let result = match self.0 {
            "note" => {
                ctx.state().set(key.as_str(), arg("value"));
                JsonMap::from([("noted", key)]).into()
            }
            "nest" => {
                let mut inside = map(&known);
                inside.insert(arg("inner").as_str().unwrap_or_default(), arg("value"));
                let size = inside.len();
                ctx.state().set(key, inside);
                JsonMap::from([("size", size as i64)]).into()
            }
            "add" => {
                let mut items = known.as_array().map(<[Json]>::to_vec).unwrap_or_default();
                items.push(arg("value"));
                let size = items.len();
                ctx.state().set(key, items);
                JsonMap::from([("size", size as i64)]).into()
            }
            "fail" => {
                let message = arg("message").as_str().unwrap_or_default().to_owned();
                return Err(ToolError::new(message).with_code("ValueError"));
            }
            "quiet" => {
                ctx.update_actions(|actions| actions.skip_summarization = Some(true));
                JsonMap::from([("said", arg("text"))]).into()
            }
            "leave" => {
                ctx.update_actions(|actions| actions.escalate = Some(true));
                JsonMap::from([("left", true)]).into()
            }
            _ => arg("result"),
        };
        Ok(result.into())
    }
}

fn agent(script: &Json, play: &Shared) -> LlmAgent {
    let mut agent = LlmAgent::builder("agent")
        .description("Acts.")
        .model(Arc::new(Told(play.clone())))
        .instruction(script["instruction"].as_str().expect("an instruction"))
        .tools(TOOLS.map(Doing));
    if script["includeContents"] == "none" {
        agent = agent.include_contents(IncludeContents::None);
    }
    if let Some(text) = script["staticInstruction"].as_str() {
        agent = agent.static_instruction(Content::user(text));
    }
    if let Some(key) = script["outputKey"].as_str() {
        agent = agent.output_key(key);
    }
    let hooks = || play.clone();
    let (one, two, three, four) = (hooks(), hooks(), hooks(), hooks());
    agent = agent
        .before_agent(move |ctx| ready(one.content("before_agent", &ctx)))
        .after_agent(move |ctx| ready(two.content("after_agent", &ctx)))
        .before_model(move |ctx, request| ready(before_model(&three, &ctx, request)))
        .after_model(move |ctx, _| ready(four.response("after_model", &ctx)));
    let (one, two, three, four) = (hooks(), hooks(), hooks(), hooks());
    agent = agent
        .on_model_error(move |ctx, _, _| ready(one.response("on_model_error", &ctx)))
        .before_tool(move |ctx, call| ready(before_tool(&two, &ctx, call.args)))
        .after_tool(move |ctx, _| ready(three.value("after_tool", &ctx)))
        .on_tool_error(move |ctx, _, _| ready(four.value("on_tool_error", &ctx)));
    agent.build().expect("the agent can be built")
}

fn before_model(
    play: &Shared,
    ctx: &CallbackContext,
    mut request: LlmRequest,
) -> Result<BeforeModel, BoxError> {
    let step = play.step("before_model", ctx)?;
    if step["change"] == true {
        request.append_instruction("Changed.");
        request.config.temperature = Some(0.5);
    }
    Ok(match response(&step["answer"]) {
        Some(answer) => answer.into(),
        None => request.into(),
    })
}

fn before_tool(
    play: &Shared,
    ctx: &CallbackContext,
    mut args: JsonMap,
) -> Result<BeforeTool, BoxError> {
    let step = play.step("before_tool", ctx)?;
    if step["change"] == true {
        args.insert("value", "changed");
    }
    Ok(match &step["answer"] {
        Json::Null => BeforeTool::Call(args),
        answer => BeforeTool::Answer(answer.clone()),
    })
}

/// Plays a script; tells what happened in the form of the other side.
pub(crate) async fn play(script: &Json) -> Json {
    let play = Shared::of(script);
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("app")
        .agent(agent(script, &play))
        .session_service(Arc::clone(&sessions));
    let runner = runner.build().expect("the runner can be built");
    let state = Some(map(&script["state"]).into());
    let created = sessions.create_session("app", USER, state, Some("s1"));
    created.await.expect("the session is created");
    let mut turns = Vec::new();
    let mut open = VecDeque::new();
    for said in script["turns"].as_array().unwrap_or_default() {
        let (events, failed) = turn(&runner, said, &mut open).await;
        let session = stored(&sessions).await;
        turns.push(Json::from(JsonMap::from([
            ("events", Json::from(events)),
            ("failed", failed.into()),
            ("state", session.state.to_delta().into()),
        ])));
    }
    let session = stored(&sessions).await;
    let stored = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
    let stored: Vec<Json> = stored.map(|event| json(&event)).collect();
    JsonMap::from([
        ("turns", Json::from(turns)),
        ("asked", play.lock().asked.clone().into()),
        ("stored", stored.into()),
    ])
    .into()
}

async fn stored(sessions: &Arc<dyn SessionService>) -> retain_core::Session {
    let read = sessions.get_session("app", USER, "s1", GetSessionConfig::default());
    read.await.expect("it can be read").expect("it is there")
}

/// One turn: its events, and how it failed.
async fn turn(
    runner: &Runner,
    said: &Json,
    open: &mut VecDeque<String>,
) -> (Vec<Json>, Option<String>) {
    let mode = match said["streaming"] == true {
        true => StreamingMode::Sse,
        false => StreamingMode::None,
    };
    let config = RunConfig::default();
    let limit = said["maxLlmCalls"].as_u64().map(|limit| limit as u32);
    let request = RunRequest::new(message(said, open))
        .state_delta(map(&said["stateDelta"]))
        .config(RunConfig {
            streaming_mode: mode,
            max_llm_calls: limit.or(config.max_llm_calls),
            custom_metadata: map(&said["metadata"]),
            ..config
        });
    let mut run = match runner.run_with(USER, Some("s1"), request).await {
        Ok(run) => run,
        Err(error) => return (Vec::new(), Some(error.code().to_owned())),
    };
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        match event {
            Ok(event) => {
                events.push(json(&event));
                if !event.is_partial() {
                    let calls = event.function_calls().into_iter();
                    let later = calls.filter(|call| call.name.as_deref() == Some("later"));
                    open.extend(later.filter_map(|call| call.id.clone()));
                }
            }
            Err(error) => return (events, Some(error.code().to_owned())),
        }
    }
    (events, None)
}

fn message(said: &Json, open: &mut VecDeque<String>) -> Content {
    let text = said["text"].as_str().unwrap_or_default();
    let call = match said["answersLater"] == true {
        true => open.pop_front(),
        false => None,
    };
    match call {
        None => Content::user(text),
        Some(id) => {
            let response = FunctionResponse::new(id, "later", [("late", text)].into());
            Content::new("user", vec![response.into()])
        }
    }
}

fn json(event: &Event) -> Json {
    let text = event.to_json().expect("an event can be written");
    Json::parse(&text).expect("it can be read back")
}
