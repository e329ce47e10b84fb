//! The known servers and their features.

use reqwest::Url;

use crate::http::{Address, Secret, percent_encode};

/// OpenAI's maximum length of call IDs.
const ID_MAX: usize = 40;
/// The base URL of OpenAI.
const OPENAI: &str = "https://api.openai.com/v1";
/// The default base URL of Ollama.
const OLLAMA: &str = "http://localhost:11434/v1";

/// The path that follows the endpoint in an Azure URL without an API version:
/// <https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle>.
const AZURE_V1: &str = "/openai/v1";

/// A server with OpenAI's chat completions API.
///
/// ```
/// use retain_models::{OpenAiServer, Secret};
/// let own = OpenAiServer::new("http://localhost:8000/v1", None);
/// let openai = OpenAiServer::openai(Secret::from("sk-123"));
/// assert!(!format!("{own:?} {openai:?}").contains("sk-123"));
/// ```
#[derive(Debug, Clone)]
pub struct OpenAiServer {
    pub(super) kind: ServerKind,
    base_url: Address,
    pub(super) key: Option<Secret>,
    /// The API version; only Azure has one.
    api_version: Option<String>,
}

/// The kind of a server, which determines its features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    OpenAi,
    Azure,
    OpenRouter,
    Ollama,
    Groq,
    Mistral,
    DeepSeek,
    /// vLLM, LM Studio, llama.cpp and all others.
    Other,
}

/// The field in which a server expects the model's earlier thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThoughtField {
    /// The server does not accept thoughts.
    None,
    ReasoningContent,
    /// The field `reasoning`, with the signatures in `reasoning_details`.
    Reasoning,
}

impl OpenAiServer {
    /// Returns OpenAI's own server.
    pub fn openai(key: Secret) -> OpenAiServer {
        OpenAiServer::new(OPENAI, Some(key))
    }

    /// Returns the Ollama server on this machine.
    pub fn ollama() -> OpenAiServer {
        OpenAiServer::ollama_at(OLLAMA)
    }

    /// Returns an Ollama server on another host: `host`, `host:port` or a URL, with or without
    /// `/v1`, as in `OLLAMA_HOST`.
    pub fn ollama_at(host: &str) -> OpenAiServer {
        let host = host.trim().trim_end_matches('/');
        let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/v1"),
        };
        // Like Ollama's own client, use the default port of the URL's scheme, if it has one.
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => "",
            _ if host.contains("://") => "",
            _ => ":11434",
        };
        OpenAiServer {
            kind: ServerKind::Ollama,
            ..OpenAiServer::new(&format!("{scheme}://{authority}{port}{path}"), None)
        }
    }

    /// Returns an Azure deployment. `endpoint` is e.g. `https://name.openai.azure.com`; the model
    /// is the deployment's name. Without an `api_version`, or if the endpoint ends in `/openai/v1`,
    /// uses Azure's newer URL, which needs no version.
    pub fn azure(endpoint: &str, api_version: &str, key: Secret) -> OpenAiServer {
        let endpoint = endpoint.trim().trim_end_matches('/');
        let is_newer = endpoint.ends_with(AZURE_V1);
        let version = Some(api_version.trim().to_owned());
        let version = version.filter(|version| !version.is_empty() && !is_newer);
        let base_url = match version.is_some() || is_newer {
            true => endpoint.to_owned(),
            false => format!("{endpoint}{AZURE_V1}"),
        };
        OpenAiServer {
            kind: ServerKind::Azure,
            api_version: version,
            ..OpenAiServer::new(&base_url, Some(key))
        }
    }

    /// Returns a server by its base URL, the part before `/chat/completions`. Recognizes OpenAI,
    /// Azure, OpenRouter, Groq, Mistral and DeepSeek by their hosts.
    pub fn new(base_url: &str, key: Option<Secret>) -> OpenAiServer {
        let base_url = Address::new(base_url);
        OpenAiServer {
            kind: ServerKind::from_url(&base_url),
            base_url,
            key: key.filter(|key| !key.is_empty()),
            api_version: None,
        }
    }

    /// Returns the URL for a call to `model`. `endpoint` is e.g. `chat/completions`.
    pub(crate) fn url(&self, endpoint: &str, model: &str) -> String {
        let base = &self.base_url;
        match &self.api_version {
            Some(version) => {
                let (model, version) = (percent_encode(model), percent_encode(version));
                format!("{base}/openai/deployments/{model}/{endpoint}?api-version={version}")
            }
            None => format!("{base}/{endpoint}"),
        }
    }

    /// Returns the credentials for a call.
    pub(crate) fn auth(&self) -> crate::http::Auth {
        use crate::http::Auth;
        match (&self.key, self.kind) {
            (None, _) => Auth::None,
            (Some(key), ServerKind::Azure) => Auth::Header("api-key", key.clone()),
            (Some(key), _) => Auth::Bearer(key.clone()),
        }
    }
}

