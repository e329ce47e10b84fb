//! Custom agent classes that a program registers: their configuration and construction.

use std::{fmt, sync::Arc};

use retain_core::{BoxError, Json, JsonMap};
use serde::de::DeserializeOwned;

use super::{composed, error::ConfigError, loader::Loader, value::ConfigValue};
use crate::agents::{Agent, AgentCallbacks};

/// Creates an agent from its configuration.
pub(super) type AgentFactory =
    Arc<dyn Fn(CustomAgentConfig) -> Result<Arc<dyn Agent>, BoxError> + Send + Sync>;

/// The configuration of an agent with a registered class. The common fields are parsed and built;
/// the others stay as they are in the file. See
/// [`ConfigRegistry::with_agent_class`](crate::ConfigRegistry::with_agent_class).
#[derive(Clone)]
#[non_exhaustive]
pub struct CustomAgentConfig {
    /// The agent's name.
    pub name: String,
    /// The agent's description; empty if the file has none.
    pub description: String,
    /// The sub-agents.
    pub sub_agents: Vec<Arc<dyn Agent>>,
    /// Callbacks that run before and after the agent.
    pub callbacks: AgentCallbacks,
    /// All other keys of the file.
    pub fields: JsonMap,
}

impl CustomAgentConfig {
    /// Parses all other keys of the file into a type. Use `deny_unknown_fields` on that type to
    /// reject misspelled keys.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, BoxError> {
        let fields = serde_json::to_value(&self.fields)?;
        Ok(serde_json::from_value(fields)?)
    }
}

impl fmt::Debug for CustomAgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomAgentConfig")
            .field("name", &self.name)
            .field("fields", &Json::from(self.fields.clone()).to_string())
            .finish_non_exhaustive()
    }
}

/// Builds a file's agent with `make`.
pub(super) fn build(
    loader: &mut Loader<'_>,
    make: &AgentFactory,
    place: &ConfigValue<'_>,
) -> Result<Arc<dyn Agent>, ConfigError> {
    let common = composed::read_common_fields(loader, &place.open_fields("an agent")?)?;
    let mut fields = JsonMap::new();
    for (key, value) in place.pairs("an agent")? {
        if !composed::is_common_key(key) {
            fields.insert(key, value.json());
        }
    }
    let made = make(CustomAgentConfig {
        name: common.name,
        description: common.description,
        sub_agents: common.sub_agents,
        callbacks: common.callbacks,
        fields,
    });
    made.map_err(|error| place.error(error.to_string()))
}
