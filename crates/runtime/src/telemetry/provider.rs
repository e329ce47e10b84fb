//! Derives a model's provider from its name, by ADK 2.13's rules for `gen_ai.system`.

use std::env;

/// First segments of resource names. They do not name a model's provider.
const COLLECTIONS: [&str; 6] = [
    "endpoints",
    "locations",
    "models",
    "projects",
    "publishers",
    "tunedmodels",
];

/// Returns the provider of a model. As in ADK, the provider of an unknown model is Google.
pub(super) fn provider_or_google(model: &str) -> String {
    if model == "offline" {
        return "retain".to_owned();
    }
    provider_of(model).unwrap_or_else(|| google_api_name().to_owned())
}

/// Returns the provider that the model's name implies; `None` for Google, or if the name implies
/// none.
fn provider_of(model: &str) -> Option<String> {
    let name = bare_name(model);
    let start = name.get(..7).unwrap_or_default().to_ascii_lowercase();
    match &*start {
        "gemini-" if name.starts_with("gemini-") => return None,
        "claude-" | "claude." => return Some("anthropic".to_owned()),
        _ => {}
    }
    let provider = name.split_once('/')?.0.to_lowercase();
    let is_provider = !provider.is_empty() && !COLLECTIONS.contains(&&*provider);
    is_provider.then_some(provider)
}

/// Returns the name of the Google API in use.
pub(super) fn google_api_name() -> &'static str {
    let names = ["GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"];
    let value = names.iter().find_map(|name| env::var(name).ok());
    let value = value.unwrap_or_default().to_ascii_lowercase();
    match matches!(&*value, "true" | "1") {
        true => "vertex_ai",
        false => "gemini",
    }
}

/// Returns the model name without the resource path.
fn bare_name(model: &str) -> &str {
    if model.starts_with("projects/") {
        let of_publisher = model.contains("/publishers/");
        let name = model.split_once("/models/").filter(|_| of_publisher);
        return name.map_or(model, |(_, name)| name);
    }
    if let Some(name) = model.strip_prefix("models/") {
        return name;
    }
    match model.rsplit_once('/') {
        Some((_, name)) if name.starts_with("gemini-") => name,
        _ => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_follows_from_the_model_name() {
        let vertex = "projects/p/locations/l/publishers/anthropic/models/claude-x";
        let known = [
            ("gemini-2.5-flash", None),
            ("models/gemini-2.5-pro", None),
            ("openrouter/google/gemini-2.5-pro", None),
            ("scripted", None),
            ("", None),
            ("tunedModels/mine", None),
            ("/x", None),
            ("Claude-opus-4", Some("anthropic")),
            (vertex, Some("anthropic")),
            ("anthropic/claude-x", Some("anthropic")),
            ("OpenAI/gpt-5", Some("openai")),
            ("ollama/llama3:8b", Some("ollama")),
        ];
        for (model, provider) in known {
            assert_eq!(provider_of(model).as_deref(), provider, "{model}");
        }
        assert_eq!(provider_or_google("offline"), "retain");
    }
}
