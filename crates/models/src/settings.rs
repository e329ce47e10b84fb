//! `ModelSettings`: API keys and URLs from the environment or, as a fallback, from a file.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::names::{SERVERS, Server};

/// Settings of the providers, from the usual environment variables such as `GOOGLE_API_KEY` or
/// `OPENAI_BASE_URL`. An empty variable counts as unset.
///
/// ```
/// use retain_models::ModelSettings;
/// let settings = ModelSettings::from_variables([("OPENAI_API_KEY", "sk-123456")]);
/// assert!(settings.has("OPENAI_API_KEY") && !settings.has("ANTHROPIC_API_KEY"));
/// assert!(!format!("{settings:?}").contains("sk-123456"));
/// ```
#[derive(Clone)]
pub struct ModelSettings {
    environment: Variables,
    fallbacks: BTreeMap<String, String>,
}

type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings::from_env()
    }
}

impl ModelSettings {
    /// Creates settings that read the environment of this process.
    pub fn from_env() -> ModelSettings {
        ModelSettings::from_lookup(|name| std::env::var(name).ok())
    }

    /// Creates settings that take variables from this function instead of the environment.
    pub(crate) fn from_lookup(
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> ModelSettings {
        ModelSettings {
            environment: Arc::new(variables),
            fallbacks: BTreeMap::new(),
        }
    }

    /// Creates settings with only these variables, without the environment.
    pub fn from_variables<N: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> ModelSettings {
        let variables = variables.into_iter();
        ModelSettings {
            environment: Arc::new(|_| None),
            fallbacks: variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }

    /// Sets the value of a variable that the environment does not set. Does not replace an earlier
    /// fallback.
    #[must_use]
    pub fn with_fallback(
        mut self,
        variable: impl Into<String>,
        value: impl Into<String>,
    ) -> ModelSettings {
        self.fallbacks
            .entry(variable.into())
            .or_insert(value.into());
        self
    }

    /// Returns the variable for a setting of a provider, e.g. `ANTHROPIC_API_KEY` for `api-key` of
    /// `anthropic`. If a setting has several variables, this is the one with the lowest precedence,
    /// so that a value from a file never overrides the environment.
    ///
    /// | provider | settings |
    /// |---|---|
    /// | `gemini` | `api-key`, `base-url` |
    /// | `vertex` | `use`, `project`, `location`, `credentials`, `base-url` |
    /// | `anthropic` | `api-key`, `base-url` |
    /// | `openai`, `openrouter`, `groq` and compatible servers | `api-key`, `base-url` |
    /// | `azure` | `api-key`, `base-url`, `api-version` |
    /// | `ollama` | `base-url` |
    pub fn variable_of(provider: &str, setting: &str) -> Option<&'static str> {
        Some(match (provider, setting) {
            ("gemini", "api-key") => "GEMINI_API_KEY",
            ("gemini", "base-url") => "GOOGLE_GEMINI_BASE_URL",
            ("vertex", "use") => "GOOGLE_GENAI_USE_VERTEXAI",
            ("vertex", "project") => "GOOGLE_CLOUD_PROJECT",
            ("vertex", "location") => "GOOGLE_CLOUD_LOCATION",
            ("vertex", "credentials") => "GOOGLE_APPLICATION_CREDENTIALS",
            ("vertex", "base-url") => "GOOGLE_VERTEX_BASE_URL",
            ("anthropic", "api-key") => "ANTHROPIC_API_KEY",
            ("anthropic", "base-url") => "ANTHROPIC_BASE_URL",
            ("azure", "api-key") => "AZURE_API_KEY",
            ("azure", "base-url") => "AZURE_API_BASE",
            ("azure", "api-version") => "AZURE_API_VERSION",
            ("ollama", "base-url") => "OLLAMA_API_BASE",
            (provider, setting) => {
                let is_it = |server: &&Server| server.prefix.strip_suffix('/') == Some(provider);
                let server = SERVERS.iter().find(is_it)?;
                let variables = match setting {
                    "api-key" => server.key_variables,
                    "base-url" => server.base_url_variables,
                    _ => return None,
                };
                variables.last()?
            }
        })
    }

    /// Whether a variable is set and not empty.
    pub fn has(&self, variable: &str) -> bool {
        self.get(variable).is_some()
    }

    pub(crate) fn get(&self, variable: &str) -> Option<String> {
        self.first_of(&[variable])
    }

    /// Returns the value of the first of these variables that is set. A variable in the environment
    /// takes precedence over all fallbacks.
    pub(crate) fn first_of(&self, variables: &[&str]) -> Option<String> {
        let found = self.first_with_name(variables);
        found.map(|(_, value)| value)
    }

    /// Returns the same value as `first_of`, with the name of its variable.
    pub(crate) fn first_with_name<'a>(&self, variables: &[&'a str]) -> Option<(&'a str, String)> {
        let is_set = |value: &String| !value.trim().is_empty();
        let in_environment = |name: &str| (self.environment)(name).filter(is_set);
        let in_fallbacks = |name: &str| self.fallbacks.get(name).cloned().filter(is_set);
        let first = variables
            .iter()
            .find_map(|name| Some((*name, in_environment(name)?)));
        first.or_else(|| {
            let mut names = variables.iter();
            names.find_map(|name| Some((*name, in_fallbacks(name)?)))
        })
    }
}

impl fmt::Debug for ModelSettings {
    /// Prints names, never values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.fallbacks.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_overrides_fallbacks_and_empty_variable_counts_as_unset() {
        let settings = ModelSettings::from_lookup(|name| match name {
            "A" => Some("environment".to_owned()),
            "B" => Some("  ".to_owned()),
            _ => None,
        });
        let settings = settings
            .with_fallback("A", "fallback")
            .with_fallback("B", "fallback")
            .with_fallback("C", "")
            .with_fallback("B", "later");
        assert_eq!(settings.get("A").as_deref(), Some("environment"));
        assert_eq!(settings.get("B").as_deref(), Some("fallback"));
        assert!(!settings.has("C") && !settings.has("D"));
        // `A` is in the environment and `B` only a fallback, so `A` takes precedence although `B`
        // comes first.
        let first = settings.first_with_name(&["D", "B", "A"]);
        assert_eq!(first, Some(("A", "environment".to_owned())));
        assert_eq!(settings.first_of(&["D", "B"]).as_deref(), Some("fallback"));
    }

    #[test]
    fn variable_of_names_the_variable_with_the_lowest_precedence() {
        let of = ModelSettings::variable_of;
        assert_eq!(of("openai", "api-key"), Some("OPENAI_API_KEY"));
        assert_eq!(of("openai", "base-url"), Some("OPENAI_API_BASE"));
        assert_eq!(of("together_ai", "api-key"), Some("TOGETHER_API_KEY"));
        assert_eq!(of("vertex", "project"), Some("GOOGLE_CLOUD_PROJECT"));
        assert_eq!(of("ollama", "api-key"), None);
        assert_eq!(of("martian", "api-key"), None);
    }
}
