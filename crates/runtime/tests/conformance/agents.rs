//! Agents of the recorded apps: just enough of ADK's agent configuration to build them.

use std::sync::Arc;

use retain_core::{Content, GenerateContentConfig, Json};
use retain_runtime::{
    Example, ExampleTool, IncludeContents, LlmAgent, LlmAgentBuilder, Model, ToolSource,
    exit_loop_tool, get_user_choice_tool, google_search, load_memory_tool, preload_memory_tool,
    request_input_tool, url_context,
};

use crate::case::{list, yaml};

/// `google.genai.types.LatLng`, the one schema that the recorded agents name.
#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct LatLng {
    latitude: Option<f64>,
    longitude: Option<f64>,
}

/// The root agent of an app. `model` gives the model for an agent: its name, and the model's.
pub(crate) fn root_agent(app: &str, model: impl Fn(&str, &str) -> Arc<dyn Model>) -> LlmAgent {
    agent_of(&yaml(&format!("agents/{app}/root_agent.yaml")), &model)
}

const KNOWN: [&str; 10] = [
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
];

fn agent_of(config: &Json, model: &impl Fn(&str, &str) -> Arc<dyn Model>) -> LlmAgent {
    let map = config.as_object().expect("a configuration is a map");
    for key in map.keys() {
        assert!(KNOWN.contains(&key), "{key} of an agent is not known here");
    }
    let text = |key: &str| config[key].as_str();
    let name = text("name").expect("an agent has a name");
    let model = model(name, text("model").expect("an agent has a model"));
    let mut agent = LlmAgent::builder(name)
        .model(model)
        .description(text("description").unwrap_or_default())
        .instruction(text("instruction").unwrap_or_default());
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
    let tools = list(&config["tools"]);
    agent
        .tools(tools.iter().map(tool_of))
        .build()
        .expect("the agent can be built")
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
