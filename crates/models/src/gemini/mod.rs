//! Gemini, with an API key or through Vertex AI.
//!
//! ADK uses Gemini's data model, so little is translated. Requests and responses are processed as
//! in ADK 2.13 and Google's client library.

pub(crate) mod answer;
mod backend;
mod credentials;
mod parts;
mod request;
mod respell;
mod schema;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod tokens;

use std::sync::Arc;

use retain_core::{Json, LlmResponse};
use retain_runtime::{BuildError, LlmRequest, Model, ModelCapabilities, ModelError, ModelStream};

pub(crate) use backend::{check_project_and_location, vertex_url};
pub use credentials::{GoogleCredentials, ServiceAccount, UserCredentials};
pub(crate) use settings::split_version;
pub use settings::{GeminiAccess, GeminiSettings};

use self::{backend::Backend, stream::GeminiReader, tokens::Tokens};
use crate::{
    Http, Models,
    http::{Address, AttemptError, Auth, Call, HttpModel, http_option, malformed},
    provider::{Failure, Provider, StreamReader},
};

/// A Gemini model.
///
/// ```
/// use retain_models::{Gemini, GeminiAccess, Http, HttpSettings};
/// use retain_runtime::Model as _;
/// let http = Http::new(HttpSettings::default()).unwrap();
/// let access = GeminiAccess::ApiKey("a key".into());
/// let model = Gemini::new("gemini-2.5-flash", access, &http).unwrap();
/// assert_eq!(model.name(), "gemini-2.5-flash");
/// ```
#[derive(Debug, Clone)]
pub struct Gemini {
    model: HttpModel<GeminiWire>,
}

impl Gemini {
    /// Creates the model with an API key or Vertex AI credentials from the environment:
    /// `GOOGLE_API_KEY` or `GEMINI_API_KEY`, or `GOOGLE_GENAI_USE_VERTEXAI` and its settings.
    ///
    /// ```no_run
    /// let model = retain_models::Gemini::from_env("gemini-2.5-flash")?;
    /// # Ok::<(), retain_runtime::BuildError>(())
    /// ```
    pub fn from_env(name: &str) -> Result<Gemini, BuildError> {
        Models::from_env()?.gemini(name)
    }

    /// Creates the model with these settings.
    pub fn new(
        name: impl Into<String>,
        settings: impl Into<GeminiSettings>,
        http: &Http,
    ) -> Result<Gemini, BuildError> {
        let name = name.into();
        let settings = settings.into();
        let (backend, auth, quota_project) = match settings.access {
            GeminiAccess::ApiKey(key) => (Backend::Api, key_auth(key), None),
            GeminiAccess::VertexKey(key) => {
                let backend = Backend::Vertex {
                    project: None,
                    location: "global".to_owned(),
                };
                (backend, key_auth(key), None)
            }
            GeminiAccess::Vertex {
                project,
                location,
                credentials,
            } => {
                let backend = Backend::Vertex {
                    project: Some(project),
                    location,
                };
                let quota_project = credentials.quota_project().map(str::to_owned);
                (backend, token_auth(credentials), quota_project)
            }
        };
        let path = backend
            .check_project_and_location()
            .and_then(|()| backend.model_path(&name));
        path.map_err(|error| BuildError::new(format!("model {name:?}"), error.message))?;
        let provider = GeminiWire {
            name: name.clone(),
            backend,
            base_url: settings.base_url.map(Address::new),
            api_version: settings.api_version,
            quota_project,
        };
        Ok(Gemini {
            model: HttpModel::new(name, provider, auth, http.clone()),
        })
    }
}

fn key_auth(key: crate::Secret) -> Auth {
    Auth::Header("x-goog-api-key", key)
}

pub(crate) fn token_auth(credentials: GoogleCredentials) -> Auth {
    match credentials {
        GoogleCredentials::AccessToken(token) => Auth::Bearer(token),
        credentials => Auth::Tokens(Arc::new(Tokens::new(credentials))),
    }
}

impl Model for Gemini {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        self.model.generate(request, stream)
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.model.capabilities()
    }
}

/// The wire format of Gemini.
#[derive(Debug)]
struct GeminiWire {
    name: String,
    backend: Backend,
    base_url: Option<Address>,
    api_version: Option<String>,
    /// The project that pays for calls with user credentials.
    quota_project: Option<String>,
}

impl GeminiWire {
    fn url(&self, request: &LlmRequest, stream: bool) -> Result<String, ModelError> {
        let model = match request.model.is_empty() {
            true => &self.name,
            false => &request.model,
        };
        let path = self.backend.model_path(model)?;
        let text = |camel, snake| {
            let value = http_option(&request.config, camel, snake)?;
            value.as_str().map(str::to_owned)
        };
        let base =
            text("baseUrl", "base_url").or_else(|| self.base_url.as_deref().map(str::to_owned));
        let base = base.unwrap_or_else(|| self.backend.base_url(&path));
        let (base, in_base) = settings::split_version(&base);
        let version = text("apiVersion", "api_version").or_else(|| in_base.map(str::to_owned));
        let version = version.or_else(|| self.api_version.clone());
        let version = version.unwrap_or_else(|| self.backend.version().to_owned());
        let verb = match stream {
            true => "streamGenerateContent?alt=sse",
            false => "generateContent",
        };
        Ok(format!("{base}/{version}/{path}:{verb}"))
    }
}

impl Provider for GeminiWire {
    fn call(&self, request: &LlmRequest, stream: bool) -> Result<Call, ModelError> {
        let client = concat!("retain/", env!("CARGO_PKG_VERSION"));
        let mut headers = vec![("x-goog-api-client", client.to_owned())];
        if let Some(project) = &self.quota_project {
            headers.push(("x-goog-user-project", project.clone()));
        }
        Ok(Call {
            url: self.url(request, stream)?,
            headers,
            body: request::body(request, &self.backend)?,
        })
    }

    fn read_answer(&self, body: &str) -> Result<LlmResponse, AttemptError> {
        let response = answer::parse_json(body)?;
        match &response {
            // Some proxies collect a stream into a list.
            Json::Array(responses)
                if !responses.is_empty() && answer::failure_in(&response, None).is_none() =>
            {
                let mut reader = GeminiReader::new();
                for response in responses.iter() {
                    reader.push_response(response.clone())?;
                }
                let whole = reader.finish()?.pop();
                whole.ok_or_else(|| malformed("Gemini's response is empty").into())
            }
            _ => answer::convert_response(&response),
        }
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::new(GeminiReader::new())
    }

    fn failure(&self, status: u16, body: &str) -> Failure {
        answer::failure(status, body)
    }

    fn is_transient(&self, code: &str) -> bool {
        answer::is_transient(code)
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
            .with_output_schema_and_tools(
                self.backend.is_vertex() && backend::bare_name(&self.name).starts_with("gemini-"),
            )
            .with_pairs_calls_by_id(false)
    }
}
