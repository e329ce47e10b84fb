//! `EmbedderSpec`: an embedder by name, e.g. `openai/text-embedding-3-small@512`.

use std::{str::FromStr, sync::Arc};

use retain_core::Embedder;
use retain_runtime::BuildError;

use super::{GeminiEmbedder, OpenAiEmbedder};
use crate::{Http, OpenAiServer, Secret};

/// The default number of dimensions of each known model.
const DEFAULT_DIMS: [(&str, usize); 11] = [
    ("text-embedding-3-small", 1536),
    ("text-embedding-3-large", 3072),
    ("text-embedding-ada-002", 1536),
    // The size that Gemini's documentation recommends.
    ("gemini-embedding-001", 768),
    ("gemini-embedding-2", 768),
    ("nomic-embed-text", 768),
    ("mxbai-embed-large", 1024),
    ("all-minilm", 384),
    ("bge-m3", 1024),
    ("embeddinggemma", 768),
    ("snowflake-arctic-embed", 1024),
];

/// Identifies an embedder: `provider/model`, followed by `@` and the number of dimensions if the
/// model has no default or can produce shorter vectors.
///
/// | name | API key | base URL |
/// |---|---|---|
/// | `gemini/…` | `GOOGLE_API_KEY` or `GEMINI_API_KEY` | `GOOGLE_GEMINI_BASE_URL` |
/// | `openai/…` | `OPENAI_API_KEY`, not required with a base URL | `OPENAI_BASE_URL` |
/// | `ollama/…` | none | `OLLAMA_HOST` or `OLLAMA_API_BASE` |
///
/// ```
/// use retain_models::EmbedderSpec;
/// let spec: EmbedderSpec = "openai/text-embedding-3-small@512".parse().unwrap();
/// assert_eq!(spec.dims, 512);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbedderSpec {
    /// The provider whose API is used.
    provider: Provider,
    /// The provider's name for the model.
    pub model: String,
    /// The number of dimensions per vector.
    pub dims: usize,
    /// Whether the name contains the number of dimensions.
    has_explicit_dims: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    Gemini,
    OpenAi,
    Ollama,
}

impl FromStr for EmbedderSpec {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<EmbedderSpec, BuildError> {
        let invalid = |why: &str| BuildError::new(format!("embedder {text:?}"), why);
        let (name, model) = text.trim().split_once('/').unwrap_or((text, ""));
        let provider = match name {
            "gemini" => Provider::Gemini,
            "openai" => Provider::OpenAi,
            "ollama" => Provider::Ollama,
            _ => {
                return Err(invalid(
                    "unknown; expected gemini/MODEL, openai/MODEL or ollama/MODEL, with \
                     @DIMENSIONS for unknown models",
                ));
            }
        };
        let (model, explicit) = match model.rsplit_once('@') {
            Some((model, dims)) => {
                let number = dims.parse().ok().filter(|it| (1..=65_536).contains(it));
                let error = || {
                    invalid(&format!(
                        "has {dims:?} after @; expected a number of dimensions from 1 to 65536"
                    ))
                };
                (model, Some(number.ok_or_else(error)?))
            }
            None => (model, None),
        };
        if model.is_empty() {
            return Err(invalid(
                "needs a model name after the slash, for example openai/text-embedding-3-small",
            ));
        }
        let dims = explicit.or_else(|| default_dims(model)).ok_or_else(|| {
            invalid(&format!(
                "has an unknown number of dimensions; write {name}/{model}@DIMENSIONS"
            ))
        })?;
        Ok(EmbedderSpec {
            provider,
            model: model.to_owned(),
            dims,
            has_explicit_dims: explicit.is_some(),
        })
    }
}

/// Returns the default number of dimensions for a known model. Ignores Ollama's tag after `:`.
fn default_dims(model: &str) -> Option<usize> {
    let bare = model.split(':').next().unwrap_or_default();
    let found = DEFAULT_DIMS.iter().find(|(known, _)| *known == bare);
    found.map(|(_, dims)| *dims)
}

impl EmbedderSpec {
    /// Creates the embedder. `variable` returns the value of an environment variable, or of a
    /// setting that replaces it.
    pub fn open(
        &self,
        http: &Http,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Embedder>, BuildError> {
        match self.provider {
            Provider::Gemini => Ok(Arc::new(self.gemini(http, variable)?)),
            Provider::OpenAi | Provider::Ollama => Ok(Arc::new(self.openai(http, variable)?)),
        }
    }

    pub(super) fn gemini(
        &self,
        http: &Http,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<GeminiEmbedder, BuildError> {
        let key = first_set(variable, &["GOOGLE_API_KEY", "GEMINI_API_KEY"]);
        let key = key.ok_or_else(|| self.missing("GOOGLE_API_KEY"))?;
        let embedder =
            GeminiEmbedder::new(http.clone(), key.into(), self.model.as_str(), self.dims);
        Ok(match first_set(variable, &["GOOGLE_GEMINI_BASE_URL"]) {
            Some(base) => embedder.with_base_url(&base),
            None => embedder,
        })
    }

    pub(super) fn openai(
        &self,
        http: &Http,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<OpenAiEmbedder, BuildError> {
        if self.provider == Provider::Ollama {
            let host = first_set(variable, &["OLLAMA_HOST", "OLLAMA_API_BASE"]);
            let server =
                host.map_or_else(OpenAiServer::ollama, |host| OpenAiServer::ollama_at(&host));
            return Ok(self.openai_at(http, server));
        }
        let key = first_set(variable, &["OPENAI_API_KEY"]).map(Secret::from);
        match (
            first_set(variable, &["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
            key,
        ) {
            (Some(base), key) => Ok(self.openai_at(http, OpenAiServer::new(&base, key))),
            (None, Some(key)) => Ok(self.openai_at(http, OpenAiServer::openai(key))),
            (None, None) => Err(self.missing("OPENAI_API_KEY")),
        }
    }

    fn openai_at(&self, http: &Http, server: OpenAiServer) -> OpenAiEmbedder {
        let embedder = OpenAiEmbedder::new(http.clone(), server, self.model.as_str(), self.dims);
        // Send the number of dimensions only if the spec sets it and it differs from the model's
        // known default.
        let default = default_dims(&self.model);
        let differs = self.has_explicit_dims && default.is_some_and(|default| default != self.dims);
        match differs {
            true => embedder.request_dims(),
            false => embedder,
        }
    }

    fn missing(&self, variable: &str) -> BuildError {
        BuildError::new(
            format!("embedder {:?}", self.model),
            format!("needs an API key; set the environment variable {variable}"),
        )
    }
}

/// Returns the first of the variables that is set and not blank.
fn first_set(variable: &dyn Fn(&str) -> Option<String>, names: &[&str]) -> Option<String> {
    let mut values = names.iter().filter_map(|name| variable(name));
    values.find(|value| !value.trim().is_empty())
}
