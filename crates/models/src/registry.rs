//! `Models`: all providers with one HTTP client, selected by model name.

use std::sync::Arc;

use futures_util::stream;
use retain_core::Embedder;
use retain_runtime::{BuildError, LlmRequest, Model, ModelError, ModelRegistry, ModelStream};

use crate::{
    Claude, EmbedderSpec, Gemini, GeminiSettings, GoogleCredentials, Http, HttpSettings,
    ModelSettings, OpenAi, OpenAiServer, Secret,
    anthropic::{self, wire_model_name},
    gemini::{check_project_and_location, token_auth, vertex_url},
    names::{ModelName, PREFIXES, SERVERS, Server},
};

/// Selects models by name: `gemini-…`, `openai/…`, `ollama/…`, `anthropic/…`, `claude-…` and more.
///
/// ```
/// use retain_models::{ModelSettings, Models};
/// let settings = ModelSettings::from_variables([("ANTHROPIC_API_KEY", "sk-ant-123456")]);
/// let models = Models::new(settings)?;
/// assert_eq!(models.model("claude-sonnet-5")?.name(), "claude-sonnet-5");
/// let error = models.model("openai/gpt-4o").unwrap_err();
/// assert!(error.to_string().contains("OPENAI_API_KEY"));
/// # Ok::<(), retain_runtime::BuildError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Models {
    settings: ModelSettings,
    http: Http,
}

/// A model that is usable with the current settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuggestedModel {
    /// The model name.
    pub name: &'static str,
    /// The environment variable whose value makes the model usable.
    pub variable: &'static str,
}

impl Models {
    /// Creates models that are configured by environment variables.
    pub fn from_env() -> Result<Models, BuildError> {
        Models::new(ModelSettings::from_env())
    }

    /// Creates models with these settings.
    pub fn new(settings: ModelSettings) -> Result<Models, BuildError> {
        let http = Http::new(HttpSettings::default())?;
        Ok(Models::with_http(settings, http))
    }

    /// Creates models with these settings and a configured HTTP client.
    pub fn with_http(settings: ModelSettings, http: Http) -> Models {
        Models { settings, http }
    }

