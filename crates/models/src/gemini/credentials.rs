//! Credentials for Vertex AI: a service account, a user, the machine's account, or an access token.

use std::{fmt, path::Path, path::PathBuf};

use retain_core::Json;
use retain_runtime::BuildError;

use crate::Secret;

/// The variable in which Google's tools name the credentials file.
pub(super) const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// Credentials for Vertex AI.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum GoogleCredentials {
    /// An access token that the caller manages.
    AccessToken(Secret),
    /// A service account with its key.
    ServiceAccount(ServiceAccount),
    /// A user who logged in with `gcloud auth application-default login`.
    User(UserCredentials),
    /// The machine's service account, provided by the metadata server at this host.
    MetadataServer {
        /// The host name, by default `metadata.google.internal`.
        host: String,
    },
}

/// The key of a service account.
#[derive(Clone)]
pub struct ServiceAccount {
    pub(super) email: String,
    pub(super) key_id: Option<String>,
    pub(super) private_key: Secret,
    pub(super) token_uri: String,
    pub(super) project: Option<String>,
}

/// Credentials that `gcloud` stores for a logged-in user.
#[derive(Clone)]
pub struct UserCredentials {
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) refresh_token: Secret,
    pub(super) token_uri: String,
    pub(super) quota_project: Option<String>,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServiceAccount").field(&self.email).finish()
    }
}

impl fmt::Debug for UserCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCredentials")
    }
}

/// The default token endpoint.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const METADATA_HOST: &str = "metadata.google.internal";

impl GoogleCredentials {
    /// Finds credentials where Google's own tools do: the file that
    /// `GOOGLE_APPLICATION_CREDENTIALS` names, then the `gcloud` file, then the metadata server.
    pub fn find(env: &dyn Fn(&str) -> Option<String>) -> Result<GoogleCredentials, BuildError> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        if let Some(path) = set(FILE_VARIABLE) {
            return GoogleCredentials::from_file(Path::new(&path));
        }
        let folder = set("CLOUDSDK_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config/gcloud")));
        let file = folder.map(|folder| folder.join("application_default_credentials.json"));
        if let Some(file) = file.filter(|file| file.is_file()) {
            return GoogleCredentials::from_file(&file);
        }
        let host = set("GCE_METADATA_HOST").unwrap_or_else(|| METADATA_HOST.to_owned());
        Ok(GoogleCredentials::MetadataServer { host })
    }

    /// Reads a credentials file.
    pub fn from_file(path: &Path) -> Result<GoogleCredentials, BuildError> {
        let what = || format!("credentials file {}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|error| BuildError::new(what(), format!("cannot be read: {error}")))?;
        GoogleCredentials::from_json(&text).map_err(|error| BuildError::new(what(), error.reason))
    }

    /// Parses the text of a credentials file.
    pub fn from_json(text: &str) -> Result<GoogleCredentials, BuildError> {
        let invalid = |reason: String| BuildError::new("Google credentials text", reason);
        // The error contains only the position, because the text there may be a secret.
        let file = Json::parse(text)
            .map_err(|error| invalid(format!("is not valid JSON (at byte {})", error.offset())))?;
        let optional = |name: &str| file[name].as_str().map(str::to_owned);
        let required = |name: &str| {
            let value = optional(name).filter(|value| !value.is_empty());
            value.ok_or_else(|| invalid(format!("has no {name:?}")))
        };
        let token_uri = optional("token_uri").unwrap_or_else(|| TOKEN_URI.to_owned());
        match file["type"].as_str() {
            Some("service_account") => Ok(GoogleCredentials::ServiceAccount(ServiceAccount {
                email: required("client_email")?,
                key_id: optional("private_key_id"),
                private_key: required("private_key")?.into(),
                token_uri,
                project: optional("project_id"),
            })),
            Some("authorized_user") => Ok(GoogleCredentials::User(UserCredentials {
                client_id: required("client_id")?,
                client_secret: required("client_secret")?.into(),
                refresh_token: required("refresh_token")?.into(),
                token_uri,
                quota_project: optional("quota_project_id"),
            })),
            kind => {
                let kind = kind.unwrap_or("none");
                let expected = "expected service_account or authorized_user";
                Err(invalid(format!(
                    "has the unsupported type {kind:?}; {expected}"
                )))
            }
        }
    }

    /// Returns the project that the credentials belong to.
    pub fn project(&self) -> Option<&str> {
        match self {
            GoogleCredentials::ServiceAccount(account) => account.project.as_deref(),
            GoogleCredentials::User(user) => user.quota_project.as_deref(),
            _ => None,
        }
    }

    /// Returns the project that pays for calls with user credentials.
    pub(super) fn quota_project(&self) -> Option<&str> {
        match self {
            GoogleCredentials::User(user) => user.quota_project.as_deref(),
            _ => None,
        }
    }
}
