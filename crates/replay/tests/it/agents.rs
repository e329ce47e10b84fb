//! Agents of the recorded apps, loaded from their configurations.

use std::sync::Arc;

use retain_core::{Content, Json};
use retain_runtime::{Agent, AgentConfig, ConfigRegistry, Model};

use crate::case::root;

/// Loads the root agent of an app. `model` resolves a model name.
pub(crate) fn root_agent(
    app: &str,
    model: impl Fn(&str) -> Arc<dyn Model> + Send + Sync + 'static,
) -> Arc<dyn Agent> {
    let registry = ConfigRegistry::new().with_model_resolver(move |_, name| Ok(model(name)));
    let file = root().join("agents").join(app).join("root_agent.yaml");
    AgentConfig::load(file, &registry).unwrap_or_else(|error| panic!("{error}"))
}

/// Parses a content from a YAML file.
pub(crate) fn content(value: &Json) -> Content {
    Content::from_json(&value.to_string()).expect("the content must be valid")
}
