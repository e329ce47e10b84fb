//! Agents of classes that a program registers: what their configuration says, and how they are made.

use std::{fmt, sync::Arc};

use retain_core::{BoxError, Json, JsonMap};
use serde::de::DeserializeOwned;

use super::{composed, error::ConfigError, loader::Loader, place::Place};
use crate::agents::{Agent, AgentCallbacks};

/// Makes an agent of its configuration.
pub(super) type MakeAgent =
    Arc<dyn Fn(CustomAgentConfig) -> Result<Arc<dyn Agent>, BoxError> + Send + Sync>;

/// The configuration of an agent whose class a program has registered: what all agents have, read
/// and built, and the rest as it stands in the file. See
/// [`ConfigRegistry::agent_class`](crate::ConfigRegistry::agent_class).
#[derive(Clone)]
#[non_exhaustive]
pub struct CustomAgentConfig {
    /// The agent's name.
    pub name: String,
    /// What it does; empty if the file does not say.
    pub description: String,
    /// The agents below it.
    pub sub_agents: Vec<Arc<dyn Agent>>,
    /// What runs before and after it.
    pub callbacks: AgentCallbacks,
    /// All other keys of the file.
    pub fields: JsonMap,
}

impl CustomAgentConfig {
    /// The other keys of the file as a type of yours. Let it `deny_unknown_fields`, and a key that is
    /// misspelt is an error.
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

/// The agent that `make` makes of the file.
pub(super) fn build(
    loader: &mut Loader<'_>,
    make: &MakeAgent,
    place: &Place<'_>,
) -> Result<Arc<dyn Agent>, ConfigError> {
    let common = composed::common(loader, &place.some_fields("an agent")?)?;
    let mut fields = JsonMap::new();
    for (key, value) in place.pairs("an agent")? {
        if !composed::is_common(key) {
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
