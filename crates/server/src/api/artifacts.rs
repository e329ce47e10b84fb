//! Artifacts of a user and of a session. The name is a query parameter because it may contain
//! slashes.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{ArtifactKey, ArtifactVersion, JsonMap, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Api,
    body::{JsonBody, no_content, ok},
    operation::Operation,
    path::{SessionPath, UserPath},
    problem::Problem,
    query::{INTEGER_MAX, Kind, Param, Params},
    shapes::{ArtifactVersionObject, FreeObject, PartObject},
};
use crate::{guard::Scope, routes::Access, services::Shared};

const NAME: Param = Param::new("name", Kind::Text, "The file name.").required();
const VERSION: Param = Param::new(
    "version",
    Kind::Integer(0, INTEGER_MAX),
    "The version (default: the newest).",
);
const ONE: &[Param] = &[NAME];
const ONE_VERSION: &[Param] = &[NAME, VERSION];

/// Adds the routes of one kind of owner: four paths below a user or below a session.
macro_rules! routes_of {
    ($api:expr, $base:literal, $of:ident, $owner:literal) => {{
        let read = Access::Path(Scope::SessionsRead);
        let write = Access::Path(Scope::SessionsWrite);
        let operation = |method, path, id, summary| Operation::new(method, path, id, summary);
        $api.add(
            operation(
                Method::GET,
                $base,
                concat!("list", $owner, "Artifacts"),
                "List the names of the artifacts visible to this owner",
            )
            .answers::<ArtifactNamesBody>(200),
            read,
            |State(server), of: $of, params| async move { list(server, of.into(), params).await },
        )
        .add(
            operation(
                Method::POST,
                $base,
                concat!("save", $owner, "Artifact"),
                "Save a new version",
            )
            .takes::<NewArtifact>()
            .answers::<ArtifactVersionObject>(200)
            .fails(&[404, 422]),
            write,
            |State(server), of: $of, params, body| async move {
                save(server, of.into(), params, body).await
            },
        )
        .add(
            operation(
                Method::DELETE,
                $base,
                concat!("delete", $owner, "Artifact"),
                "Delete all versions; succeeds if there are none",
            )
            .query(ONE),
            write,
            |State(server), of: $of, params| async move { delete(server, of.into(), params).await },
        )
        .add(
            operation(
                Method::GET,
                concat!($base, "/load"),
                concat!("load", $owner, "Artifact"),
                "Load a version",
            )
            .query(ONE_VERSION)
            .answers::<PartObject>(200)
            .fails(&[404, 422]),
            read,
            |State(server), of: $of, params| async move { load(server, of.into(), params).await },
        )
        .add(
            operation(
                Method::GET,
                concat!($base, "/versions"),
                concat!("list", $owner, "ArtifactVersions"),
                "Read the metadata of all versions",
            )
            .query(ONE)
            .answers::<ArtifactVersionsBody>(200),
            read,
            |State(server), of: $of, params| async move {
                versions(server, of.into(), params).await
            },
        )
        .add(
            operation(
                Method::GET,
                concat!($base, "/version"),
                concat!("get", $owner, "ArtifactVersion"),
                "Read the metadata of a version",
            )
            .query(ONE_VERSION)
            .answers::<ArtifactVersionObject>(200)
            .fails(&[404]),
            read,
            |State(server), of: $of, params| async move {
                version(server, of.into(), params).await
            },
        )
    }};
}

pub(super) fn routes(api: Api) -> Api {
    let api = routes_of!(
        api,
        "/api/v1/apps/{app}/users/{user}/artifacts",
        UserPath,
        "User"
    );
    routes_of!(
        api,
        "/api/v1/apps/{app}/users/{user}/sessions/{session}/artifacts",
        SessionPath,
        "Session"
    )
}

/// The owner of an artifact.
struct ArtifactOwner {
    app: String,
    user: String,
    session: Option<String>,
}

