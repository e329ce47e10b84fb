//! Artifacts of a session. Names may contain slashes, so everything after `artifacts/` is one
//! parameter that is parsed from its end.

use axum::{
    extract::{Path, RawQuery, Request, State as Shares},
    http::{Method, StatusCode},
    response::Response,
};
use retain_core::{
    ArtifactKey, ArtifactVersion, Json, Part, SessionKey,
    adk::{ValueType, table},
};

use super::{
    answers::{json_response, null_response},
    apps::query_value,
    bodies,
    errors::AdkError,
    validate::Checker,
};
use crate::{
    guard::Scope,
    routes::{Access, Routes},
    services::Shared,
};

const ARTIFACTS: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts";
const UNNAMED: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/";
const ARTIFACT: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*artifact}";

pub(super) fn routes(routes: Routes) -> Routes {
    let (reads, writes) = (
        Access::Path(Scope::SessionsRead),
        Access::Path(Scope::SessionsWrite),
    );
    routes
        .add(Method::GET, ARTIFACTS, reads, list_names)
        .add(Method::POST, ARTIFACTS, writes, save)
        .add(Method::GET, UNNAMED, reads, get_unnamed)
        .add(Method::GET, ARTIFACT, reads, get)
        .add(Method::DELETE, ARTIFACT, writes, delete)
}

type SessionPath = Path<(String, String, String)>;
type ArtifactPath = Path<(String, String, String, String)>;

async fn list_names(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): SessionPath,
) -> Result<Response, AdkError> {
    let artifacts = &server.services.artifacts;
    let names = artifacts.list_artifact_keys(&app, &user, Some(&session));
    let names: Vec<Json> = names.await?.into_iter().map(Json::from).collect();
    Ok(json_response(Json::from(names).to_string()))
}

async fn save(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): SessionPath,
    request: Request,
) -> Result<Response, AdkError> {
    static BODY: ValueType = ValueType::Object(&table::SAVE_ARTIFACT_REQUEST);
    let body = bodies::read(request, &BODY).await?;
    let filename = body.required_text("filename")?;
    let artifact = body.part("artifact")?.unwrap_or_default();
    let key = ArtifactKey::in_session(&SessionKey::new(app, user, session), filename);
    let artifacts = &server.services.artifacts;
    let metadata = body.map("customMetadata");
    let version = artifacts.save_artifact(&key, artifact, metadata).await?;
    let saved = artifacts.get_artifact_version(&key, Some(version)).await?;
    match saved {
        Some(saved) => version_response(&saved),
        None => Err(AdkError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Artifact metadata unavailable",
        )),
    }
}

async fn delete(
    Shares(server): Shares<Shared>,
    Path((app, user, session, name)): ArtifactPath,
) -> Result<Response, AdkError> {
    let key = ArtifactKey::in_session(&SessionKey::new(app, user, session), name);
    server.services.artifacts.delete_artifact(&key).await?;
    Ok(null_response())
}

/// The part of an artifact that a path requests with its last segments.
#[derive(Debug, PartialEq, Eq)]
enum ArtifactResource<'a> {
    Artifact,
    Versions,
    AllMetadata,
    Version(&'a str),
    Metadata(&'a str),
}

/// Splits a path into the name and the requested resource. ADK's order decides ambiguous paths.
fn read_path(path: &str) -> (&str, ArtifactResource<'_>) {
    let versions = |text: &'_ str| text.strip_suffix("/versions").map(str::len);
    let numbered = |text: &str| {
        let (before, version) = text.rsplit_once('/')?;
        let name_len = versions(before)?;
        (!version.is_empty()).then_some((name_len, before.len() + 1, text.len()))
    };
    if let Some(before) = path.strip_suffix("/metadata") {
        if let Some((name, from, to)) = numbered(before) {
            return (&path[..name], ArtifactResource::Metadata(&path[from..to]));
        }
        if let Some(name) = versions(before) {
            return (&path[..name], ArtifactResource::AllMetadata);
        }
    }
    if let Some((name, from, to)) = numbered(path) {
        return (&path[..name], ArtifactResource::Version(&path[from..to]));
    }
    match versions(path) {
        Some(name) => (&path[..name], ArtifactResource::Versions),
        None => (path, ArtifactResource::Artifact),
    }
}

async fn get(
    Shares(server): Shares<Shared>,
    Path((app, user, session, path)): ArtifactPath,
    RawQuery(query): RawQuery,
) -> Result<Response, AdkError> {
    let (name, resource) = read_path(&path);
    let key = ArtifactKey::in_session(&SessionKey::new(app, user, session), name);
    let artifacts = &server.services.artifacts;
    match resource {
        ArtifactResource::Artifact => {
            let version = version_of_query(query.as_deref())?;
            load(&server, &key, version).await
        }
        ArtifactResource::Version(version) => load(&server, &key, read_version(version)?).await,
        ArtifactResource::Versions => {
            let versions = artifacts.list_versions(&key).await?;
            let versions: Vec<Json> = versions.into_iter().map(Json::from).collect();
            Ok(json_response(Json::from(versions).to_string()))
        }
        ArtifactResource::AllMetadata => {
            let versions = artifacts.list_artifact_versions(&key).await?;
            let texts: Result<Vec<String>, AdkError> = versions.iter().map(version_text).collect();
            Ok(json_response(format!("[{}]", texts?.join(","))))
        }
        ArtifactResource::Metadata(version) => {
            let found = match read_version(version)? {
                RequestedVersion::None => None,
                RequestedVersion::Latest => artifacts.get_artifact_version(&key, None).await?,
                RequestedVersion::Number(n) => {
                    artifacts.get_artifact_version(&key, Some(n)).await?
                }
            };
            let found = found.ok_or_else(|| AdkError::not_found("Artifact version not found"))?;
            version_response(&found)
        }
    }
}

/// Loads the artifact with the empty name, which ADK can save.
async fn get_unnamed(
    server: Shares<Shared>,
    Path((app, user, session)): SessionPath,
    query: RawQuery,
) -> Result<Response, AdkError> {
    get(server, Path((app, user, session, String::new())), query).await
}

/// The version that a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum RequestedVersion {
    Latest,
    Number(u64),
    /// A version that cannot exist, such as -1.
    None,
}

