//! Agents from files: ADK's YAML configurations, read into what a runner runs.
//!
//! `loader` reads files and follows what they name; `yaml` gives values with their lines, `place`
//! reads them as what they should be; `llm_agent`, `composed`, `custom_agent` and `tools` build from them what
//! [`ConfigRegistry`] and the built-in names stand for. [`AgentsDir`] is a folder of such agents.

mod agents_dir;
mod composed;
mod custom_agent;
mod error;
mod files;
mod llm_agent;
mod loader;
mod model_settings;
mod nearest;
mod place;
mod registry;
mod scalar;
mod schemas;
mod setting_keys;
mod tools;
mod yaml;

use std::{path::Path, sync::Arc};

pub use agents_dir::{AgentsDir, Reloaded};
pub use custom_agent::CustomAgentConfig;
pub use error::ConfigError;
pub use registry::ConfigRegistry;

use retain_core::Json;

use crate::agents::Agent;

/// The values of a YAML text, as ADK's reader takes them.
pub(crate) fn yaml_to_json(text: &str) -> Result<Json, ConfigError> {
    Ok(yaml::parse(Path::new("the text"), text)?.to_json())
}

/// ADK's agent configuration: a YAML file that describes an agent, and the files that it names.
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
/// let told = "root_agent.yaml:4: tool: is not a key of an LlmAgent; did you mean `tools`?";
/// assert!(error.to_string().ends_with(told), "{error}");
/// ```
#[derive(Debug)]
pub struct AgentConfig;

impl AgentConfig {
    /// The agent that `path` describes.
    pub fn load(
        path: impl AsRef<Path>,
        registry: &ConfigRegistry,
    ) -> Result<Arc<dyn Agent>, ConfigError> {
        let (agent, _) = loader::load(path.as_ref(), registry)?;
        Ok(agent)
    }
}
