//! Retain's side: an agent whose model, tools and callbacks follow a script.

use std::{
    collections::{HashMap, VecDeque},
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures_util::stream;
use retain_core::{BoxError, Content, FunctionDeclaration, Json, JsonMap, LlmResponse};
use retain_runtime::{
    BeforeModel, BeforeTool, CallbackContext, HookResult, IncludeContents, LlmAgent, LlmRequest,
    Model, ModelError, ModelStream, Tool, ToolContext, ToolError, ToolOutput,
};

use crate::turns_differential::{
    script::{TOOLS, map},
    turns::turns,
};

/// The rest of a script, and the requests so far.
#[derive(Debug, Default)]
struct Play {
    replies: VecDeque<Json>,
    hooks: HashMap<String, VecDeque<Json>>,
    requests: Vec<Json>,
}

#[derive(Debug, Clone)]
pub(crate) struct SharedPlay(Arc<Mutex<Play>>);

impl SharedPlay {
    pub(crate) fn from_script(script: &Json) -> SharedPlay {
        let hooks = map(&script["hooks"]);
        let hooks = hooks
            .iter()
            .map(|(hook, plan)| (hook.to_owned(), queue(plan)));
        SharedPlay(Arc::new(Mutex::new(Play {
            replies: queue(&script["replies"]),
            hooks: hooks.collect(),
            requests: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Play> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model's requests.
    pub(crate) fn requests(&self) -> Vec<Json> {
        self.lock().requests.clone()
    }

    /// Writes the state keys in a callback's next step, and returns the step.
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

    pub(crate) fn content(&self, hook: &str, ctx: &CallbackContext) -> HookResult<Content> {
        let step = self.step(hook, ctx)?;
        Ok(step["answer"].as_str().map(Content::model))
    }

    fn response(&self, hook: &str, ctx: &CallbackContext) -> HookResult<LlmResponse> {
        Ok(response(&self.step(hook, ctx)?["answer"]))
    }

    fn value(&self, hook: &str, ctx: &CallbackContext) -> HookResult<Json> {
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
    Some(LlmResponse::from_json(&text).expect("the script has a response"))
}

/// A model that replies as scripted and records its requests.
#[derive(Debug)]
pub(crate) struct PlayModel(pub(crate) SharedPlay);

impl Model for PlayModel {
    fn name(&self) -> &str {
        "gemini-scripted"
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let mut play = self.0.lock();
        play.requests.push(request_json(&request));
        let reply = play.replies.pop_front().unwrap_or_else(|| {
            let end = LlmResponse::from_content(Content::model("Nothing more."));
            let end = Json::parse(&end.to_json().expect("a response is JSON"));
            JsonMap::from([("responses", vec![end.expect("a response is JSON")])]).into()
        });
        let responses = reply["responses"].as_array().unwrap_or_default().iter();
        let responses = responses.filter(|response| stream || response["partial"] != true);
        let mut answers: Vec<_> = responses.filter_map(response).map(Ok).collect();
        if let Some(error) = reply["error"].as_str() {
            answers.push(Err(ModelError::new(error).with_code("RuntimeError")));
        }
        Box::pin(stream::iter(answers))
    }
}

fn request_json(request: &LlmRequest) -> Json {
    let contents = request.contents.iter().map(|content| {
        let text = content.to_json().expect("a content is JSON");
        Json::parse(&text).expect("a content is JSON")
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

/// A tool that writes the state, fails or returns a result, depending on its name and arguments.
#[derive(Debug)]
pub(crate) struct PlayTool(pub(crate) &'static str);

#[async_trait]
impl Tool for PlayTool {
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
        let before = ctx.state().get(&key).unwrap_or_default();
        let result = match self.0 {
            "note" => {
                ctx.state().set(key.as_str(), arg("value"));
                JsonMap::from([("noted", key)]).into()
            }
            "nest" => {
                let mut inside = map(&before);
                inside.insert(arg("inner").as_str().unwrap_or_default(), arg("value"));
                let size = inside.len();
                ctx.state().set(key, inside);
                JsonMap::from([("size", size as i64)]).into()
            }
            "add" => {
                let mut items = before.as_array().map(<[Json]>::to_vec).unwrap_or_default();
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
                JsonMap::from([("text", arg("text"))]).into()
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

fn agent(script: &Json, play: &SharedPlay) -> LlmAgent {
    let mut agent = LlmAgent::builder("agent")
        .description("Acts.")
        .model(Arc::new(PlayModel(play.clone())))
        .instruction(script["instruction"].as_str().expect("an instruction"))
        .tools(TOOLS.map(PlayTool));
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
    agent.build().expect("the agent is valid")
}

fn before_model(
    play: &SharedPlay,
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
    play: &SharedPlay,
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

/// Runs a script with one agent. Returns the result in the same format as the oracle.
pub(crate) async fn play(script: &Json) -> Json {
    let play = SharedPlay::from_script(script);
    let agent = agent(script, &play);
    turns(script, Arc::new(agent), || play.requests().into()).await
}
