//! A request's `http_options`, as in ADK: additional headers and a timeout for this call.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use retain_core::{GenerateContentConfig, Json};
use retain_runtime::ModelError;

/// A request's `http_options`.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Additional headers, marked as sensitive because they may be secrets.
    pub(super) headers: HeaderMap,
    pub(super) total_timeout: Option<Duration>,
}

/// Returns an entry of `http_options` by its camel-case or snake-case name; `None` for `null`.
pub(crate) fn http_option(
    config: &GenerateContentConfig,
    camel: &str,
    snake: &str,
) -> Option<Json> {
    let options = config.http_options.as_ref()?;
    let found = options.get(camel).or_else(|| options.get(snake));
    found.filter(|value| !value.is_null()).cloned()
}

impl Options {
    pub(super) fn from_config(config: &GenerateContentConfig) -> Result<Options, ModelError> {
        let mut options = Options::default();
        let headers = http_option(config, "headers", "headers");
        let headers = headers.as_ref().and_then(Json::as_object);
        for (name, value) in headers.into_iter().flatten() {
            let value = value.as_str().and_then(|it| HeaderValue::from_str(it).ok());
            let (Ok(header), Some(mut value)) = (HeaderName::try_from(name), value) else {
                let message =
                    format!("the header {name:?} in http_options has an invalid name or value");
                return Err(ModelError::new(message).with_code("InvalidRequest"));
            };
            value.set_sensitive(true);
            options.headers.insert(header, value);
        }
        // Milliseconds, as in Google's client library.
        let timeout = http_option(config, "timeout", "timeout").and_then(|it| it.as_u64());
        options.total_timeout = timeout.filter(|it| *it > 0).map(Duration::from_millis);
        if http_option(config, "retryOptions", "retry_options").is_some() {
            tracing::warn!(
                "ignored retry_options in http_options; the settings of the client apply"
            );
        }
        Ok(options)
    }
}
