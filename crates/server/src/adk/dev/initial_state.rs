//! What a new session of an app begins with: `initial_state.json` beside the agent, as `adk web` has
//! it. It is read for every session, so that who edits it need not start the server again.

use std::{path::Path, sync::Arc};

use retain_core::{Json, JsonMap};

use super::ui::contained;
use crate::services::Shared;

const FILE: &str = "initial_state.json";

/// How large the file may be.
const FILE_MAX: u64 = 1 << 20;

/// The state with the file's keys below what was given. Only where the server is one for developers;
/// a file that cannot be read is passed over, as in ADK, and the log says so.
pub(in crate::adk) async fn seeded(server: &Shared, app: &str, given: JsonMap) -> JsonMap {
    let is_dev = server.apps.dev_settings().is_some();
    let Some(folder) = server.apps.folder_of(app).filter(|_| is_dev) else {
        return given;
    };
    let read = tokio::task::spawn_blocking(move || read(&folder)).await;
    let read = read.unwrap_or_else(|error| Err(error.to_string()));
    let mut state = read.unwrap_or_else(|reason| {
        tracing::warn!(app, reason, "{FILE} is passed over");
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
    // A link that leads elsewhere would show what is there to whoever makes a session.
    let file = contained(folder, &file).map_err(|_| "it is not in the app's folder")?;
    let size = std::fs::metadata(&file).map_err(|e| e.to_string())?.len();
    if size > FILE_MAX {
        return Err(format!("it is larger than {FILE_MAX} bytes"));
    }
    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
    match Json::parse(&text).map_err(|e| e.to_string())? {
        Json::Object(state) => Ok(Arc::unwrap_or_clone(state)),
        _ => Err("it is no JSON object".to_owned()),
    }
}
