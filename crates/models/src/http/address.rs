//! `Address`: a provider's base URL. It may contain a password, so `Debug` prints only the host.

use std::{fmt, ops::Deref};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Url;

use super::{Secret, Secrets};

/// A provider's base URL. `Debug` prints only the host; `Display` prints all of it, to build the
/// URLs of calls.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// Creates an address without surrounding spaces and trailing slashes.
    pub(crate) fn new(address: impl AsRef<str>) -> Address {
        Address(address.as_ref().trim().trim_end_matches('/').to_owned())
    }
}

impl From<&str> for Address {
    fn from(address: &str) -> Address {
        Address::new(address)
    }
}

impl Deref for Address {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&host_of(&self.0))
    }
}

/// Returns the host and port of a URL: the only parts that errors and logs may contain.
pub(crate) fn host_of(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => "URL without a host".to_owned(),
        },
        Err(_) => "invalid URL".to_owned(),
    }
}

/// Adds the password of a URL to `secrets`, and the `Authorization` value that the client derives
/// from it.
pub(super) fn add_secrets(url: &str, secrets: &Secrets) {
    let Ok(url) = Url::parse(url) else { return };
    if let Some(password) = url.password() {
        let user = url.username();
        secrets.add(Secret::from(password));
        secrets.add(STANDARD.encode(format!("{user}:{password}")).into());
    }
}
