//! Creates folders with configurations, and loads them.

use std::{fs, sync::Arc};

use retain_runtime::{
    Agent, AgentConfig, ConfigError, ConfigRegistry, ModelRegistry, ScriptedModel,
};
use tempfile::TempDir;

/// Creates a registry that resolves model names with the prefix `scripted` or `gemini` to models
/// without replies.
pub(crate) fn registry() -> ConfigRegistry {
    let mut models = ModelRegistry::default();
    models.register("scripted", |name| Ok(Arc::new(ScriptedModel::new(name))));
    models.register("gemini", |name| Ok(Arc::new(ScriptedModel::new(name))));
    ConfigRegistry::new().with_models(models)
}

/// Creates a folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = retain_testkit::scratch::folder();
    for (name, text) in files {
        write(&folder, name, text);
    }
    folder
}

pub(crate) fn write(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    let parent = path.parent().expect("a file is in a folder");
    fs::create_dir_all(parent).expect("a new folder");
    fs::write(path, text).expect("a new file");
}

pub(crate) fn load(
    folder: &TempDir,
    registry: &ConfigRegistry,
) -> Result<Arc<dyn Agent>, ConfigError> {
    AgentConfig::load(folder.path().join("root_agent.yaml"), registry)
}

/// Returns the text of the error, with paths relative to the folder.
pub(crate) fn error_text(folder: &TempDir, error: &ConfigError) -> String {
    let prefix = format!("{}/", folder.path().display());
    error.to_string().replace(&prefix, "")
}
