//! The models of a server. The built-in app uses `--model`, or the best model that has an API key, or
//! the offline one.

use std::sync::Arc;
#[cfg(feature = "models")]
use std::time::Duration;

use retain::{memory::Embedder, model::ModelRegistry};

use super::settings::Settings;

/// The models of a server.
pub(super) struct ServerModels {
    pub(super) registry: ModelRegistry,
    pub(super) built_in: BuiltInModel,
    /// The embedder of memories, if one is configured.
    pub(super) embedder: Option<Arc<dyn Embedder>>,
}

/// The model of the built-in app.
pub(super) struct BuiltInModel {
    pub(super) name: String,
    /// The variable that selected it; `None` if the user named it or if it is the fallback.
    pub(super) because_of: Option<&'static str>,
}

impl BuiltInModel {
    pub(super) fn is_offline(&self) -> bool {
        self.name == OFFLINE
    }
}

const OFFLINE: &str = "offline";

/// Builds the registry from the settings. A model that the user names must resolve.
#[cfg(feature = "models")]
pub(super) fn build(settings: &Settings) -> anyhow::Result<ServerModels> {
    let http = retain::model::Http::new(http_settings(settings)?)?;
    let models = retain::model::Models::with_http(model_settings(settings)?, http);
    let suggested = models.suggested();
    let built_in = match (&settings.model, suggested) {
        (Some(name), _) => BuiltInModel {
            name: name.clone(),
            because_of: None,
        },
        (None, Some(suggested)) => BuiltInModel {
            name: suggested.name.to_owned(),
            because_of: Some(suggested.variable),
        },
        (None, None) => offline(),
    };
    if settings.agents_dir.is_none() {
        models.model(&built_in.name)?;
    }
    let embedder = settings.embedder.as_deref();
    let embedder = embedder.map(|name| models.embedder(name)).transpose()?;
    Ok(ServerModels {
        registry: models.registry(),
        built_in,
        embedder,
    })
}

/// The offline model is the only one.
#[cfg(not(feature = "models"))]
pub(super) fn build(settings: &Settings) -> anyhow::Result<ServerModels> {
    let is_needed = !settings.models.is_empty() || settings.embedder.is_some();
    anyhow::ensure!(
        !is_needed,
        crate::commands::missing_feature("model provider", "models")
    );
    let registry = ModelRegistry::default();
    let name = settings.model.clone();
    if let Some(name) = &name {
        registry.model(name)?;
    }
    let built_in = name.map_or_else(offline, |name| BuiltInModel {
        name,
        because_of: None,
    });
    Ok(ServerModels {
        registry,
        built_in,
        embedder: None,
    })
}

fn offline() -> BuiltInModel {
    BuiltInModel {
        name: OFFLINE.to_owned(),
        because_of: None,
    }
}

/// The environment, and the section `models` of the file for what it does not set.
#[cfg(feature = "models")]
fn model_settings(settings: &Settings) -> anyhow::Result<retain::model::ModelSettings> {
    use retain::model::ModelSettings;

    use super::settings::SettingValue;

    let mut known = ModelSettings::from_env();
    let providers = settings.models.iter().filter(|(name, _)| *name != HTTP);
    for (provider, section) in providers {
        for (name, value) in section {
            let setting = name.replace('_', "-");
            let Some(variable) = ModelSettings::variable_of(provider, &setting) else {
                anyhow::bail!("unknown setting models.{provider}.{name}");
            };
            known = known.with_fallback(
                variable,
                match value {
                    SettingValue::Text(text) => text.clone(),
                    SettingValue::Flag(flag) => flag.to_string(),
                    SettingValue::Number(_) => {
                        anyhow::bail!("the setting models.{provider}.{name} must be a string")
                    }
                },
            );
        }
    }
    Ok(known)
}

/// The section for all providers.
#[cfg(feature = "models")]
const HTTP: &str = "http";

/// Timeouts in seconds, and retries.
#[cfg(feature = "models")]
fn http_settings(settings: &Settings) -> anyhow::Result<retain::model::HttpSettings> {
    use super::settings::SettingValue;

    let mut http = retain::model::HttpSettings::default();
    for (name, value) in settings.models.get(HTTP).into_iter().flatten() {
        let wrong = |why: &str| anyhow::anyhow!("the setting models.{HTTP}.{name} {why}");
        let SettingValue::Number(number) = *value else {
            return Err(wrong("must be a number"));
        };
        let wait = || {
            let wait = Duration::try_from_secs_f64(number);
            wait.map_err(|_| wrong("must be a number of seconds"))
        };
        let time = || match wait()? {
            Duration::ZERO => Err(wrong("must be greater than 0")),
            time => Ok(time),
        };
        match name.replace('_', "-").as_str() {
            "connect-timeout" => http.connect_timeout = time()?,
            "idle-timeout" => http.idle_timeout = time()?,
            "total-timeout" => http.total_timeout = time()?,
            "attempts" if number.fract() == 0.0 && (1.0..=100.0).contains(&number) => {
                http.retries.attempts = number as u32;
            }
            "attempts" => return Err(wrong("must be an integer from 1 to 100")),
            "first-wait" => http.retries.first_wait = wait()?,
            "longest-wait" => http.retries.longest_wait = wait()?,
            "wait-budget" => http.retries.budget = wait()?,
            _ => return Err(wrong("is unknown")),
        }
    }
    Ok(http)
}
