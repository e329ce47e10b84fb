//! The models of a server. The built-in app uses `--model`. Without it, the app uses the best model
//! that has an API key, or else the offline model.

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
    /// The environment variable that selected the model; `None` if the user named the model or if
    /// it is the fallback.
    pub(super) selected_by: Option<&'static str>,
}

impl BuiltInModel {
    pub(super) fn is_offline(&self) -> bool {
        self.name == OFFLINE
    }
}

const OFFLINE: &str = "offline";

/// Builds the registry from the settings. Fails if the model of the built-in app is not available.
#[cfg(feature = "models")]
pub(super) fn build(settings: &Settings) -> anyhow::Result<ServerModels> {
    let http = retain::model::Http::new(http_settings(settings)?)?;
    let models = retain::model::Models::with_http(model_settings(settings)?, http);
    let suggested = models.suggested();
    let built_in = match (&settings.model, suggested) {
        (Some(name), _) => BuiltInModel {
            name: name.clone(),
            selected_by: None,
        },
        (None, Some(suggested)) => BuiltInModel {
            name: suggested.name.to_owned(),
            selected_by: Some(suggested.variable),
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

/// Returns the offline model, the only one of a build without model providers.
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
        selected_by: None,
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
        selected_by: None,
    }
}

/// Reads the settings of the providers from the environment. The section `models` of the settings
/// file adds those that the environment does not set.
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
                anyhow::bail!(unknown_setting(provider, name));
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

/// Returns the error for a setting that no provider has. It lists the settings of the provider.
#[cfg(feature = "models")]
fn unknown_setting(provider: &str, name: &str) -> String {
    const SETTINGS: [&str; 7] = [
        "api-key",
        "base-url",
        "api-version",
        "use",
        "project",
        "location",
        "credentials",
    ];
    let is_known =
        |setting: &&str| retain::model::ModelSettings::variable_of(provider, setting).is_some();
    let known: Vec<&str> = SETTINGS.into_iter().filter(is_known).collect();
    if known.is_empty() {
        return format!(
            "unknown provider in the setting models.{provider}.{name}; expected {HTTP}, gemini, \
             vertex, anthropic, azure, ollama or the name of an OpenAI-compatible server, such as \
             openai, openrouter or groq"
        );
    }
    let known = known.join(", ");
    format!("unknown setting models.{provider}.{name}; expected one of: {known}")
}

/// The section whose settings apply to all providers: timeouts and retries.
#[cfg(feature = "models")]
const HTTP: &str = "http";

/// Reads timeouts in seconds and retries from the section [`HTTP`].
#[cfg(feature = "models")]
fn http_settings(settings: &Settings) -> anyhow::Result<retain::model::HttpSettings> {
    use super::settings::SettingValue;

    let mut http = retain::model::HttpSettings::default();
    for (name, value) in settings.models.get(HTTP).into_iter().flatten() {
        let invalid = |why: &str| anyhow::anyhow!("the setting models.{HTTP}.{name} {why}");
        let SettingValue::Number(number) = *value else {
            return Err(invalid("must be a number"));
        };
        let wait = || {
            let wait = Duration::try_from_secs_f64(number);
            wait.map_err(|_| {
                invalid(&format!(
                    "must be a non-negative number of seconds, found {number}"
                ))
            })
        };
        let time = || match wait()? {
            Duration::ZERO => Err(invalid("must be greater than 0")),
            time => Ok(time),
        };
        match name.replace('_', "-").as_str() {
            "connect-timeout" => http.connect_timeout = time()?,
            "idle-timeout" => http.idle_timeout = time()?,
            "total-timeout" => http.total_timeout = time()?,
            "attempts" if number.fract() == 0.0 && (1.0..=100.0).contains(&number) => {
                http.retries.attempts = number as u32;
            }
            "attempts" => return Err(invalid("must be an integer from 1 to 100")),
            "first-wait" => http.retries.first_wait = wait()?,
            "longest-wait" => http.retries.longest_wait = wait()?,
            "wait-budget" => http.retries.budget = wait()?,
            _ => {
                return Err(invalid(
                    "is unknown; expected one of: connect-timeout, idle-timeout, total-timeout, \
                     attempts, first-wait, longest-wait, wait-budget",
                ));
            }
        }
    }
    Ok(http)
}

#[cfg(all(test, not(feature = "models")))]
mod tests {
    use clap::Parser;

    use super::{super::settings::PartialSettings, *};

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: PartialSettings,
    }

    #[test]
    fn error_for_an_embedder_names_the_missing_feature() {
        let line = CommandLine::parse_from(["serve", "--embedder", "openai/small"]);
        let settings = Settings::resolve(line.options, None).unwrap();
        assert_eq!(
            build(&settings).unwrap_err().to_string(),
            "this build has no model provider support: install a package, or build with --features \
             models"
        );
    }
}
