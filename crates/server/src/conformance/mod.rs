//! Replay recorded runs for `adk conformance test`, which sends requests to a server and compares
//! the responses with recordings.
//!
//! The client puts the path of the recordings into the session's state. A public server must not
//! read files that a client names, so replay requires `--conformance`, and reads only files with
//! the names of recordings.

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

/// The replay of recorded runs: a plugin and models for the apps of a server.
#[derive(Debug, Clone)]
pub struct Conformance(Replay);

impl Default for Conformance {
    fn default() -> Conformance {
        Conformance(Replay::new(RecordingFiles))
    }
}

impl Conformance {
    /// Returns the plugin that starts and ends replays and returns the recorded results of tools.
    /// Every app needs it.
    pub fn plugin(&self) -> Arc<dyn Plugin> {
        self.0.plugin()
    }

    /// Accepts any model name in agent configurations. Runs that are not replayed use the
    /// registered models.
    pub fn registry(&self, registry: ConfigRegistry, models: ModelRegistry) -> ConfigRegistry {
        let replay = self.0.clone();
        registry.with_model_resolver(move |_, name| Ok(replay.model(name, models.model(name).ok())))
    }

    /// Creates a model with this name. Runs that are not replayed use `otherwise`.
    pub fn model(&self, name: &str, otherwise: Option<Arc<dyn Model>>) -> Arc<dyn Model> {
        self.0.model(name, otherwise)
    }
}

/// Reads recordings from the folder that the session's state names.
#[derive(Debug)]
struct RecordingFiles;

#[async_trait]
impl Scripts for RecordingFiles {
    async fn script(&self, state: &State) -> Result<Option<Script>, BoxError> {
        let Some((file, message)) = requested_replay(state)? else {
            return Ok(None);
        };
        let read = tokio::task::spawn_blocking(move || read(&file));
        Ok(Some(Script {
            recordings: read.await??,
            message,
        }))
    }
}

/// Returns the file and the message to replay.
fn requested_replay(state: &State) -> Result<Option<(PathBuf, i64)>, BoxError> {
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
        Json::Null => {
            let reason = format!("{CONFIG} has no streaming_mode; expected \"none\" or \"sse\"");
            return Err(reason.into());
        }
        mode => {
            let reason =
                format!("unsupported streaming mode: {mode}; expected \"none\" or \"sse\"");
            return Err(reason.into());
        }
    };
    Ok(Some((Path::new(dir).join(file), message)))
}

fn read(file: &Path) -> Result<Recordings, BoxError> {
    let with_path = |problem: BoxError| format!("{}: {problem}", file.display());
    let size = std::fs::metadata(file)
        .map_err(|error| with_path(error.into()))?
        .len();
    if size > FILE_MAX {
        return Err(with_path(format!("the file is larger than {FILE_MAX} bytes").into()).into());
    }
    let text = std::fs::read_to_string(file).map_err(|error| with_path(error.into()))?;
    Ok(Recordings::from_yaml(&text).map_err(with_path)?)
}
