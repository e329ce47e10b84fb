//! The files that agents are read from, for the web UI's builder. They are shown, and not written:
//! what is in them is code, as far as agents are concerned.

use std::path::{Path, PathBuf};

use axum::{
    extract::{Path as UrlPath, RawQuery, State as Shares},
    http::{HeaderValue, Method, header},
    response::{IntoResponse as _, Response},
};

use super::{
    super::{apps::query_value, errors::AdkError},
    CHANGES, IsDev, json,
    local::Local,
    not_supported,
    ui::contained,
};
use crate::{routes::Routes, services::Shared};

const ROOT_AGENT: &str = "root_agent.yaml";

/// How large a file may be that is shown.
const FILE_MAX: u64 = 1 << 20;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .add(Method::GET, "/dev/apps/{app}/builder", CHANGES, show)
        .add(Method::POST, "/dev/apps/{app}/builder/save", CHANGES, save)
        .add(
            Method::POST,
            "/dev/apps/{app}/builder/cancel",
            CHANGES,
            cancel,
        )
        .add(Method::GET, "/builder/app/{app}", CHANGES, show)
        .add(Method::POST, "/builder/app/{app}/cancel", CHANGES, cancel)
        .add(Method::POST, "/builder/save", CHANGES, save)
}

/// A YAML file of an app; nothing if there is none.
async fn show(
    _: IsDev,
    _: Local,
    Shares(server): Shares<Shared>,
    UrlPath(app): UrlPath<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, AdkError> {
    let wanted = query_value(query.as_deref(), "file_path");
    let wanted = wanted.filter(|name| !name.is_empty());
    let wanted = wanted.unwrap_or_else(|| ROOT_AGENT.to_owned());
    let folder = server.apps.folder_of(&app);
    let read = tokio::task::spawn_blocking(move || {
        let folder = folder?;
        let file = yaml_inside(&folder, &wanted)?;
        read(&contained(&folder, &file).ok()?)
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

/// Where a YAML file of the folder is, if its name leads to nothing outside of it.
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

async fn save(_: IsDev, _: Local) -> AdkError {
    not_supported("Writing agents")
}

/// There is never anything half written to throw away.
async fn cancel(_: IsDev, _: Local) -> Response {
    json(true)
}