    /// Returns the model for `name`. If its API key is missing, the error names the variable.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, BuildError> {
        match ModelName::from_name(name) {
            Some(ModelName::Gemini(_) | ModelName::GeminiOnVertex(_)) => {
                Ok(Arc::new(self.gemini(name)?))
            }
            Some(ModelName::Claude(_) | ModelName::ClaudeOnVertex(_)) => {
                Ok(Arc::new(self.claude(name)?))
            }
            Some(ModelName::Compatible(..) | ModelName::Azure(_) | ModelName::Ollama(_)) => {
                Ok(Arc::new(self.openai(name)?))
            }
            None => ModelRegistry::default().model(name),
        }
    }

    /// Returns the Gemini model with this name, served by the Gemini API or Vertex AI.
    pub(crate) fn gemini(&self, name: &str) -> Result<Gemini, BuildError> {
        match ModelName::from_name(name) {
            Some(ModelName::GeminiOnVertex(model)) => self.gemini_at(&model, true),
            Some(ModelName::Gemini(model)) => self.gemini_at(&model, false),
            _ => self.gemini_at(name, false),
        }
    }

    /// Returns the Claude model with this name, served by Anthropic or Vertex AI.
    pub(crate) fn claude(&self, name: &str) -> Result<Claude, BuildError> {
        match ModelName::from_name(name) {
            Some(ModelName::ClaudeOnVertex(model)) => self.claude_on_vertex(name, &model),
            Some(ModelName::Claude(model)) => self.claude_at(name, &model),
            _ => self.claude_at(name, name),
        }
    }

    /// Returns the model with this name on an OpenAI-compatible server. A name without a server
    /// prefix means OpenAI, or the server at `OPENAI_BASE_URL`.
    pub(crate) fn openai(&self, name: &str) -> Result<OpenAi, BuildError> {
        match ModelName::from_name(name) {
            Some(ModelName::Compatible(server, model)) => self.compatible(name, server, &model),
            Some(ModelName::Azure(model)) => self.azure(name, &model),
            Some(ModelName::Ollama(model)) => Ok(self.ollama(name, &model)),
            _ => self.compatible(name, &SERVERS[0], name),
        }
    }

    /// Returns the embedder for `name`, e.g. `openai/text-embedding-3-small@512`; see
    /// [`EmbedderSpec`]. If its API key is missing, the error names the variable.
    pub fn embedder(&self, name: &str) -> Result<Arc<dyn Embedder>, BuildError> {
        let spec: EmbedderSpec = name.parse()?;
        spec.open(&self.http, &|variable| self.settings.get(variable))
    }

    /// Returns a registry of all model names, including the offline model. A model without an API
    /// key fails only when it is called, so it does not affect other agents.
    pub fn registry(&self) -> ModelRegistry {
        let models = self.clone();
        registry_of(move |name| Ok(models.model_or_unavailable(name)))
    }

    /// Returns a registry of all model names, including the offline model. API keys are read from
    /// the environment when an agent is built; a missing one is an error that names the variable.
    pub fn env_registry() -> ModelRegistry {
        registry_of(|name| Models::from_env()?.model(name))
    }

    fn model_or_unavailable(&self, name: &str) -> Arc<dyn Model> {
        match self.model(name) {
            Ok(model) => model,
            Err(error) => {
                tracing::warn!("{error}");
                Arc::new(UnavailableModel {
                    name: name.to_owned(),
                    error,
                })
            }
        }
    }

    /// Returns the preferred model among those whose API key is set; `None` if no API key is set.
    pub fn suggested(&self) -> Option<SuggestedModel> {
        const KEYS: [(&str, &str); 4] = [
            ("GOOGLE_API_KEY", "gemini-3.5-flash"),
            ("GEMINI_API_KEY", "gemini-3.5-flash"),
            ("ANTHROPIC_API_KEY", "claude-sonnet-5"),
            ("OPENAI_API_KEY", "gpt-4o"),
        ];
        let found = KEYS.iter().find(|(variable, name)| {
            // The server at a custom URL might not have this model.
            let has_custom_url = name.starts_with("gpt-")
                && self
                    .settings
                    .first_of(SERVERS[0].base_url_variables)
                    .is_some();
            self.settings.has(variable) && !has_custom_url
        });
        found.map(|(variable, name)| SuggestedModel { name, variable })
    }

    fn gemini_at(&self, model: &str, on_vertex: bool) -> Result<Gemini, BuildError> {
        let env = |variable: &str| match variable {
            "GOOGLE_GENAI_USE_ENTERPRISE" if on_vertex => Some("true".to_owned()),
            variable => self.google_variable(variable),
        };
        let settings = GeminiSettings::from_env(model, &env)?;
        Gemini::new(model, settings, &self.http)
    }

    /// Returns the value of one of Google's variables, or of the LiteLLM variable with the same
    /// meaning.
    fn google_variable(&self, variable: &str) -> Option<String> {
        let litellm = match variable {
            "GOOGLE_CLOUD_PROJECT" => "VERTEXAI_PROJECT",
            "GOOGLE_CLOUD_LOCATION" => "VERTEXAI_LOCATION",
            variable => variable,
        };
        self.settings.first_of(&[variable, litellm])
    }

    fn claude_at(&self, name: &str, model: &str) -> Result<Claude, BuildError> {
        let settings = &self.settings;
        let base_url = settings.get("ANTHROPIC_BASE_URL");
        let base_url = base_url.unwrap_or_else(|| anthropic::BASE_URL.to_owned());
        let http = self.http.clone();
        let found = settings.first_with_name(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]);
        Ok(match found {
            Some(("ANTHROPIC_API_KEY", key)) => {
                Claude::with_base_url(base_url, model, key.into(), http)
            }
            Some((_, token)) => Claude::with_token(base_url, model, token.into(), http),
            None => return self.claude_on_vertex(name, model),
        })
    }

    fn claude_on_vertex(&self, name: &str, model: &str) -> Result<Claude, BuildError> {
        let Some((project, location)) = self.vertex_project_and_location(model) else {
            return Err(missing_api_key(
                name,
                "ANTHROPIC_API_KEY (or, for Claude on Vertex AI, GOOGLE_CLOUD_PROJECT and \
                 GOOGLE_CLOUD_LOCATION)",
            ));
        };
        check_project_and_location(&project, &location)
            .map_err(|error| BuildError::new(format!("model {name:?}"), error.message))?;
        let credentials = GoogleCredentials::find(&|variable| self.google_variable(variable))?;
        let base_url = self.settings.get("ANTHROPIC_VERTEX_BASE_URL");
        let base_url = base_url.unwrap_or_else(|| format!("{}/v1", vertex_url(&location)));
        let path = format!("projects/{project}/locations/{location}");
        Ok(Claude::on_vertex(
            format!("{}/{path}", base_url.trim_end_matches('/')),
            wire_model_name(model),
            token_auth(credentials),
            self.http.clone(),
        ))
    }

    /// Returns a model's project and location on Vertex AI: from its name, or else from the
    /// settings.
    fn vertex_project_and_location(&self, model: &str) -> Option<(String, String)> {
        let steps: Vec<&str> = model.split('/').collect();
        if let ["projects", project, "locations", location, ..] = steps[..] {
            return Some((project.to_owned(), location.to_owned()));
        }
        let project = self.google_variable("GOOGLE_CLOUD_PROJECT")?;
        Some((project, self.google_variable("GOOGLE_CLOUD_LOCATION")?))
    }

    fn compatible(&self, name: &str, server: &Server, model: &str) -> Result<OpenAi, BuildError> {
        let custom_url = self.settings.first_of(server.base_url_variables);
        let key = self.settings.first_of(server.key_variables);
        if key.is_none() && custom_url.is_none() && !server.is_self_hosted {
            return Err(missing_api_key(name, server.key_variables[0]));
        }
        let base_url = custom_url.or_else(|| server.base_url.map(str::to_owned));
        let Some(base_url) = base_url else {
            return Err(missing_url(name, server.base_url_variables[0]));
        };
        let server = OpenAiServer::new(&base_url, key.map(Secret::from));
        Ok(self.openai_at(name, model, server))
    }

    fn azure(&self, name: &str, model: &str) -> Result<OpenAi, BuildError> {
        let settings = &self.settings;
        let endpoint = settings.first_of(&["AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE"]);
        let Some(endpoint) = endpoint else {
            return Err(missing_url(name, "AZURE_OPENAI_ENDPOINT"));
        };
        let key = settings.first_of(&["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"]);
        let Some(key) = key else {
            return Err(missing_api_key(name, "AZURE_OPENAI_API_KEY"));
        };
        let versions = [
            "OPENAI_API_VERSION",
            "AZURE_OPENAI_API_VERSION",
            "AZURE_API_VERSION",
        ];
        let version = settings.first_of(&versions).unwrap_or_default();
        let server = OpenAiServer::azure(&endpoint, &version, Secret::from(key));
        Ok(self.openai_at(name, model, server))
    }

    fn ollama(&self, name: &str, model: &str) -> OpenAi {
        let host = self.settings.first_of(&["OLLAMA_HOST", "OLLAMA_API_BASE"]);
        let server = match host {
            Some(host) => OpenAiServer::ollama_at(&host),
            None => OpenAiServer::ollama(),
        };
        self.openai_at(name, model, server)
    }

    fn openai_at(&self, name: &str, model: &str, server: OpenAiServer) -> OpenAi {
        OpenAi::new(self.http.clone(), server, model).with_name(name)
    }
}