impl ServerKind {
    fn from_url(base_url: &str) -> ServerKind {
        let url = Url::parse(base_url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let is_at = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        const HOSTS: [(&str, ServerKind); 8] = [
            ("api.openai.com", ServerKind::OpenAi),
            ("openai.azure.com", ServerKind::Azure),
            ("services.ai.azure.com", ServerKind::Azure),
            ("cognitiveservices.azure.com", ServerKind::Azure),
            ("openrouter.ai", ServerKind::OpenRouter),
            ("groq.com", ServerKind::Groq),
            ("mistral.ai", ServerKind::Mistral),
            ("deepseek.com", ServerKind::DeepSeek),
        ];
        let known = HOSTS.iter().find(|(domain, _)| is_at(domain));
        known.map_or(ServerKind::Other, |(_, kind)| *kind)
    }

    /// Whether the server hosts OpenAI's own models, which reject unknown fields.
    pub(super) fn is_openai(self) -> bool {
        matches!(self, ServerKind::OpenAi | ServerKind::Azure)
    }

    /// Returns the field for the token limit. OpenAI's thinking models reject the older name, and
    /// many other servers lack the newer one.
    pub(super) fn max_tokens_field(self) -> &'static str {
        match self.is_openai() {
            true => "max_completion_tokens",
            false => "max_tokens",
        }
    }

    pub(super) fn thought_field(self) -> ThoughtField {
        match self {
            ServerKind::OpenAi | ServerKind::Azure | ServerKind::Groq | ServerKind::Mistral => {
                ThoughtField::None
            }
            ServerKind::OpenRouter | ServerKind::Ollama => ThoughtField::Reasoning,
            ServerKind::DeepSeek | ServerKind::Other => ThoughtField::ReasoningContent,
        }
    }

    /// Whether the server accepts fields that OpenAI's API does not define.
    pub(super) fn accepts_unknown_fields(self) -> bool {
        !matches!(
            self,
            ServerKind::OpenAi | ServerKind::Azure | ServerKind::Groq | ServerKind::Mistral
        )
    }

    /// Whether a stream must request usage counts. Mistral always sends them and rejects the field.
    pub(super) fn must_request_usage(self) -> bool {
        self != ServerKind::Mistral
    }

    /// Whether log probabilities are supported: Groq and Mistral reject the field.
    pub(super) fn supports_logprobs(self) -> bool {
        !matches!(self, ServerKind::Groq | ServerKind::Mistral)
    }

