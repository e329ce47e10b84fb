//! The files of the web UI, from a folder.

use std::{
    io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use axum::{
    extract::Path as UrlPath,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use retain_core::{Json, JsonMap};

use super::{super::errors::AdkError, DevOnly, json};
use crate::routes::{Access, Routes};

const RUNTIME_CONFIG: &str = "/dev-ui/assets/config/runtime-config.json";

/// Load scripts only from this server, and fonts and icons also from Google. The UI is an Angular
/// application with inline scripts, inline styles and WebAssembly.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; \
     script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; \
     style-src 'self' 'unsafe-inline' https://fonts.googleapis.com; \
     font-src 'self' data: https://fonts.gstatic.com; \
     img-src 'self' data: blob: https:; media-src 'self' data: blob:; \
     connect-src 'self' data: blob: ws: wss:; worker-src 'self' blob:; \
     frame-src 'self' data: blob:; object-src 'none'; base-uri 'self'; frame-ancestors 'self'";

pub(super) fn routes(routes: Routes) -> Routes {
    let everybody = Access::Public;
    routes
        .add(Method::GET, "/", everybody, redirect_to_ui)
        .add(Method::GET, "/dev-ui", everybody, redirect_to_ui)
        .add(Method::GET, "/dev-ui/", everybody, index)
        .add(Method::GET, "/dev-ui/config", everybody, config)
        .add(Method::GET, RUNTIME_CONFIG, everybody, runtime_config)
        .add(Method::GET, "/dev-ui/{*file}", everybody, file)
}

fn not_found() -> AdkError {
    AdkError::not_found("Not Found")
}

/// Returns the folder of the UI's files; 404 if none is set.
fn folder(dev: &DevOnly) -> Result<PathBuf, AdkError> {
    dev.0.ui_dir().map(Path::to_owned).ok_or_else(not_found)
}

async fn redirect_to_ui(dev: DevOnly) -> Result<Response, AdkError> {
    folder(&dev)?;
    let to = [(header::LOCATION, "/dev-ui/")];
    Ok((StatusCode::TEMPORARY_REDIRECT, to).into_response())
}

async fn index(dev: DevOnly, headers: HeaderMap) -> Result<Response, AdkError> {
    serve_file(folder(&dev)?, "index.html", &headers).await
}

async fn file(
    dev: DevOnly,
    UrlPath(name): UrlPath<String>,
    headers: HeaderMap,
) -> Result<Response, AdkError> {
    serve_file(folder(&dev)?, &name, &headers).await
}

/// Returns the configuration of the UI. An empty `backendUrl` means the server that the page came
/// from.
async fn runtime_config(dev: DevOnly) -> Result<Response, AdkError> {
    folder(&dev)?;
    let config = JsonMap::from([("backendUrl", Json::from("")), ("telemetry", false.into())]);
    let mut response = json(config);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn config(dev: DevOnly) -> Result<Response, AdkError> {
    folder(&dev)?;
    let none = [("logo_text", Json::Null), ("logo_image_url", Json::Null)];
    Ok(json(JsonMap::from(none)))
}

/// Returns a file of the folder, or 304 if the client's copy is current.
async fn serve_file(
    folder: PathBuf,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response, AdkError> {
    let Some(path) = path_inside(&folder, name) else {
        return Err(not_found());
    };
    let client_tag = headers.get(header::IF_NONE_MATCH).cloned();
    let read = tokio::task::spawn_blocking(move || read(&folder, &path, client_tag.as_ref()));
    let found = read.await.map_err(|error| AdkError::internal(&error))?;
    let (tag, content) = match found {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(error = ?error.to_string(), "failed to read a file of the web UI");
            return Ok(missing_file(name));
        }
    };
    let mut response = match content {
        Some(content) => content.into_response(),
        None => StatusCode::NOT_MODIFIED.into_response(),
    };
    let headers = response.headers_mut();
    let own = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in own {
        let name: HeaderName = name;
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Returns a 404 with the content type of the requested file, so that the browser reports "not
/// found" rather than a wrong type.
fn missing_file(name: &str) -> Response {
    let kind = [(header::CONTENT_TYPE, content_type(name))];
    (StatusCode::NOT_FOUND, kind).into_response()
}

/// Returns the path of a file; `None` if it leaves the folder.
fn path_inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_plain = |part: &str| {
        let has_odd = part.contains(['\\', ':', '\0']);
        !part.is_empty() && !part.starts_with('.') && !has_odd
    };
    name.split('/').all(is_plain).then(|| {
        name.split('/')
            .fold(folder.to_owned(), |to, part| to.join(part))
    })
}

/// Resolves symbolic links, and fails if the target is hidden or outside the folder.
pub(super) fn resolve_inside(folder: &Path, file: &Path) -> io::Result<PathBuf> {
    let (folder, file) = (folder.canonicalize()?, file.canonicalize()?);
    let is_shown = file.strip_prefix(&folder).is_ok_and(|inside| {
        let mut parts = inside.iter().map(|part| part.as_encoded_bytes());
        !parts.any(|part| part.starts_with(b"."))
    });
    match is_shown {
        true => Ok(file),
        false => Err(io::Error::other("is hidden or outside its folder")),
    }
}

/// The ETag of a file, and its content unless the client has it.
type UiFile = (String, Option<Vec<u8>>);

/// Reads a file and its ETag. The content is omitted if the client's copy has this ETag.
fn read(folder: &Path, path: &Path, client_tag: Option<&HeaderValue>) -> io::Result<UiFile> {
    let path = resolve_inside(folder, path)?;
    let about = std::fs::metadata(&path)?;
    if !about.is_file() {
        return Err(io::Error::other("is not a file"));
    }
    let changed = about.modified()?.duration_since(UNIX_EPOCH);
    let changed = changed.map_or(0, |since| since.as_micros());
    let tag = format!("\"{:x}-{changed:x}\"", about.len());
    match client_tag.is_some_and(|client_tag| client_tag.as_bytes() == tag.as_bytes()) {
        true => Ok((tag, None)),
        false => Ok((tag, Some(std::fs::read(path)?))),
    }
}

fn content_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_outside_the_folder_is_not_served() {
        let folder = Path::new("ui");
        assert_eq!(
            path_inside(folder, "assets/a.js"),
            Some(folder.join("assets").join("a.js"))
        );
        for name in [
            "",
            "..",
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a//b",
            "a/",
            ".env",
            "a/.git/config",
            "a\\..\\b",
            "C:/x",
            "C:x",
            "a\0b",
            "./a",
            "a/.",
        ] {
            assert_eq!(path_inside(folder, name), None, "{name:?}");
        }
    }
}