impl From<UserPath> for ArtifactOwner {
    fn from(UserPath { app, user }: UserPath) -> ArtifactOwner {
        ArtifactOwner {
            app,
            user,
            session: None,
        }
    }
}

impl From<SessionPath> for ArtifactOwner {
    fn from(SessionPath(key): SessionPath) -> ArtifactOwner {
        ArtifactOwner {
            app: key.app,
            user: key.user,
            session: Some(key.id),
        }
    }
}

impl ArtifactOwner {
    fn key(self, filename: impl Into<String>) -> ArtifactKey {
        ArtifactKey {
            app_name: self.app,
            user_id: self.user,
            session_id: self.session,
            filename: filename.into(),
        }
    }

    fn key_from(self, params: &Params) -> ArtifactKey {
        self.key(params.text(&NAME).unwrap_or_default())
    }
}

/// The names of artifacts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ArtifactNames")]
struct ArtifactNamesBody {
    /// The names, sorted.
    names: Vec<String>,
}

/// An artifact version to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewArtifact {
    /// The file name. An artifact whose name starts with `user:` belongs to the user.
    filename: String,
    /// The content.
    #[schemars(with = "PartObject")]
    artifact: Part,
    /// Custom metadata.
    #[schemars(with = "Option<FreeObject>")]
    custom_metadata: Option<JsonMap>,
}

/// The versions of an artifact.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ArtifactVersions")]
struct ArtifactVersionsBody {
    /// The versions in ascending order.
    #[schemars(with = "Vec<ArtifactVersionObject>")]
    versions: Vec<ArtifactVersion>,
}

fn not_found(key: &ArtifactKey) -> Problem {
    let detail = format!("artifact {:?} or its version not found", key.filename);
    Problem::not_found("artifact_not_found", detail)
}

async fn list(server: Shared, owner: ArtifactOwner, params: Params) -> Result<Response, Problem> {
    params.only(&[])?;
    let artifacts = &server.services.artifacts;
    let names = artifacts.list_artifact_keys(&owner.app, &owner.user, owner.session.as_deref());
    ok(&ArtifactNamesBody {
        names: names.await?,
    })
}

async fn save(
    server: Shared,
    owner: ArtifactOwner,
    params: Params,
    JsonBody(new): JsonBody<NewArtifact>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let key = owner.key(new.filename);
    let artifacts = &server.services.artifacts;
    let version = artifacts.save_artifact(&key, new.artifact, new.custom_metadata);
    let version = version.await?;
    let saved = artifacts.get_artifact_version(&key, Some(version)).await?;
    // Another request may have deleted the version meanwhile.
    ok(&saved.ok_or_else(|| not_found(&key))?)
}

async fn delete(server: Shared, owner: ArtifactOwner, params: Params) -> Result<Response, Problem> {
    let key = owner.key_from(&params.only(ONE)?);
    server.services.artifacts.delete_artifact(&key).await?;
    Ok(no_content())
}

async fn load(server: Shared, owner: ArtifactOwner, params: Params) -> Result<Response, Problem> {
    let params = params.only(ONE_VERSION)?;
    let (key, version) = (owner.key_from(&params), params.integer(&VERSION)?);
    let part = server
        .services
        .artifacts
        .load_artifact(&key, version)
        .await?;
    ok(&part.ok_or_else(|| not_found(&key))?)
}

async fn versions(
    server: Shared,
    owner: ArtifactOwner,
    params: Params,
) -> Result<Response, Problem> {
    let key = owner.key_from(&params.only(ONE)?);
    let versions = server.services.artifacts.list_artifact_versions(&key);
    ok(&ArtifactVersionsBody {
        versions: versions.await?,
    })
}

async fn version(
    server: Shared,
    owner: ArtifactOwner,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(ONE_VERSION)?;
    let (key, version) = (owner.key_from(&params), params.integer(&VERSION)?);
    let found = server
        .services
        .artifacts
        .get_artifact_version(&key, version);
    ok(&found.await?.ok_or_else(|| not_found(&key))?)
}
