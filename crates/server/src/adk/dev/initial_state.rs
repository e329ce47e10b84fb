//! The initial state of new sessions: `initial_state.json` in the app's folder, as in `adk web`. It
//! is read for every new session, so that edits apply without a restart.

use std::{path::Path, sync::Arc};

use retain_core::{Json, JsonMap};

use super::ui::resolve_inside;
use crate::services::Shared;

const FILE: &str = "initial_state.json";

/// Maximum size of the file.
const FILE_MAX: u64 = 1 << 20;

/// Adds the file's keys to the given state, if the server has developer tools. Keys of the given
/// state win. As in ADK, an unreadable file is skipped with a log line.
pub(in crate::adk) async fn with_initial_state(
    server: &Shared,
    app: &str,
    given: JsonMap,
) -> JsonMap {
    let is_dev = server.apps.dev_settings().is_some();
    let Some(folder) = server.apps.folder_of(app).filter(|_| is_dev) else {
        return given;
    };
    let read = tokio::task::spawn_blocking(move || read(&folder)).await;
    let read = read.unwrap_or_else(|error| Err(error.to_string()));
    let mut state = read.unwrap_or_else(|reason| {
        tracing::warn!(app, reason, "ignoring {FILE}");
        JsonMap::new()
    });
    state.extend(given);
    state
}

fn read(folder: &Path) -> Result<JsonMap, String> {
    let file = folder.join(FILE);
    if !file.is_file() {
        return Ok(JsonMap::new());
    }
    // A symbolic link could expose another file to a client that creates a session.
    let file = resolve_inside(folder, &file).map_err(|_| "it is outside the app's folder")?;
    let size = std::fs::metadata(&file).map_err(|e| e.to_string())?.len();
    if size > FILE_MAX {
        return Err(format!("it is larger than {FILE_MAX} bytes"));
    }
    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
    match Json::parse(&text).map_err(|e| e.to_string())? {
        Json::Object(state) => Ok(Arc::unwrap_or_clone(state)),
        _ => Err("it is not a JSON object".to_owned()),
    }
}
