//! Maps model names to providers: Retain's own spellings and those of ADK agents.

/// A model and its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelName {
    /// A Gemini model. The settings choose between the Gemini API and Vertex AI.
    Gemini(String),
    /// A Gemini model on Vertex AI.
    GeminiOnVertex(String),
    /// Claude: at Anthropic if an API key is set, else on Vertex AI.
    Claude(String),
    /// Claude on Vertex AI.
    ClaudeOnVertex(String),
    /// A model on an OpenAI-compatible server.
    Compatible(&'static Server, String),
    /// A deployment on Azure.
    Azure(String),
    /// A model on an Ollama server.
    Ollama(String),
}

/// An OpenAI-compatible server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The prefix of model names.
    pub(crate) prefix: &'static str,
    /// The base URL; `None` if it must be configured.
    pub(crate) base_url: Option<&'static str>,
    /// Environment variables that override the base URL.
    pub(crate) base_url_variables: &'static [&'static str],
    /// Environment variables that hold the API key.
    pub(crate) key_variables: &'static [&'static str],
    /// Whether the server is self-hosted, so that it might not need an API key.
    pub(crate) is_self_hosted: bool,
}

/// The known servers, with LiteLLM's prefixes and variables.
pub(crate) static SERVERS: [Server; 10] = [
    Server {
        prefix: "openai/",
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "openrouter/",
        base_url: Some("https://openrouter.ai/api/v1"),
        base_url_variables: &["OPENROUTER_API_BASE"],
        key_variables: &["OPENROUTER_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "groq/",
        base_url: Some("https://api.groq.com/openai/v1"),
        base_url_variables: &["GROQ_API_BASE"],
        key_variables: &["GROQ_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "mistral/",
        base_url: Some("https://api.mistral.ai/v1"),
        base_url_variables: &["MISTRAL_API_BASE"],
        key_variables: &["MISTRAL_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "deepseek/",
        base_url: Some("https://api.deepseek.com/v1"),
        base_url_variables: &["DEEPSEEK_API_BASE"],
        key_variables: &["DEEPSEEK_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "together_ai/",
        base_url: Some("https://api.together.xyz/v1"),
        base_url_variables: &["TOGETHER_AI_API_BASE"],
        key_variables: &["TOGETHERAI_API_KEY", "TOGETHER_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "fireworks_ai/",
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        base_url_variables: &["FIREWORKS_AI_API_BASE"],
        key_variables: &["FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "xai/",
        base_url: Some("https://api.x.ai/v1"),
        base_url_variables: &["XAI_API_BASE"],
        key_variables: &["XAI_API_KEY"],
        is_self_hosted: false,
    },
    Server {
        prefix: "hosted_vllm/",
        base_url: None,
        base_url_variables: &["HOSTED_VLLM_API_BASE"],
        key_variables: &["HOSTED_VLLM_API_KEY"],
        is_self_hosted: true,
    },
    Server {
        prefix: "lm_studio/",
        base_url: Some("http://localhost:1234/v1"),
        base_url_variables: &["LM_STUDIO_API_BASE"],
        key_variables: &["LM_STUDIO_API_KEY"],
        is_self_hosted: true,
    },
];

/// Known prefixes of names, in addition to those of [`SERVERS`]. A prefix that ends in a colon is
/// the name of an ADK class.
pub(crate) const PREFIXES: [&str; 27] = [
    "gemini-",
    "gemini/",
    "gemma-",
    "model-optimizer-",
    "models/",
    "projects/",
    "vertex_ai/",
    "claude-",
    "anthropic/",
    "azure/",
    "ollama/",
    "ollama_chat/",
    "gpt-",
    "chatgpt-",
    "o1",
    "o3",
    "o4",
    "gemini:",
    "Gemini:",
    "claude:",
    "Claude:",
    "openai:",
    "OpenAI:",
    "OpenAILlm:",
    "litellm:",
    "LiteLlm:",
    "LiteLLM:",
];

impl ModelName {
    /// Returns the model that `name` selects; `None` if the name is unknown.
    pub(crate) fn from_name(name: &str) -> Option<ModelName> {
        if let Some((class, rest)) = name.split_once(':') {
            match class.to_ascii_lowercase().as_str() {
                "gemini" => return Some(ModelName::Gemini(rest.to_owned())),
                "claude" => return Some(ModelName::Claude(rest.to_owned())),
                "openai" | "openaillm" => return Some(ModelName::openai(rest)),
                "litellm" | "lite" => return ModelName::from_name(rest),
                _ => {}
            }
        }
        for server in &SERVERS {
            if let Some(model) = name.strip_prefix(server.prefix) {
                return Some(ModelName::Compatible(server, model.to_owned()));
            }
        }
        let (prefix, model) = name.split_once('/').unwrap_or(("", name));
        Some(match prefix {
            "anthropic" => ModelName::Claude(model.to_owned()),
            "azure" => ModelName::Azure(model.to_owned()),
            "ollama" | "ollama_chat" => ModelName::Ollama(model.to_owned()),
            "gemini" => ModelName::Gemini(model.to_owned()),
            "vertex_ai" if model.starts_with("claude-") => {
                ModelName::ClaudeOnVertex(model.to_owned())
            }
            "vertex_ai" => ModelName::GeminiOnVertex(model.to_owned()),
            "projects" if name.contains("/publishers/anthropic/") => {
                ModelName::ClaudeOnVertex(name.to_owned())
            }
            "projects" => ModelName::GeminiOnVertex(name.to_owned()),
            "models" => ModelName::Gemini(name.to_owned()),
            "" if model.starts_with("claude-") => ModelName::Claude(model.to_owned()),
            "" if is_openais(model) => ModelName::openai(model),
            "" if is_googles(model) => ModelName::Gemini(model.to_owned()),
            _ => return None,
        })
    }

    fn openai(model: &str) -> ModelName {
        let model = model.strip_prefix("openai/").unwrap_or(model);
        ModelName::Compatible(&SERVERS[0], model.to_owned())
    }
}

fn is_googles(model: &str) -> bool {
    let families = ["gemini-", "gemma-", "model-optimizer-"];
    families.iter().any(|family| model.starts_with(family))
}

/// Whether OpenAI makes the model, such as `gpt-4o` or `o3-mini`.
fn is_openais(model: &str) -> bool {
    let numbered = model.strip_prefix('o').unwrap_or_default();
    let digits = numbered.chars().take_while(char::is_ascii_digit).count();
    let is_numbered = digits > 0 && matches!(numbered.as_bytes().get(digits), None | Some(b'-'));
    model.starts_with("gpt-") || model.starts_with("chatgpt-") || is_numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(name: &str) -> String {
        match ModelName::from_name(name) {
            None => "unknown".to_owned(),
            Some(ModelName::Gemini(model)) => format!("gemini {model}"),
            Some(ModelName::GeminiOnVertex(model)) => format!("vertex gemini {model}"),
            Some(ModelName::Claude(model)) => format!("claude {model}"),
            Some(ModelName::ClaudeOnVertex(model)) => format!("vertex claude {model}"),
            Some(ModelName::Azure(model)) => format!("azure {model}"),
            Some(ModelName::Ollama(model)) => format!("ollama {model}"),
            Some(ModelName::Compatible(server, model)) => format!("{} {model}", server.prefix),
        }
    }

    const VERTEX: &str = "projects/p/locations/l/publishers/google/models/gemini-x";
    const VERTEX_CLAUDE: &str = "projects/p/locations/l/publishers/anthropic/models/claude-x";
    const ENDPOINT: &str = "projects/p/locations/l/endpoints/1";

    #[test]
    fn model_name_selects_the_provider() {
        let cases = [
            ("gemini-2.5-flash", "gemini gemini-2.5-flash".to_owned()),
            (
                "gemini/gemini-2.5-flash",
                "gemini gemini-2.5-flash".to_owned(),
            ),
            ("Gemini:gemini-x", "gemini gemini-x".to_owned()),
            ("gemma-4-27b", "gemini gemma-4-27b".to_owned()),
            ("models/gemini-x", "gemini models/gemini-x".to_owned()),
            ("vertex_ai/gemini-x", "vertex gemini gemini-x".to_owned()),
            (VERTEX, format!("vertex gemini {VERTEX}")),
            (ENDPOINT, format!("vertex gemini {ENDPOINT}")),
            (VERTEX_CLAUDE, format!("vertex claude {VERTEX_CLAUDE}")),
            ("claude-sonnet-5", "claude claude-sonnet-5".to_owned()),
            ("anthropic/claude-x", "claude claude-x".to_owned()),
            (
                "vertex_ai/claude-x@1",
                "vertex claude claude-x@1".to_owned(),
            ),
            ("openai/gpt-4o", "openai/ gpt-4o".to_owned()),
            ("openai:gpt-4o", "openai/ gpt-4o".to_owned()),
            ("LiteLlm:openai/gpt-4o", "openai/ gpt-4o".to_owned()),
            ("gpt-4o", "openai/ gpt-4o".to_owned()),
            ("o3-mini", "openai/ o3-mini".to_owned()),
            ("o3", "openai/ o3".to_owned()),
            ("openrouter/a/b:free", "openrouter/ a/b:free".to_owned()),
            ("azure/my-gpt", "azure my-gpt".to_owned()),
            ("ollama/llama3:8b", "ollama llama3:8b".to_owned()),
            ("ollama_chat/qwen", "ollama qwen".to_owned()),
            (
                "hosted_vllm/meta/llama",
                "hosted_vllm/ meta/llama".to_owned(),
            ),
            ("olmo-2", "unknown".to_owned()),
            ("bedrock/x", "unknown".to_owned()),
            ("llama3", "unknown".to_owned()),
        ];
        for (name, expected) in cases {
            assert_eq!(describe(name), expected, "{name}");
        }
    }
}
