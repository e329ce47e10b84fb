//! The YAML files of agents, for the web UI's builder. Read-only, because these files are code.

use std::path::{Path, PathBuf};

use axum::{
    extract::{Path as UrlPath, RawQuery, State as Shares},
    http::{HeaderValue, Method, header},
    response::{IntoResponse as _, Response},
};

use super::{
    super::{apps::query_value, errors::AdkError},
    DevOnly, EDIT, json,
    local::LocalOnly,
    not_supported,
    ui::resolve_inside,
};
use crate::{routes::Routes, services::Shared};

const ROOT_AGENT: &str = "root_agent.yaml";

/// Maximum size of a file that is shown.
const FILE_MAX: u64 = 1 << 20;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .add(Method::GET, "/dev/apps/{app}/builder", EDIT, show)
        .add(Method::POST, "/dev/apps/{app}/builder/save", EDIT, save)
        .add(Method::POST, "/dev/apps/{app}/builder/cancel", EDIT, cancel)
        .add(Method::GET, "/builder/app/{app}", EDIT, show)
        .add(Method::POST, "/builder/app/{app}/cancel", EDIT, cancel)
        .add(Method::POST, "/builder/save", EDIT, save)
}

/// Returns a YAML file of an app; an empty body if it does not exist.
async fn show(
    _: DevOnly,
    _: LocalOnly,
    Shares(server): Shares<Shared>,
    UrlPath(app): UrlPath<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, AdkError> {
    let file_name = query_value(query.as_deref(), "file_path");
    let file_name = file_name.filter(|name| !name.is_empty());
    let file_name = file_name.unwrap_or_else(|| ROOT_AGENT.to_owned());
    let folder = server.apps.folder_of(&app);
    let read = tokio::task::spawn_blocking(move || {
        let folder = folder?;
        let file = yaml_inside(&folder, &file_name)?;
        read(&resolve_inside(&folder, &file).ok()?)
    });
    let text = read.await.map_err(|error| AdkError::internal(&error))?;
    let kind = match &text {
        Some(_) => "application/x-yaml",
        None => "text/plain; charset=utf-8",
    };
    let mut response = text.unwrap_or_default().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Returns the path of a YAML file; `None` if it leaves the folder.
fn yaml_inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_plain = |part: &str| {
        let has_odd = part.contains(['\\', ':', '\0']);
        !part.is_empty() && !part.starts_with('.') && !has_odd
    };
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    (is_yaml && name.split('/').all(is_plain)).then(|| folder.join(name))
}

fn read(file: &Path) -> Option<String> {
    let about = std::fs::metadata(file).ok()?;
    let is_small = about.is_file() && about.len() <= FILE_MAX;
    is_small.then(|| std::fs::read_to_string(file).ok())?
}

async fn save(_: DevOnly, _: LocalOnly) -> AdkError {
    not_supported("Writing agent files")
}

/// Does nothing: there are never unsaved changes to discard.
async fn cancel(_: DevOnly, _: LocalOnly) -> Response {
    json(true)
}
