//! Agents of the recorded apps: just enough of ADK's agent configuration to build them.

use std::sync::Arc;

use retain_core::{Content, GenerateContentConfig, Json};
use retain_runtime::{
    Agent, AgentTool, Example, ExampleTool, IncludeContents, LlmAgent, LlmAgentBuilder, LoopAgent,
    LoopAgentBuilder, Model, ParallelAgent, ParallelAgentBuilder, SequentialAgent,
    SequentialAgentBuilder, ToolSource, exit_loop_tool, get_user_choice_tool, google_search,
    load_memory_tool, preload_memory_tool, request_input_tool, url_context,
};

use crate::case::{list, yaml};

/// `google.genai.types.LatLng`, the one schema that the recorded agents name.
#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct LatLng {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

/// The model for an agent: its name, and the model's.
type Models<'a> = &'a dyn Fn(&str, &str) -> Arc<dyn Model>;

/// The root agent of an app.
pub(crate) fn root_agent(app: &str, model: Models<'_>) -> Arc<dyn Agent> {
    agent_in(app, "root_agent.yaml", None, model)
}

/// The agent that a file of the app describes. Without a model it has that of the agent above.
fn agent_in(app: &str, file: &str, above: Option<&str>, model: Models<'_>) -> Arc<dyn Agent> {
    let config = &yaml(&format!("agents/{app}/{file}"));
    let name = config["name"].as_str().expect("an agent has a name");
    let model_name = config["model"].as_str().or(above);
    let below = list(&config["sub_agents"]).into_iter().map(|agent| {
        let file = agent["config_path"].as_str().expect("a file");
        agent_in(app, file, model_name, model)
    });
    let description = config["description"].as_str().unwrap_or_default();
    match config["agent_class"].as_str() {
        None | Some("LlmAgent") => {
            let model_name = model_name.expect("an agent has a model");
            let agent = llm_agent(app, config, model);
            let agent = below.fold(agent, LlmAgentBuilder::sub_agent);
            let agent = agent.model(model(name, model_name));
            Arc::new(agent.build().expect("the agent can be built"))
        }
        Some("SequentialAgent") => {
            let agent = SequentialAgent::builder(name).description(description);
            let agent = below.fold(agent, SequentialAgentBuilder::sub_agent);
            Arc::new(agent.build().expect("the agent can be built"))
        }
        Some("LoopAgent") => {
            let mut agent = LoopAgent::builder(name).description(description);
            if let Some(rounds) = config["max_iterations"].as_u64() {
                agent = agent.max_iterations(rounds as u32);
            }
            let agent = below.fold(agent, LoopAgentBuilder::sub_agent);
            Arc::new(agent.build().expect("the agent can be built"))
        }
        Some("ParallelAgent") => {
            let agent = ParallelAgent::builder(name).description(description);
            let agent = below.fold(agent, ParallelAgentBuilder::sub_agent);
            Arc::new(agent.build().expect("the agent can be built"))
        }
        Some(other) => panic!("agent_class {other} is not known here"),
    }
}

const KNOWN: [&str; 14] = [
    "agent_class",
    "name",
    "model",
    "description",
    "instruction",
    "static_instruction",
    "include_contents",
    "output_key",
    "output_schema",
    "generate_content_config",
    "tools",
    "sub_agents",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
];

fn llm_agent(app: &str, config: &Json, model: Models<'_>) -> LlmAgentBuilder {
    let map = config.as_object().expect("a configuration is a map");
    for key in map.keys() {
        assert!(KNOWN.contains(&key), "{key} of an agent is not known here");
    }
    let text = |key: &str| config[key].as_str();
    let is_set = |key: &str| config[key].as_bool().unwrap_or(false);
    let name = text("name").expect("an agent has a name");
    let mut agent = LlmAgent::builder(name)
        .description(text("description").unwrap_or_default())
        .instruction(text("instruction").unwrap_or_default())
        .disallow_transfer_to_parent(is_set("disallow_transfer_to_parent"))
        .disallow_transfer_to_peers(is_set("disallow_transfer_to_peers"));
    if let Some(instruction) = text("static_instruction") {
        agent = agent.static_instruction(Content::user(instruction));
    }
    match text("include_contents") {
        None | Some("default") => {}
        Some("none") => agent = agent.include_contents(IncludeContents::None),
        Some(other) => panic!("include_contents {other} is not known here"),
    }
    if let Some(key) = text("output_key") {
        agent = agent.output_key(key);
    }
    agent = with_schema(agent, &config["output_schema"]);
    if !config["generate_content_config"].is_null() {
        let settings = config["generate_content_config"].to_string();
        let settings = GenerateContentConfig::from_json(&settings).expect("settings can be read");
        agent = agent.generate_content_config(settings);
    }
    let tools = list(&config["tools"]).into_iter();
    agent.tools(tools.map(|tool| match tool["name"].as_str() {
        Some("AgentTool") => {
            let file = tool["args"]["agent"]["config_path"].as_str();
            AgentTool::new(agent_in(app, file.expect("a file"), None, model)).into()
        }
        _ => tool_of(&tool),
    }))
}

fn with_schema(agent: LlmAgentBuilder, schema: &Json) -> LlmAgentBuilder {
    match schema["name"].as_str() {
        None => agent,
        Some("google.genai.types.LatLng") => agent.output_schema::<LatLng>(),
        Some(other) => panic!("output_schema {other} is not known here"),
    }
}

fn tool_of(config: &Json) -> ToolSource {
    match config["name"].as_str().expect("a tool has a name") {
        "load_memory" => load_memory_tool().into(),
        "preload_memory" => preload_memory_tool(usize::MAX).into(),
        "exit_loop" => exit_loop_tool().into(),
        "get_user_choice" => get_user_choice_tool().into(),
        "request_input" => request_input_tool().into(),
        "google_search" => google_search().into(),
        "url_context" => url_context().into(),
        "ExampleTool" => {
            let examples = list(&config["args"]["examples"]);
            ExampleTool::new(examples.iter().map(example).collect::<Vec<_>>()).into()
        }
        other => panic!("tool {other} is not known here"),
    }
}

fn example(config: &Json) -> Example {
    Example {
        input: content(&config["input"]),
        output: list(&config["output"]).iter().map(content).collect(),
    }
}

/// A content of a YAML file.
pub(crate) fn content(value: &Json) -> Content {
    Content::from_json(&value.to_string()).expect("a content can be read")
}
