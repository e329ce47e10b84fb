//! `GeminiEmbedder`: vectors from Gemini's `batchEmbedContents`.

use async_trait::async_trait;
use retain_core::{BoxError, Embedder, Json, JsonMap};
use retain_runtime::{BuildError, ModelError};

use super::{EmbedWire, EmbedderSpec, batch::BatchLimits, vectors};
use crate::{
    Http, HttpSettings, Secret, gemini,
    http::{Address, Auth, Call, malformed},
    openai::{
        invalid_request,
        json::{list, object},
    },
    provider::Failure,
};

/// The base URL of the Gemini API.
const BASE_URL: &str = "https://generativelanguage.googleapis.com";
/// The API version, unless the base URL names another.
const API_VERSION: &str = "v1beta";
/// The limits of a Gemini call, which accepts 100 texts.
const LIMITS: BatchLimits = BatchLimits {
    texts: 100,
    bytes: 256 * 1024,
};
/// The default task type: a symmetric one, because queries and memories are embedded alike.
const TASK_TYPE: &str = "SEMANTIC_SIMILARITY";

/// An embedder that uses the Gemini API.
///
/// ```
/// use retain_core::Embedder as _;
/// use retain_models::{GeminiEmbedder, Http, HttpSettings, Secret};
/// let http = Http::new(HttpSettings::default()).unwrap();
/// let embedder = GeminiEmbedder::new(http, Secret::from("key"), "gemini-embedding-001", 768);
/// assert_eq!(embedder.id(), "gemini/gemini-embedding-001/768/SEMANTIC_SIMILARITY");
/// ```
#[derive(Debug, Clone)]
pub struct GeminiEmbedder {
    http: Http,
    base_url: Address,
    api_version: String,
    auth: Auth,
    model: String,
    dims: usize,
    task_type: Option<String>,
    id: String,
}

impl GeminiEmbedder {
    /// Creates an embedder with the API key from the environment: `GOOGLE_API_KEY` or
    /// `GEMINI_API_KEY`. The number of dimensions may follow after `@`:
    /// `gemini-embedding-001@1536`.
    ///
    /// ```no_run
    /// let embedder = retain_models::GeminiEmbedder::from_env("gemini-embedding-001")?;
    /// # Ok::<(), retain_runtime::BuildError>(())
    /// ```
    pub fn from_env(model: &str) -> Result<GeminiEmbedder, BuildError> {
        let model = model.strip_prefix("gemini/").unwrap_or(model);
        let spec: EmbedderSpec = format!("gemini/{model}").parse()?;
        spec.gemini(&Http::new(HttpSettings::default())?, &super::variable)
    }

    /// Creates an embedder that requests vectors with `dims` dimensions.
    pub fn new(http: Http, key: Secret, model: impl Into<String>, dims: usize) -> GeminiEmbedder {
        let model = model.into();
        let model = model.strip_prefix("models/").unwrap_or(&model).to_owned();
        // Newer models have no task type. They read the task, if any, from the prompt.
        let supports_task_type =
            model == "gemini-embedding-001" || model.starts_with("text-embedding");
        let embedder = GeminiEmbedder {
            http,
            base_url: BASE_URL.into(),
            api_version: API_VERSION.to_owned(),
            auth: Auth::Header("x-goog-api-key", key),
            model,
            dims,
            task_type: None,
            id: String::new(),
        };
        embedder.with_task_type(supports_task_type.then_some(TASK_TYPE))
    }

    /// Sets the task type, e.g. `RETRIEVAL_DOCUMENT`. Vectors of different task types are not
    /// comparable, so it is part of the ID.
    #[must_use]
    pub fn with_task_type(mut self, task_type: Option<&str>) -> GeminiEmbedder {
        self.id = format!("gemini/{}/{}", self.model, self.dims);
        if let Some(task_type) = task_type {
            self.id.push('/');
            self.id.push_str(task_type);
        }
        self.task_type = task_type.map(str::to_owned);
        self
    }

    /// Sets the base URL. A Google URL may end in a version.
    #[must_use]
    pub fn with_base_url(mut self, base_url: &str) -> GeminiEmbedder {
        let (base_url, version) = gemini::split_version(base_url.trim());
        self.base_url = base_url.into();
        self.api_version = version.unwrap_or(API_VERSION).to_owned();
        self
    }
}

#[async_trait]
impl Embedder for GeminiEmbedder {
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

impl EmbedWire for GeminiEmbedder {
    fn call(&self, texts: &[String]) -> Result<Call, ModelError> {
        let model = format!("models/{}", self.model);
        let request = |text: &String| {
            let part = object([("text", text.as_str().into())]);
            let mut request = JsonMap::from([
                ("model", Json::from(model.as_str())),
                ("content", object([("parts", list([part]))])),
            ]);
            if let Some(task_type) = &self.task_type {
                request.insert("taskType", task_type.as_str());
            }
            request.insert("outputDimensionality", self.dims);
            Json::from(request)
        };
        let body = object([("requests", list(texts.iter().map(request)))]).to_json();
        Ok(Call {
            url: format!(
                "{}/{}/{model}:batchEmbedContents",
                self.base_url, self.api_version
            ),
            headers: Vec::new(),
            body: body.map_err(|error| invalid_request(error.to_string()))?,
        })
    }

    /// Parses the vectors, which Gemini returns in the order of the texts, without indexes.
    fn vectors(&self, body: &Json, count: usize) -> Result<Vec<Vec<f32>>, ModelError> {
        let embeddings = body["embeddings"].as_array();
        let embeddings = embeddings
            .ok_or_else(|| malformed("the provider's response has no list of vectors"))?;
        if embeddings.len() != count {
            let found = embeddings.len();
            return Err(malformed(format!(
                "the provider returned {found} vectors for {count} texts"
            )));
        }
        let numbers = |embedding: &Json| vectors::parse_list(&embedding["values"]);
        embeddings.iter().map(numbers).collect()
    }

    fn failure(&self, status: u16, body: &str) -> Failure {
        gemini::answer::failure(status, body)
    }

    fn failure_in(&self, body: &Json) -> Option<Failure> {
        gemini::answer::failure_in(body, None)
    }

    fn is_transient(&self, code: &str) -> bool {
        gemini::answer::is_transient(code)
    }
}