/// Creates a registry that calls `make` for every model name of the provider.
fn registry_of(
    make: impl Fn(&str) -> Result<Arc<dyn Model>, BuildError> + Clone + Send + Sync + 'static,
) -> ModelRegistry {
    let mut registry = ModelRegistry::default();
    let servers = SERVERS.iter().map(|server| server.prefix);
    for prefix in PREFIXES.into_iter().chain(servers) {
        registry.register(prefix, make.clone());
    }
    registry
}

fn missing_api_key(name: &str, variables: &str) -> BuildError {
    BuildError::new(
        format!("model {name:?}"),
        format!("needs an API key; set {variables}"),
    )
}

fn missing_url(name: &str, variable: &str) -> BuildError {
    BuildError::new(
        format!("model {name:?}"),
        format!("has no URL; set {variable}"),
    )
}

/// A model that is not usable: each call fails with the reason.
#[derive(Debug)]
struct UnavailableModel {
    name: String,
    error: BuildError,
}

impl Model for UnavailableModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, _request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        let error = ModelError::new(self.error.to_string()).with_code("ModelNotReady");
        Box::pin(stream::iter([Err(error)]))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;
    use crate::testing::{Server, answer};

    /// A fallback never overrides the environment, not even through a variable with higher
    /// precedence.
    #[tokio::test]
    async fn token_in_the_environment_overrides_a_fallback_api_key() {
        let body = r#"{"content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}"#;
        let server = Server::playing([answer(body)]).await;
        let settings = ModelSettings::from_lookup(|name| {
            (name == "ANTHROPIC_AUTH_TOKEN").then(|| "environment-token".to_owned())
        });
        let settings = settings
            .with_fallback("ANTHROPIC_API_KEY", "fallback-key")
            .with_fallback("ANTHROPIC_BASE_URL", server.url());
        let model = Models::new(settings).unwrap().model("claude-x").unwrap();
        let answers: Vec<_> = model.generate(Arc::default(), false).collect().await;
        assert!(answers[0].is_ok(), "{answers:?}");
        let sent = &server.received()[0];
        assert_eq!(
            sent.header("authorization"),
            Some("Bearer environment-token")
        );
        assert_eq!(sent.header("x-api-key"), None);
    }

    /// The location becomes part of the host name, so an invalid one could send a Google token to
    /// another host.
    #[test]
    fn invalid_location_is_rejected() {
        let models = |location: &str| {
            let project = ("GOOGLE_CLOUD_PROJECT", "example.com:my-project");
            let settings = [project, ("GOOGLE_CLOUD_LOCATION", location)];
            Models::new(ModelSettings::from_variables(settings)).unwrap()
        };
        for location in ["us", "global", "europe-west4"] {
            for name in ["vertex_ai/claude-x", "vertex_ai/gemini-x"] {
                models(location).model(name).unwrap();
            }
        }
        for location in ["evil.example#", "evil.example?", "a@b", "a:1"] {
            let named = format!("projects/p/locations/{location}/publishers/anthropic/models/x");
            for name in ["vertex_ai/claude-x", "vertex_ai/gemini-x"] {
                assert!(models(location).model(name).is_err(), "{location} {name}");
            }
            assert!(models("us").model(&named).is_err(), "{named}");
        }
    }

    /// A URL may contain a password, and printing an agent prints its model.
    #[test]
    fn model_debug_output_hides_the_url_password() {
        let address = "https://me:canary-5b1c9f@models.example/v1";
        let variables = [
            "ANTHROPIC_BASE_URL",
            "OPENAI_BASE_URL",
            "GOOGLE_GEMINI_BASE_URL",
            "AZURE_OPENAI_ENDPOINT",
            "OLLAMA_HOST",
        ];
        let keys = [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "AZURE_OPENAI_API_KEY",
        ];
        let addresses = variables.map(|name| (name, address));
        let keys = keys.map(|name| (name, "canary-5b1c9f"));
        let settings = addresses.into_iter().chain(keys);
        let models = Models::new(ModelSettings::from_variables(settings)).unwrap();
        for name in ["claude-x", "gpt-x", "gemini-x", "azure/x", "ollama/x"] {
            let printed = format!("{:?}", models.model(name).unwrap());
            assert!(printed.contains("models.example"), "{printed}");
            assert!(!printed.contains("canary"), "{printed}");
        }
    }
}
