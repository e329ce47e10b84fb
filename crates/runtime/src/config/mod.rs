//! Agents from ADK's YAML configuration files.
//!
//! `loader` reads files and resolves references between them. `yaml` parses values with their line
//! numbers and `value` reads them as expected types.
//!
//! `llm_agent`, `composed`, `custom_agent` and `tools` build agents and tools from them;
//! [`ConfigRegistry`] and the built-in tables resolve names. [`AgentsDir`] is a folder of such
//! agents.

mod agents_dir;
mod composed;
mod custom_agent;
mod error;
mod files;
mod llm_agent;
mod loader;
mod model_settings;
mod nearest;
mod registry;
mod scalar;
mod schemas;
mod setting_keys;
mod tools;
mod value;
mod yaml;

use std::{path::Path, sync::Arc};

pub use agents_dir::{AgentsDir, ReloadedAgent};
pub use custom_agent::CustomAgentConfig;
pub use error::ConfigError;
pub use registry::ConfigRegistry;

use retain_core::Json;

use crate::agents::Agent;

/// Parses a YAML text into JSON, as ADK's YAML parser does.
pub fn yaml_to_json(text: &str) -> Result<Json, ConfigError> {
    Ok(yaml::parse(Path::new("the text"), text)?.to_json())
}

/// ADK's agent configuration: a YAML file that describes an agent, and the files it refers to.
///
/// ```
/// use retain_runtime::{AgentConfig, ConfigRegistry};
/// let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("root_agent.yaml");
/// let yaml = "name: clerk\nmodel: offline\ninstruction: Help.\ntools:\n  - name: load_memory\n";
/// std::fs::write(&file, yaml).unwrap();
///
/// let agent = AgentConfig::load(&file, &ConfigRegistry::new()).unwrap();
/// assert_eq!(agent.name(), "clerk");
///
/// std::fs::write(&file, yaml.replace("tools", "tool")).unwrap();
/// let error = AgentConfig::load(&file, &ConfigRegistry::new()).unwrap_err();
/// let expected = "root_agent.yaml:4: tool: is not a key of an LlmAgent; did you mean `tools`?";
/// assert!(error.to_string().ends_with(expected), "{error}");
/// ```
#[derive(Debug)]
pub struct AgentConfig;

impl AgentConfig {
    /// Loads the agent that the file at `path` describes.
    pub fn load(
        path: impl AsRef<Path>,
        registry: &ConfigRegistry,
    ) -> Result<Arc<dyn Agent>, ConfigError> {
        let (agent, _) = loader::load(path.as_ref(), registry)?;
        Ok(agent)
    }
}
