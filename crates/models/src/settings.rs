//! `ModelSettings`: keys and addresses, from the environment or, where that is silent, a file.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// Which providers can be reached, and how: what the usual environment variables say, e.g.
/// `GOOGLE_API_KEY` or `OPENAI_BASE_URL`. An empty variable says nothing.
///
/// ```
/// use retain_models::ModelSettings;
/// let settings = ModelSettings::of([("OPENAI_API_KEY", "sk-123456")]);
/// assert!(settings.has("OPENAI_API_KEY") && !settings.has("ANTHROPIC_API_KEY"));
/// assert!(!format!("{settings:?}").contains("sk-123456"));
/// ```
#[derive(Clone)]
pub struct ModelSettings {
    first: Variables,
    otherwise: BTreeMap<String, String>,
}

type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings::from_env()
    }
}

impl ModelSettings {
    /// What the environment says.
    pub fn from_env() -> ModelSettings {
        ModelSettings {
            first: Arc::new(|name| std::env::var(name).ok()),
            otherwise: BTreeMap::new(),
        }
    }

    /// These variables and no others.
    pub fn of<N: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> ModelSettings {
        let variables = variables.into_iter();
        ModelSettings {
            first: Arc::new(|_| None),
            otherwise: variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }

    /// What a variable is where the environment does not have it.
    #[must_use]
    pub fn or(mut self, variable: impl Into<String>, value: impl Into<String>) -> ModelSettings {
        self.otherwise
            .entry(variable.into())
            .or_insert(value.into());
        self
    }

    /// Whether a variable says something.
    pub fn has(&self, variable: &str) -> bool {
        self.get(variable).is_some()
    }

    pub(crate) fn get(&self, variable: &str) -> Option<String> {
        let says = |value: &String| !value.trim().is_empty();
        let first = (self.first)(variable).filter(says);
        first.or_else(|| {
            self.otherwise
                .get(variable)
                .filter(|value| says(value))
                .cloned()
        })
    }

    /// The first of these variables that says something.
    pub(crate) fn first_of(&self, variables: &[&str]) -> Option<String> {
        variables.iter().find_map(|variable| self.get(variable))
    }
}

impl fmt::Debug for ModelSettings {
    /// Names, never values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.otherwise.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_comes_first_and_an_empty_variable_says_nothing() {
        let settings = ModelSettings {
            first: Arc::new(|name| match name {
                "A" => Some("environment".to_owned()),
                "B" => Some("  ".to_owned()),
                _ => None,
            }),
            otherwise: BTreeMap::new(),
        };
        let settings = settings
            .or("A", "file")
            .or("B", "file")
            .or("C", "")
            .or("B", "later");
        assert_eq!(settings.get("A").as_deref(), Some("environment"));
        assert_eq!(settings.get("B").as_deref(), Some("file"));
        assert!(!settings.has("C") && !settings.has("D"));
        assert_eq!(settings.first_of(&["D", "B", "A"]).as_deref(), Some("file"));
    }
}
