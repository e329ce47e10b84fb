//! Resolves models by name: `offline` and registered names.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::Model;
use crate::error::BuildError;

/// A model as an agent specifies it: a name to resolve, or a model.
#[derive(Debug, Clone)]
pub enum ModelSpec {
    /// A name, resolved when the agent is built.
    Named(String),
    /// A model.
    Model(Arc<dyn Model>),
}

impl From<&str> for ModelSpec {
    fn from(name: &str) -> ModelSpec {
        ModelSpec::Named(name.to_owned())
    }
}

impl From<String> for ModelSpec {
    fn from(name: String) -> ModelSpec {
        ModelSpec::Named(name)
    }
}

impl<M: IntoModel> From<M> for ModelSpec {
    fn from(model: M) -> ModelSpec {
        ModelSpec::Model(model.into_model())
    }
}

/// A model or an `Arc` of one.
pub trait IntoModel {
    /// Converts the value to a shared model.
    fn into_model(self) -> Arc<dyn Model>;
}

impl<M: Model> IntoModel for M {
    fn into_model(self) -> Arc<dyn Model> {
        Arc::new(self)
    }
}

impl<M: Model> IntoModel for Arc<M> {
    fn into_model(self) -> Arc<dyn Model> {
        self
    }
}

impl IntoModel for Arc<dyn Model> {
    fn into_model(self) -> Arc<dyn Model> {
        self
    }
}

type ModelFactory = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, BuildError> + Send + Sync>;

/// Maps model names to models.
///
/// ```
/// use std::sync::Arc;
/// use retain_runtime::{ModelRegistry, ScriptedModel};
/// let mut models = ModelRegistry::default();
/// models.register("test/", |name| Ok(Arc::new(ScriptedModel::new(name))));
/// assert_eq!(models.model("test/greeter").unwrap().name(), "test/greeter");
/// assert!(models.model("gpt").unwrap_err().to_string().contains("offline"));
/// ```
#[derive(Clone)]
pub struct ModelRegistry {
    by_prefix: BTreeMap<String, ModelFactory>,
}

impl Default for ModelRegistry {
    /// Creates a registry with the built-in models.
    fn default() -> ModelRegistry {
        let mut registry = ModelRegistry {
            by_prefix: BTreeMap::new(),
        };
        registry.register("offline", |_| Ok(Arc::new(crate::OfflineModel::new())));
        registry
    }
}

impl ModelRegistry {
    /// Registers `make` as the constructor for names that start with `prefix`. The longest prefix
    /// wins.
    pub fn register(
        &mut self,
        prefix: impl Into<String>,
        make: impl Fn(&str) -> Result<Arc<dyn Model>, BuildError> + Send + Sync + 'static,
    ) {
        self.by_prefix.insert(prefix.into(), Arc::new(make));
    }

    /// Returns the model for `name`.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, BuildError> {
        let fits = |prefix: &&String| name.starts_with(prefix.as_str());
        let best = self.by_prefix.keys().filter(fits).max_by_key(|p| p.len());
        match best.and_then(|prefix| self.by_prefix.get(prefix)) {
            Some(make) => make(name),
            None => {
                let known: Vec<_> = self.by_prefix.keys().map(String::as_str).collect();
                Err(BuildError::new(
                    format!("model {name:?}"),
                    format!("unknown; known names begin with: {}", known.join(", ")),
                ))
            }
        }
    }

    /// Returns the model for `spec`.
    pub fn resolve(&self, spec: &ModelSpec) -> Result<Arc<dyn Model>, BuildError> {
        match spec {
            ModelSpec::Named(name) => self.model(name),
            ModelSpec::Model(model) => Ok(Arc::clone(model)),
        }
    }
}

impl fmt::Debug for ModelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_prefix.keys()).finish()
    }
}
