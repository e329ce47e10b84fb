//! Google's two services, the Gemini API and Vertex AI, and their URLs.

use std::borrow::Cow;

use retain_runtime::ModelError;

/// One of Google's two services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backend {
    /// The Gemini API, with an API key.
    Api,
    /// Vertex AI; with an API key if no project is set ("express mode").
    Vertex {
        project: Option<String>,
        location: String,
    },
}

impl Backend {
    pub(super) fn is_vertex(&self) -> bool {
        matches!(self, Backend::Vertex { .. })
    }

    /// Returns the default API version.
    pub(super) fn version(&self) -> &'static str {
        match self {
            Backend::Api => "v1beta",
            Backend::Vertex { .. } => "v1beta1",
        }
    }

    /// Returns the default base URL for a model with this path.
    pub(super) fn base_url(&self, model_path: &str) -> String {
        let Backend::Vertex { project, location } = self else {
            return "https://generativelanguage.googleapis.com".to_owned();
        };
        // A location in the model's path takes precedence.
        let location = location_of(model_path).unwrap_or(location);
        match project.is_none() && location_of(model_path).is_none() {
            true => vertex_url("global"),
            false => vertex_url(location),
        }
    }

    /// Validates project and location, which become part of the URL and must not change its host or
    /// path.
    pub(super) fn check_project_and_location(&self) -> Result<(), ModelError> {
        match self {
            Backend::Vertex { project, location } => {
                check_project_and_location(project.as_deref().unwrap_or("none"), location)
            }
            Backend::Api => Ok(()),
        }
    }

    /// Returns the path of a model below the API version.
    pub(super) fn model_path(&self, model: &str) -> Result<String, ModelError> {
        check_model_name(model)?;
        let starts_with = |prefixes: &[&str]| prefixes.iter().any(|p| model.starts_with(p));
        let Backend::Vertex { project, location } = self else {
            return Ok(match starts_with(&["models/", "tunedModels/"]) {
                true => model.to_owned(),
                false => format!("models/{model}"),
            });
        };
        let path: Cow<'_, str> = if starts_with(&["projects/", "models/", "publishers/"]) {
            model.into()
        } else if let Some((publisher, model)) = model.split_once('/') {
            format!("publishers/{publisher}/models/{model}").into()
        } else {
            format!("publishers/google/models/{model}").into()
        };
        Ok(match project {
            Some(project) if !path.starts_with("projects/") => {
                format!("projects/{project}/locations/{location}/{path}")
            }
            _ => path.into_owned(),
        })
    }

    /// Returns the full name of a cache.
    pub(super) fn cache_name(&self, name: &str) -> String {
        const CACHES: &str = "cachedContents";
        let is_bare = !name.contains('/');
        let Backend::Vertex { project, location } = self else {
            return match is_bare {
                true => format!("{CACHES}/{name}"),
                false => name.to_owned(),
            };
        };
        let project = project.as_deref().unwrap_or_default();
        if name.starts_with("locations/") {
            format!("projects/{project}/{name}")
        } else if name.starts_with("cachedContents/") {
            format!("projects/{project}/locations/{location}/{name}")
        } else if is_bare {
            format!("projects/{project}/locations/{location}/{CACHES}/{name}")
        } else {
            name.to_owned()
        }
    }
}

/// Returns the base URL of Vertex AI for a location.
pub(crate) fn vertex_url(location: &str) -> String {
    match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        location => format!("https://{location}-aiplatform.googleapis.com"),
    }
}

/// Returns the location in `projects/…/locations/…/…`.
fn location_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("projects/")?;
    let mut steps = rest.split('/').skip(1);
    (steps.next()? == "locations").then(|| steps.next())?
}

/// Validates a Vertex AI project and location. A project may have a domain prefix, such as
/// `example.com:`.
pub(crate) fn check_project_and_location(project: &str, location: &str) -> Result<(), ModelError> {
    let has_only = |text: &str, others: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let message = match (has_only(project, "-_.:"), has_only(location, "-")) {
        (true, true) => return Ok(()),
        (false, _) => format!(
            "{project:?} is not a valid Google Cloud project; expected an id such as \"my-project\""
        ),
        (_, false) => format!(
            "{location:?} is not a valid Vertex AI location; expected for example \"us-central1\""
        ),
    };
    Err(ModelError::new(message).with_code("InvalidRequest"))
}

/// Validates a model name, which becomes part of the URL and must not change its path.
fn check_model_name(model: &str) -> Result<(), ModelError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if model.is_empty() || model.contains("..") || !model.chars().all(is_allowed) {
        let message = format!(
            "{model:?} is not a valid Gemini model name; expected for example \"gemini-2.5-flash\""
        );
        return Err(ModelError::new(message).with_code("InvalidRequest"));
    }
    Ok(())
}

/// Removes the path from a model name, as ADK does.
pub(super) fn bare_name(model: &str) -> &str {
    if let Some(model) = model.strip_prefix("models/") {
        return model;
    }
    let is_path = model.starts_with("projects/");
    match model.rsplit_once('/') {
        Some((before, last)) if is_path && before.ends_with("/models") => last,
        Some((_, last)) if !is_path && last.starts_with("gemini-") => last,
        _ => model,
    }
}