impl From<i128> for RequestedVersion {
    fn from(number: i128) -> RequestedVersion {
        u64::try_from(number).map_or(RequestedVersion::None, RequestedVersion::Number)
    }
}

/// Reads a version in a path: `latest`, or a number as Python's `int` reads it.
fn read_version(text: &str) -> Result<RequestedVersion, AdkError> {
    if text == "latest" {
        return Ok(RequestedVersion::Latest);
    }
    let digits = text.trim().replace('_', "");
    let number = digits.parse::<i128>().map(RequestedVersion::from);
    number.map_err(|_| AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid version ID"))
}

fn version_of_query(query: Option<&str>) -> Result<RequestedVersion, AdkError> {
    let Some(version) = query_value(query, "version") else {
        return Ok(RequestedVersion::Latest);
    };
    let mut checker = Checker::new("query");
    checker.enter("version");
    let number = checker.check(&ValueType::Int, &Json::from(version));
    let number = number.map_err(AdkError::Invalid)?;
    Ok(number
        .as_u64()
        .map_or(RequestedVersion::None, RequestedVersion::Number))
}

async fn load(
    server: &Shared,
    key: &ArtifactKey,
    version: RequestedVersion,
) -> Result<Response, AdkError> {
    let artifacts = &server.services.artifacts;
    let part: Option<Part> = match version {
        RequestedVersion::None => None,
        RequestedVersion::Latest => artifacts.load_artifact(key, None).await?,
        RequestedVersion::Number(n) => artifacts.load_artifact(key, Some(n)).await?,
    };
    let part = part.ok_or_else(|| AdkError::not_found("Artifact not found"))?;
    let text = part.to_json().map_err(|error| AdkError::internal(&error))?;
    Ok(json_response(text))
}

fn version_text(version: &ArtifactVersion) -> Result<String, AdkError> {
    version
        .to_json()
        .map_err(|error| AdkError::internal(&error))
}

fn version_response(version: &ArtifactVersion) -> Result<Response, AdkError> {
    version_text(version).map(json_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_path_is_parsed_from_its_end() {
        let cases = [
            ("a.txt", "a.txt", ArtifactResource::Artifact),
            ("d/a.txt", "d/a.txt", ArtifactResource::Artifact),
            ("d/a.txt/versions", "d/a.txt", ArtifactResource::Versions),
            (
                "d/a.txt/versions/3",
                "d/a.txt",
                ArtifactResource::Version("3"),
            ),
            (
                "d/a.txt/versions/latest",
                "d/a.txt",
                ArtifactResource::Version("latest"),
            ),
            ("a/versions/metadata", "a", ArtifactResource::AllMetadata),
            (
                "a/versions/3/metadata",
                "a",
                ArtifactResource::Metadata("3"),
            ),
            (
                "a/versions/1/versions/2",
                "a/versions/1",
                ArtifactResource::Version("2"),
            ),
            (
                "a/versions/versions/metadata",
                "a",
                ArtifactResource::Metadata("versions"),
            ),
            ("versions", "versions", ArtifactResource::Artifact),
            ("versions/1", "versions/1", ArtifactResource::Artifact),
            ("a/versions/", "a/versions/", ArtifactResource::Artifact),
            ("a/metadata", "a/metadata", ArtifactResource::Artifact),
        ];
        for (path, name, resource) in cases {
            assert_eq!(read_path(path), (name, resource), "{path}");
        }
    }

    #[test]
    fn artifact_version_is_parsed_as_in_python() {
        assert_eq!(read_version("latest").ok(), Some(RequestedVersion::Latest));
        assert_eq!(read_version("12").ok(), Some(RequestedVersion::Number(12)));
        assert_eq!(read_version("-1").ok(), Some(RequestedVersion::None));
        assert!(read_version("x").is_err());
        assert!(read_version("1.0").is_err());
    }
}
