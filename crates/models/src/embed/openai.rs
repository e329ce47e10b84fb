//! `OpenAiEmbedder`: vectors from `/embeddings` of OpenAI or a compatible server.

use async_trait::async_trait;
use retain_core::{BoxError, Bytes, Embedder, Json, JsonMap};
use retain_runtime::{BuildError, ModelError};

use super::{EmbedWire, EmbedderSpec, batch::BatchLimits, vectors};
use crate::{
    Http, HttpSettings, OpenAiServer,
    http::{Auth, Call, malformed},
    openai::{invalid_request, is_transient, json::list, parse_failure, reported_failure},
    provider::Failure,
};

/// Limits that all known servers accept. OpenAI itself accepts 2048 texts and 300,000 tokens per
/// call.
const LIMITS: BatchLimits = BatchLimits {
    texts: 128,
    bytes: 256 * 1024,
};

/// An embedder that uses OpenAI's API, at OpenAI, Azure, Ollama, vLLM or LM Studio.
///
/// ```
/// use retain_core::Embedder as _;
/// use retain_models::{Http, HttpSettings, OpenAiEmbedder, OpenAiServer};
/// let http = Http::new(HttpSettings::default()).unwrap();
/// let embedder = OpenAiEmbedder::new(http, OpenAiServer::ollama(), "nomic-embed-text", 768);
/// assert_eq!(embedder.id(), "openai/nomic-embed-text/768");
/// ```
#[derive(Debug, Clone)]
pub struct OpenAiEmbedder {
    http: Http,
    server: OpenAiServer,
    auth: Auth,
    model: String,
    dims: usize,
    /// Whether to send the number of dimensions. Models with a fixed size reject it.
    sends_dims: bool,
    id: String,
}

impl OpenAiEmbedder {
    /// Creates an embedder with the API key and URL from the environment: `OPENAI_API_KEY`,
    /// `OPENAI_BASE_URL`; for `ollama/…`, `OLLAMA_HOST`. The number of dimensions may follow after
    /// `@`: `text-embedding-3-small@512`.
    ///
    /// ```no_run
    /// let embedder = retain_models::OpenAiEmbedder::from_env("text-embedding-3-small")?;
    /// # Ok::<(), retain_runtime::BuildError>(())
    /// ```
    pub fn from_env(model: &str) -> Result<OpenAiEmbedder, BuildError> {
        let spec: EmbedderSpec = match model.starts_with("ollama/") {
            true => model.parse()?,
            false => {
                let model = model.strip_prefix("openai/").unwrap_or(model);
                format!("openai/{model}").parse()?
            }
        };
        spec.openai(&Http::new(HttpSettings::default())?, &super::variable)
    }

    /// Creates an embedder for vectors with `dims` dimensions. Only OpenAI's `text-embedding-3`
    /// models receive the number; other models must return vectors of that size anyway.
    pub fn new(
        http: Http,
        server: OpenAiServer,
        model: impl Into<String>,
        dims: usize,
    ) -> OpenAiEmbedder {
        let model = model.into();
        OpenAiEmbedder {
            http,
            auth: server.auth(),
            server,
            sends_dims: model.starts_with("text-embedding-3"),
            id: format!("openai/{model}/{dims}"),
            model,
            dims,
        }
    }

    /// Sends the number of dimensions with each request. Only models that can shorten vectors
    /// accept it.
    #[must_use]
    pub fn request_dims(mut self) -> OpenAiEmbedder {
        self.sends_dims = true;
        self
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn id(&self) -> &str {
        &self.id
    }

    fn dims(&self) -> usize {
        self.dims
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError> {
        super::embed(self, &self.http, &self.auth, self.dims, LIMITS, texts).await
    }
}

impl EmbedWire for OpenAiEmbedder {
    fn call(&self, texts: &[String]) -> Result<Call, ModelError> {
        let mut body = JsonMap::from([
            ("model", Json::from(self.model.as_str())),
            ("input", list(texts.iter().map(|text| text.as_str().into()))),
            ("encoding_format", "float".into()),
        ]);
        if self.sends_dims {
            body.insert("dimensions", self.dims);
        }
        let body = Json::from(body).to_json();
        Ok(Call {
            url: self.server.url("embeddings", &self.model),
            headers: Vec::new(),
            body: body.map_err(|error| invalid_request(error.to_string()))?,
        })
    }

    fn vectors(&self, body: &Json, count: usize) -> Result<Vec<Vec<f32>>, ModelError> {
        let data = body["data"].as_array();
        let data =
            data.ok_or_else(|| malformed("the provider's response has no list of vectors"))?;
        if data.len() != count {
            let found = data.len();
            return Err(malformed(format!(
                "the provider returned {found} vectors for {count} texts"
            )));
        }
        let mut vectors = vec![None; count];
        for (position, item) in data.iter().enumerate() {
            // A server that omits the indexes returns the vectors in the order of the texts.
            let index = match &item["index"] {
                Json::Null => Some(position),
                index => index.as_u64().and_then(|index| usize::try_from(index).ok()),
            };
            let position = index.and_then(|index| vectors.get_mut(index));
            match position {
                Some(position @ None) => *position = Some(parse_vector(&item["embedding"])?),
                _ => {
                    return Err(malformed(
                        "the indexes of the provider's vectors do not match the texts",
                    ));
                }
            }
        }
        let all: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
        all.ok_or_else(|| malformed("the indexes of the provider's vectors do not match the texts"))
    }

    fn failure(&self, status: u16, body: &str) -> Failure {
        parse_failure(status, body)
    }

    fn failure_in(&self, body: &Json) -> Option<Failure> {
        reported_failure(body)
    }

    fn is_transient(&self, code: &str) -> bool {
        is_transient(code)
    }
}

/// Parses a vector: a list of numbers, or their bytes in base64, which some servers send
/// unrequested.
fn parse_vector(value: &Json) -> Result<Vec<f32>, ModelError> {
    let Some(text) = value.as_str() else {
        return vectors::parse_list(value);
    };
    let bytes = Bytes::from_base64(text).ok_or_else(|| {
        malformed("the provider returned a vector that is neither a list of numbers nor base64")
    })?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    match rest.is_empty() {
        true => Ok(numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()),
        false => Err(malformed(
            "the provider returned a truncated vector: its bytes are not a multiple of 4",
        )),
    }
}
