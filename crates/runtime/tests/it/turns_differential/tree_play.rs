//! Retain's side of the scripts with several agents.

use std::{future::ready, sync::Arc};

use retain_core::{Json, JsonMap};
use retain_runtime::{
    Agent, AgentCallbacks, AgentTool, FunctionTool, IncludeContents, LlmAgent, LoopAgent,
    ParallelAgent, SequentialAgent, exit_loop_tool, get_user_choice_tool, request_input_tool,
};

use crate::turns_differential::{
    play::{PlayModel, PlayTool, SharedPlay},
    script::TOOLS,
    turns::turns,
};

/// Runs a script. Returns the result in the same format as the oracle.
pub(crate) async fn play(script: &Json) -> Json {
    let mut models = Vec::new();
    let root = agent(&script["tree"], &mut models);
    let requests = || {
        let requests = models
            .iter()
            .map(|(name, play)| (name.clone(), Json::from(play.requests())));
        Json::from(requests.collect::<JsonMap>())
    };
    turns(script, root, requests).await
}

/// The agents with their own models, by name, and the models' scripts.
type Models = Vec<(String, SharedPlay)>;

fn name(node: &Json) -> &str {
    node["name"].as_str().expect("an agent has a name")
}

fn sub_agents(node: &Json, models: &mut Models) -> Vec<Arc<dyn Agent>> {
    let nodes = node["below"].as_array().unwrap_or_default().iter();
    nodes.map(|node| agent(node, models)).collect()
}

fn callbacks(play: &SharedPlay) -> AgentCallbacks {
    let (before, after) = (play.clone(), play.clone());
    AgentCallbacks::default()
        .with_before(move |ctx| ready(before.content("before_agent", &ctx)))
        .with_after(move |ctx| ready(after.content("after_agent", &ctx)))
}

/// Returns the builder of a workflow agent, with its sub-agents.
macro_rules! workflow {
    ($builder:expr, $node:expr, $models:expr) => {{
        let described = $builder
            .description(format!("Is {}.", name($node)))
            .callbacks(callbacks(&SharedPlay::from_script($node)));
        sub_agents($node, $models)
            .into_iter()
            .fold(described, |all, agent| all.sub_agent(agent))
    }};
}

fn agent(node: &Json, models: &mut Models) -> Arc<dyn Agent> {
    let valid = "the agent is valid";
    match node["kind"].as_str() {
        Some("sequential") => {
            let agent = workflow!(SequentialAgent::builder(name(node)), node, models);
            Arc::new(agent.build().expect(valid))
        }
        Some("parallel") => {
            let agent = workflow!(ParallelAgent::builder(name(node)), node, models);
            Arc::new(agent.build().expect(valid))
        }
        Some("loop") => {
            let agent = workflow!(LoopAgent::builder(name(node)), node, models);
            let rounds = node["maxIterations"].as_u64().expect("a limit") as u32;
            Arc::new(agent.max_iterations(rounds).build().expect(valid))
        }
        _ => Arc::new(llm_agent(node, models)),
    }
}

fn llm_agent(node: &Json, models: &mut Models) -> LlmAgent {
    let play = SharedPlay::from_script(node);
    let (before, after) = (play.clone(), play.clone());
    let mut agent = LlmAgent::builder(name(node))
        .description(format!("Is {}.", name(node)))
        .instruction(node["instruction"].as_str().expect("an instruction"))
        .disallow_transfer_to_parent(node["notToParent"] == true)
        .disallow_transfer_to_peers(node["notToPeers"] == true)
        .tools(TOOLS.map(PlayTool))
        .tool(pay())
        .tool(exit_loop_tool())
        .tool(get_user_choice_tool())
        .tool(request_input_tool())
        .before_agent(move |ctx| ready(before.content("before_agent", &ctx)))
        .after_agent(move |ctx| ready(after.content("after_agent", &ctx)));
    if node["ownModel"] == true {
        models.push((name(node).to_owned(), play.clone()));
        agent = agent.model(Arc::new(PlayModel(play)));
    }
    if node["includeContents"] == "none" {
        agent = agent.include_contents(IncludeContents::None);
    }
    if let Some(key) = node["outputKey"].as_str() {
        agent = agent.output_key(key);
    }
    if node["hasInputSchema"] == true {
        agent = agent.input_schema::<Order>();
    }
    if node["hasOutputSchema"] == true {
        agent = agent.output_schema::<TitleOutput>();
    }
    if !node["helper"].is_null() {
        agent = agent.tool(AgentTool::new(self::agent(&node["helper"], models)));
    }
    let below = sub_agents(node, models).into_iter();
    let agent = below.fold(agent, |all, agent| all.sub_agent(agent));
    agent.build().expect("the agent is valid")
}

/// The input of an agent tool.
#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct Order {
    topic: String,
    count: Option<i64>,
}

/// The output of an agent tool.
#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct TitleOutput {
    title: String,
}

/// Creates a tool that needs approval.
fn pay() -> FunctionTool {
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
    });
    let pay = |_, args: JsonMap| async move {
        let amount = args.get("amount").cloned().unwrap_or_default();
        Ok(Json::from(JsonMap::from([("paid", amount)])).into())
    };
    FunctionTool::untyped("pay", "Pays.", Some(parameters.into()), pay).require_confirmation()
}
