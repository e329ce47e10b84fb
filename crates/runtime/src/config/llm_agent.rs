//! Builds an `LlmAgent` from its configuration.

use std::{path::Path, sync::Arc};

use retain_core::adk::table;

use super::{
    composed,
    error::ConfigError,
    loader::Loader,
    model_settings,
    registry::{ConfigRegistry, NameTable},
    tools,
    value::{ConfigValue, Fields},
};
use crate::{
    agents::{Agent, IncludeContents, LlmAgent, LlmAgentBuilder, OutputSchema},
    models::Model,
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Builds the agent that the file describes.
pub(super) fn build(loader: &mut Loader<'_>, place: &ConfigValue<'_>) -> Result<Arc<dyn Agent>> {
    let keys = place.pairs("an LlmAgent")?;
    if let Some((_, global)) = keys.iter().find(|(key, _)| *key == "global_instruction") {
        return Err(global.error(GLOBAL_INSTRUCTION));
    }
    let fields = place.fields("an LlmAgent", &table::LLM_AGENT_CONFIG)?;
    let name = fields.required("name")?.text()?;
    let mut agent = LlmAgent::builder(name)
        .description(fields.text("description")?.unwrap_or_default())
        .instruction(fields.required("instruction")?.text()?);
    if let Some(model) = model(loader.registry, &fields, name)? {
        agent = agent.model(model);
    }
    agent = with_output(agent, loader.registry, &fields)?;
    agent = with_callbacks(agent, loader.registry, &fields)?;
    if let Some(settings) = fields.get("generate_content_config") {
        agent = agent.generate_content_config(model_settings::settings(settings)?);
    }
    for tool in fields.list("tools")? {
        agent = agent.tool(tools::tool(loader, &tool)?);
    }
    agent = composed::with_sub_agents(agent, loader, &fields)?;
    let agent = agent.build();
    let agent = agent.map_err(|error| place.error(error.to_string()))?;
    Ok(Arc::new(agent))
}

/// The error for a key that users may expect in YAML, because agents built in code have it.
const GLOBAL_INSTRUCTION: &str = "global_instruction is not supported in YAML, as in ADK; put it \
                                  into the `instruction` of each agent, or build the agent in code";

/// Returns the agent's own model; `None` if the agent inherits its model.
fn model(
    registry: &ConfigRegistry,
    fields: &Fields<'_>,
    agent: &str,
) -> Result<Option<Arc<dyn Model>>> {
    let named = match fields.get("model") {
        Some(model) => Some((model, model.text()?)).filter(|(_, name)| !name.is_empty()),
        None => None,
    };
    match (named, fields.get("model_code")) {
        (Some(_), Some(code)) => Err(code.error("is set together with `model`; set only one")),
        (Some((place, name)), None) => {
            let model = registry.model(agent, name);
            model
                .map(Some)
                .map_err(|error| place.error(error.to_string()))
        }
        (None, Some(code)) => {
            let name = code_name(code)?;
            match local_name(&name)? {
                Some(full) if registry.models.get(&full).is_some() => {
                    Ok(registry.models.get(&full).map(Arc::clone))
                }
                _ => registry
                    .models
                    .find(&name)
                    .map(|model| Some(Arc::clone(model))),
            }
        }
        (None, None) => Ok(None),
    }
}

/// Expands a name that starts with a dot, relative to the folder of its file; `None` for other
/// names.
fn local_name(name: &ConfigValue<'_>) -> Result<Option<String>> {
    let text = name.name()?;
    let folder = name.file().parent().and_then(Path::file_name);
    let folder = folder.map(|folder| folder.to_string_lossy());
    Ok(folder
        .filter(|_| text.starts_with('.'))
        .map(|folder| format!("{folder}{text}")))
}

/// Returns the name in a code reference.
fn code_name<'a>(place: &ConfigValue<'a>) -> Result<ConfigValue<'a>> {
    let fields = place.fields("a code reference", &table::CODE_CONFIG)?;
    fields.required("name").cloned()
}

fn with_output(
    mut agent: LlmAgentBuilder,
    registry: &ConfigRegistry,
    fields: &Fields<'_>,
) -> Result<LlmAgentBuilder> {
    if let Some(instruction) = fields.get("static_instruction") {
        agent = agent.static_instruction(model_settings::content_or_text(instruction)?);
    }
    match fields.get("include_contents").map(|it| (it, it.as_text())) {
        None | Some((_, Some("default"))) => {}
        Some((_, Some("none"))) => agent = agent.include_contents(IncludeContents::None),
        Some((place, _)) => {
            let problem = format!("expected `default` or `none`, found {}", place.json());
            return Err(place.error(problem));
        }
    }
    if let Some(key) = fields.text("output_key")? {
        agent = agent.output_key(key);
    }
    let schema = |key| -> Result<Option<OutputSchema>> {
        let name = fields.get(key).map(code_name).transpose()?;
        name.map(|name| registry.schemas.find(&name).cloned())
            .transpose()
    };
    if let Some(schema) = schema("output_schema")? {
        agent = agent.output_schema_of(schema);
    }
    if let Some(schema) = schema("input_schema")? {
        agent = agent.input_schema_of(schema.schema().clone());
    }
    Ok(agent)
}

/// Resolves the callbacks under a key.
pub(super) fn callbacks<T: Clone>(
    fields: &Fields<'_>,
    key: &str,
    known: &NameTable<T>,
) -> Result<Vec<T>> {
    let names = fields.list(key)?;
    let callbacks = names
        .iter()
        .map(|name| known.find(&code_name(name)?).cloned());
    callbacks.collect()
}

fn with_callbacks(
    mut agent: LlmAgentBuilder,
    registry: &ConfigRegistry,
    fields: &Fields<'_>,
) -> Result<LlmAgentBuilder> {
    for callback in callbacks(fields, "before_agent_callbacks", &registry.agent_callbacks)? {
        agent = agent.before_agent(move |ctx| callback(ctx));
    }
    for callback in callbacks(fields, "after_agent_callbacks", &registry.agent_callbacks)? {
        agent = agent.after_agent(move |ctx| callback(ctx));
    }
    for callback in callbacks(fields, "before_model_callbacks", &registry.before_model)? {
        agent = agent.before_model(move |ctx, request| callback(ctx, request));
    }
    for callback in callbacks(fields, "after_model_callbacks", &registry.after_model)? {
        agent = agent.after_model(move |ctx, response| callback(ctx, response));
    }
    for callback in callbacks(fields, "before_tool_callbacks", &registry.before_tool)? {
        agent = agent.before_tool(move |ctx, call| callback(ctx, call));
    }
    for callback in callbacks(fields, "after_tool_callbacks", &registry.after_tool)? {
        agent = agent.after_tool(move |ctx, call| callback(ctx, call));
    }
    Ok(agent)
}
