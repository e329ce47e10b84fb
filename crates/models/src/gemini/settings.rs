//! Gemini's settings: an API key, or Vertex AI.

use std::fmt;

use retain_runtime::BuildError;

use super::credentials::GoogleCredentials;
use crate::{Secret, http::Address};

/// Settings of Gemini.
///
/// ```
/// use retain_models::{GeminiAccess, GeminiSettings};
/// let env = |name: &str| (name == "GEMINI_API_KEY").then(|| "k-123456".to_owned());
/// let settings = GeminiSettings::from_env("gemini-2.5-flash", &env).unwrap();
/// assert!(matches!(settings.access, GeminiAccess::ApiKey(_)));
/// let error = GeminiSettings::from_env("gemini-2.5-flash", &|_| None).unwrap_err();
/// assert!(error.to_string().contains("GOOGLE_API_KEY"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct GeminiSettings {
    /// The credentials.
    pub access: GeminiAccess,
    /// The base URL, if it is not Google's.
    pub base_url: Option<String>,
    /// The API version, if it is not the default (`v1beta`, on Vertex AI `v1beta1`).
    pub api_version: Option<String>,
}

impl fmt::Debug for GeminiSettings {
    /// Prints only the host of the base URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base_url = self.base_url.as_ref().map(Address::new);
        f.debug_struct("GeminiSettings")
            .field("access", &self.access)
            .field("base_url", &base_url)
            .field("api_version", &self.api_version)
            .finish()
    }
}

/// The credentials for Gemini.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum GeminiAccess {
    /// The Gemini API, with an API key from Google AI Studio.
    ApiKey(Secret),
    /// Vertex AI in a project.
    Vertex {
        /// The project that pays for the calls.
        project: String,
        /// The location, e.g. `global` or `us-central1`.
        location: String,
        /// The credentials.
        credentials: GoogleCredentials,
    },
    /// Vertex AI with an API key ("express mode").
    VertexKey(Secret),
}

impl From<GeminiAccess> for GeminiSettings {
    fn from(access: GeminiAccess) -> GeminiSettings {
        GeminiSettings {
            access,
            base_url: None,
            api_version: None,
        }
    }
}

impl GeminiSettings {
    /// Reads the variables of Google's client library through `env`. A `model` that starts with
    /// `projects/` runs on Vertex AI.
    pub fn from_env(
        model: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<GeminiSettings, BuildError> {
        let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let is_on = |name: &str| set(name).map(|value| is_true(&value));
        let on_vertex = is_on("GOOGLE_GENAI_USE_ENTERPRISE");
        let on_vertex = on_vertex.or_else(|| is_on("GOOGLE_GENAI_USE_VERTEXAI"));
        let on_vertex = on_vertex.unwrap_or(false) || model.starts_with("projects/");
        let key = set("GOOGLE_API_KEY").or_else(|| set("GEMINI_API_KEY"));
        let base_url = match on_vertex {
            true => "GOOGLE_VERTEX_BASE_URL",
            false => "GOOGLE_GEMINI_BASE_URL",
        };
        let access = match on_vertex {
            true => vertex_from_env(model, key, env)?,
            false => GeminiAccess::ApiKey(key.map(Secret::from).ok_or_else(|| missing_key(model))?),
        };
        Ok(GeminiSettings {
            base_url: set(base_url),
            api_version: set("GOOGLE_GENAI_API_VERSION"),
            ..access.into()
        })
    }

    /// Sets a base URL instead of Google's.
    pub fn with_base_url(mut self, url: impl Into<String>) -> GeminiSettings {
        self.base_url = Some(url.into());
        self
    }

    /// Sets an API version instead of the default.
    pub fn with_api_version(mut self, version: impl Into<String>) -> GeminiSettings {
        self.api_version = Some(version.into());
        self
    }
}

fn vertex_from_env(
    model: &str,
    key: Option<String>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<GeminiAccess, BuildError> {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    let (project, location) = (set("GOOGLE_CLOUD_PROJECT"), set("GOOGLE_CLOUD_LOCATION"));
    // A project takes precedence over an API key.
    if let Some(key) = key.filter(|_| project.is_none() && location.is_none()) {
        return Ok(GeminiAccess::VertexKey(key.into()));
    }
    let credentials = GoogleCredentials::find(env)?;
    let named = model.strip_prefix("projects/");
    let named = named.and_then(|rest| rest.split('/').next());
    let project = project.or_else(|| credentials.project().map(str::to_owned));
    let project = project.or_else(|| named.map(str::to_owned));
    let Some(project) = project else {
        let reason = "runs on Vertex AI and needs a project; set GOOGLE_CLOUD_PROJECT";
        return Err(BuildError::new(format!("model {model:?}"), reason));
    };
    Ok(GeminiAccess::Vertex {
        project,
        location: location.unwrap_or_else(|| "global".to_owned()),
        credentials,
    })
}

fn missing_key(model: &str) -> BuildError {
    let reason = "needs an API key; set GOOGLE_API_KEY or GEMINI_API_KEY (or \
     GOOGLE_GENAI_USE_VERTEXAI with GOOGLE_CLOUD_PROJECT for Vertex AI)";
    BuildError::new(format!("model {model:?}"), reason)
}

fn is_true(value: &str) -> bool {
    matches!(value.trim().to_lowercase().as_str(), "true" | "1")
}

/// Splits the version off a Google base URL that ends in one, as ADK does.
pub(crate) fn split_version(base_url: &str) -> (&str, Option<&str>) {
    let trimmed = base_url.trim_end_matches('/');
    let host = trimmed.split("://").nth(1).unwrap_or_default();
    let Some((before, last)) = trimmed.rsplit_once('/') else {
        return (trimmed, None);
    };
    let is_google = host
        .split('/')
        .next()
        .is_some_and(|host| host.ends_with(".googleapis.com"));
    let is_only_step = host.matches('/').count() == 1;
    let mut letters = last.chars();
    let is_version =
        letters.next() == Some('v') && letters.next().is_some_and(|digit| digit.is_ascii_digit());
    match is_google && is_only_step && is_version {
        true => (before, Some(last)),
        false => (trimmed, None),
    }
}
