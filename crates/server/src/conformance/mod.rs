//! Replay recorded runs for `adk conformance test`, which drives a server over HTTP and compares
//! its behavior.
//!
//! The client puts the path of the recordings into the session's state. A public server must not
//! read files that a client names: replay needs `--conformance`, and only files with the
//! recordings' names are read.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use retain_core::{BoxError, Json, State};
use retain_replay::{Recordings, Replay, Script, Scripts};
use retain_runtime::{ConfigRegistry, Model, ModelRegistry, Plugin};

/// The state key in which a client names the recording to replay.
const CONFIG: &str = "_adk_replay_config";

/// Maximum size of a recording file.
const FILE_MAX: u64 = 64 << 20;

/// What apps need for replay.
#[derive(Debug, Clone)]
pub struct Conformance(Replay);

impl Default for Conformance {
    fn default() -> Conformance {
        Conformance(Replay::new(Files))
    }
}

impl Conformance {
    /// A plugin for all apps: starts and ends replays, and answers for tools.
    pub fn plugin(&self) -> Arc<dyn Plugin> {
        self.0.plugin()
    }

    /// Accept any model name in agent configurations. Runs that are not replayed use the registered
    /// models.
    pub fn registry(&self, registry: ConfigRegistry, models: ModelRegistry) -> ConfigRegistry {
        let replay = self.0.clone();
        registry.model_of(move |_, name| Ok(replay.model(name, models.model(name).ok())))
    }

    /// A model of that name. Runs that are not replayed use `otherwise`.
    pub fn model(&self, name: &str, otherwise: Option<Arc<dyn Model>>) -> Arc<dyn Model> {
        self.0.model(name, otherwise)
    }
}

/// Read recordings from the path in the state.
#[derive(Debug)]
struct Files;

#[async_trait]
impl Scripts for Files {
    async fn script(&self, state: &State) -> Result<Option<Script>, BoxError> {
        let Some((file, message)) = wanted(state)? else {
            return Ok(None);
        };
        let read = tokio::task::spawn_blocking(move || read(&file));
        Ok(Some(Script {
            recordings: read.await??,
            message,
        }))
    }
}

/// The file and the message to replay.
fn wanted(state: &State) -> Result<Option<(PathBuf, i64)>, BoxError> {
    let Some(config) = state.get(CONFIG).filter(|config| !config.is_null()) else {
        return Ok(None);
    };
    // As in ADK, nothing is replayed without a folder and a message.
    let (Some(dir), Some(message)) = (
        config["dir"].as_str().filter(|dir| !dir.is_empty()),
        config["user_message_index"].as_i64(),
    ) else {
        return Ok(None);
    };
    let file = match &config["streaming_mode"] {
        mode if *mode == "none" => "generated-recordings.yaml",
        mode if *mode == "sse" => "generated-recordings-sse.yaml",
        Json::Null => return Err(format!("{CONFIG} has no streaming_mode").into()),
        mode => return Err(format!("unsupported streaming mode: {mode}").into()),
    };
    Ok(Some((Path::new(dir).join(file), message)))
}

fn read(file: &Path) -> Result<Recordings, BoxError> {
    let told = |problem: BoxError| format!("{}: {problem}", file.display());
    let size = std::fs::metadata(file)
        .map_err(|error| told(error.into()))?
        .len();
    if size > FILE_MAX {
        return Err(told(format!("is larger than {FILE_MAX} bytes").into()).into());
    }
    let text = std::fs::read_to_string(file).map_err(|error| told(error.into()))?;
    Ok(Recordings::from_yaml(&text).map_err(told)?)
}