    pub(super) fn seed_field(self) -> &'static str {
        match self {
            ServerKind::Mistral => "random_seed",
            _ => "seed",
        }
    }

    /// Whether a response schema is supported. DeepSeek needs it in the prompt.
    pub(super) fn supports_schemas(self) -> bool {
        self != ServerKind::DeepSeek
    }

    /// Whether the reasoning effort `minimal` is supported.
    pub(super) fn supports_minimal_effort(self) -> bool {
        matches!(
            self,
            ServerKind::OpenAi | ServerKind::Azure | ServerKind::OpenRouter
        )
    }

    /// Whether the server accepts this call ID.
    pub(super) fn accepts_call_id(self, id: &str) -> bool {
        match self {
            ServerKind::Mistral => {
                id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
            _ => id.len() <= ID_MAX,
        }
    }

    /// Turns a number into a call ID that the server accepts.
    pub(super) fn call_id(self, number: usize) -> String {
        match self {
            ServerKind::Mistral => format!("call{number:05}"),
            _ => format!("retain_call_{number}"),
        }
    }

    /// Whether images of this type are supported. An unknown server may support any type, so it
    /// receives all of them.
    pub(super) fn supports_image(self, mime: &str) -> bool {
        match self {
            ServerKind::OpenAi | ServerKind::Azure | ServerKind::OpenRouter => matches!(
                mime,
                "image/png" | "image/jpeg" | "image/gif" | "image/webp"
            ),
            ServerKind::DeepSeek => false,
            _ => true,
        }
    }

    /// Whether image URLs are supported.
    pub(super) fn supports_image_urls(self) -> bool {
        self != ServerKind::Ollama
    }

    /// Whether audio in this format is supported.
    pub(super) fn supports_audio(self, format: &str) -> bool {
        match self {
            ServerKind::OpenAi | ServerKind::Azure => matches!(format, "wav" | "mp3"),
            ServerKind::OpenRouter | ServerKind::Other => true,
            ServerKind::Ollama | ServerKind::Groq | ServerKind::Mistral | ServerKind::DeepSeek => {
                false
            }
        }
    }

    pub(super) fn supports_video(self) -> bool {
        matches!(self, ServerKind::OpenRouter | ServerKind::Other)
    }

    pub(super) fn supports_documents(self) -> bool {
        matches!(
            self,
            ServerKind::OpenAi | ServerKind::Azure | ServerKind::OpenRouter | ServerKind::Other
        )
    }

    /// Whether document URLs are supported.
    pub(super) fn supports_document_urls(self) -> bool {
        self == ServerKind::OpenRouter
    }

    /// Returns the server's name for errors and logs.
    pub(super) fn name(self) -> &'static str {
        match self {
            ServerKind::OpenAi => "OpenAI",
            ServerKind::Azure => "Azure OpenAI",
            ServerKind::OpenRouter => "OpenRouter",
            ServerKind::Ollama => "Ollama",
            ServerKind::Groq => "Groq",
            ServerKind::Mistral => "Mistral",
            ServerKind::DeepSeek => "DeepSeek",
            ServerKind::Other => "an OpenAI-compatible server",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_built_from_host_deployment_and_version() {
        let chat = |server: OpenAiServer| server.url("chat/completions", "m");
        let key = || Secret::from("k");
        assert_eq!(
            chat(OpenAiServer::openai(key())),
            "https://api.openai.com/v1/chat/completions"
        );
        assert_eq!(
            chat(OpenAiServer::azure(
                "https://x.openai.azure.com/",
                "2024-10-21",
                key()
            )),
            "https://x.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21"
        );
        let azure = OpenAiServer::azure("https://x.openai.azure.com", "2024-10-21", key());
        assert_eq!(
            azure.url("embeddings", "../a b?c"),
            "https://x.openai.azure.com/openai/deployments/..%2Fa%20b%3Fc/embeddings?api-version=2024-10-21"
        );
        // Without an API version, or with an endpoint that needs none.
        for (endpoint, version) in [
            ("https://x.openai.azure.com/", ""),
            ("https://x.openai.azure.com", " "),
            ("https://x.openai.azure.com/openai/v1/", "2024-10-21"),
        ] {
            let azure = OpenAiServer::azure(endpoint, version, key());
            assert_eq!(azure.kind, ServerKind::Azure);
            let expected = "https://x.openai.azure.com/openai/v1/chat/completions";
            assert_eq!(chat(azure), expected, "{endpoint} {version:?}");
        }
        assert_eq!(
            chat(OpenAiServer::new("http://localhost:8000/v1/", None)),
            "http://localhost:8000/v1/chat/completions"
        );
        for (host, address) in [
            ("box", "http://box:11434/v1"),
            ("box:1234", "http://box:1234/v1"),
            ("http://box:1234/", "http://box:1234/v1"),
            ("https://box.example", "https://box.example/v1"),
            ("http://box:1234/v1", "http://box:1234/v1"),
            (" 127.0.0.1 ", "http://127.0.0.1:11434/v1"),
        ] {
            let server = OpenAiServer::ollama_at(host);
            assert_eq!(&*server.base_url, address, "{host}");
            assert_eq!(server.kind, ServerKind::Ollama);
        }
        assert_eq!(&*OpenAiServer::ollama().base_url, OLLAMA);
    }

    #[test]
    fn known_host_selects_its_server_kind() {
        for (url, kind) in [
            ("https://api.openai.com/v1", ServerKind::OpenAi),
            ("https://eu.api.openai.com/v1", ServerKind::OpenAi),
            ("https://x.openai.azure.com/openai/v1", ServerKind::Azure),
            (
                "https://x.cognitiveservices.azure.com/openai/v1",
                ServerKind::Azure,
            ),
            ("https://openrouter.ai/api/v1", ServerKind::OpenRouter),
            ("https://api.groq.com/openai/v1", ServerKind::Groq),
            ("https://api.mistral.ai/v1", ServerKind::Mistral),
            ("https://api.deepseek.com", ServerKind::DeepSeek),
            ("http://localhost:1234/v1", ServerKind::Other),
            ("https://notopenrouter.ai/v1", ServerKind::Other),
            ("no address", ServerKind::Other),
        ] {
            assert_eq!(ServerKind::from_url(url), kind, "{url}");
        }
    }
}
