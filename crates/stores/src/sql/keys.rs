//! API key rows. The scopes of an API key are stored as one text, separated by spaces.

use retain_core::{ApiKey, KeyScope, Result};

/// Encodes the scopes of a key for its row.
pub(crate) fn encode_scopes(key: &ApiKey) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
    scopes.join(" ")
}

/// Sets the scopes of a key from its row. An unknown scope is an error, because ignoring it would
/// change what the key permits.
pub(crate) fn with_scopes(mut key: ApiKey, scopes: &str) -> Result<ApiKey> {
    let scopes = scopes.split_whitespace().map(str::parse::<KeyScope>);
    key.scopes = scopes.collect::<Result<_>>()?;
    Ok(key)
}
