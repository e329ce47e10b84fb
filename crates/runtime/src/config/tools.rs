//! Tools of a configuration: ADK's built-in tools by name, and registered tools.

use std::sync::Arc;

use retain_core::{JsonMap, adk::table};

use super::{
    composed,
    error::ConfigError,
    loader::Loader,
    model_settings::content,
    nearest::did_you_mean,
    registry::RegisteredTool,
    value::{ConfigValue, Fields},
};
use crate::tools::{
    Example, ExampleTool, ToolSource, exit_loop_tool, get_user_choice_tool, google_search,
    load_artifacts_tool, load_memory_tool, preload_memory_tool, request_input_tool, url_context,
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Names of ADK's built-in tools: the bare name, and the path below `google.adk.tools`.
const BUILT_IN: [(&str, &str); 10] = [
    ("AgentTool", "agent_tool.AgentTool"),
    ("ExampleTool", "example_tool.ExampleTool"),
    ("exit_loop", "exit_loop_tool.exit_loop"),
    (
        "get_user_choice",
        "get_user_choice_tool.get_user_choice_tool",
    ),
    ("google_search", "google_search_tool.google_search"),
    ("load_artifacts", "load_artifacts_tool.load_artifacts_tool"),
    ("load_memory", "load_memory_tool.load_memory_tool"),
    ("preload_memory", "preload_memory_tool.preload_memory_tool"),
    ("request_input", "_request_input_tool.request_input"),
    ("url_context", "url_context_tool.url_context"),
];

/// Resolves an item of `tools`.
pub(super) fn tool(loader: &mut Loader<'_>, place: &ConfigValue<'_>) -> Result<ToolSource> {
    let fields = place.fields("a tool", &table::ADK_TOOL_CONFIG)?;
    let name = fields.required("name")?;
    if let Some(registered) = loader.registry.tools.get(name.name()?) {
        return from_registry(registered, &fields);
    }
    let Some(bare) = built_in(name.name()?) else {
        return Err(unknown_tool(loader, name));
    };
    match bare {
        "AgentTool" => return composed::agent_tool(loader, read_args(&fields)?),
        "ExampleTool" => return example_tool(loader, read_args(&fields)?),
        _ => refuse_args(&fields)?,
    }
    Ok(match bare {
        "exit_loop" => exit_loop_tool().into(),
        "get_user_choice" => get_user_choice_tool().into(),
        "google_search" => google_search().into(),
        "load_artifacts" => load_artifacts_tool().into(),
        "load_memory" => load_memory_tool().into(),
        "preload_memory" => preload_memory_tool(usize::MAX).into(),
        "request_input" => request_input_tool().into(),
        "url_context" => url_context().into(),
        _ => return Err(unknown_tool(loader, name)),
    })
}

fn built_in(name: &str) -> Option<&'static str> {
    let known = match name.strip_prefix("google.adk.tools.") {
        None => BUILT_IN.iter().find(|(bare, _)| name == *bare),
        Some(rest) => BUILT_IN
            .iter()
            .find(|(bare, qualified)| rest == *bare || rest == *qualified),
    };
    known.map(|(bare, _)| *bare)
}

fn unknown_tool(loader: &Loader<'_>, name: &ConfigValue<'_>) -> ConfigError {
    let built_in = BUILT_IN.iter().map(|(bare, _)| *bare);
    let known = built_in.chain(loader.registry.tools.names());
    let text = name.as_text().unwrap_or_default();
    let hint = did_you_mean(text, known, "known tools");
    name.error(format!(
        "no tool is built in or registered as {text:?}; {hint}"
    ))
}

fn from_registry(registered: &RegisteredTool, fields: &Fields<'_>) -> Result<ToolSource> {
    let make = match registered {
        RegisteredTool::Instance(tool) => {
            refuse_args(fields)?;
            return Ok(tool.clone());
        }
        RegisteredTool::Factory(make) => make,
    };
    let place = fields.get("args").unwrap_or(fields.map());
    let args: JsonMap = match fields.get("args") {
        Some(args) => {
            let pairs = args.pairs("the tool's arguments")?.into_iter();
            pairs.map(|(key, value)| (key, value.json())).collect()
        }
        None => JsonMap::new(),
    };
    make(args).map_err(|error| place.error(format!("failed to create the tool: {error}")))
}

fn refuse_args(fields: &Fields<'_>) -> Result<()> {
    match fields.get("args") {
        Some(args) if !args.pairs("the tool's arguments")?.is_empty() => {
            Err(args.error("the tool takes no arguments"))
        }
        _ => Ok(()),
    }
}

fn read_args<'f, 'a>(fields: &'f Fields<'a>) -> Result<&'f ConfigValue<'a>> {
    let missing = || fields.map().error("the tool needs `args`");
    fields.get("args").ok_or_else(missing)
}

fn example_tool(loader: &Loader<'_>, args: &ConfigValue<'_>) -> Result<ToolSource> {
    let fields = args.fields("the arguments of ExampleTool", &table::EXAMPLE_TOOL_CONFIG)?;
    let examples = fields.required("examples")?;
    if examples.as_text().is_some() {
        let provider = loader.registry.examples.find(examples)?;
        return Ok(ExampleTool::new(Arc::clone(provider)).into());
    }
    let examples: Result<Vec<Example>> = examples.list()?.iter().map(example).collect();
    Ok(ExampleTool::new(examples?).into())
}

fn example(place: &ConfigValue<'_>) -> Result<Example> {
    let fields = place.fields("an example", &table::EXAMPLE)?;
    let output = fields.required("output")?.list()?;
    Ok(Example {
        input: content(fields.required("input")?)?,
        output: output.iter().map(content).collect::<Result<_>>()?,
    })
}
