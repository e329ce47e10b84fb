//! API keys as rows: scopes are one text, their names with spaces between.

use retain_core::{ApiKey, KeyScope, Result, SessionError};

/// The scopes of a key as they stand in its row.
pub(crate) fn scopes_text(key: &ApiKey) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
    scopes.join(" ")
}

/// The key with the scopes that its row names. One that is not known is an error: a key is never
/// good for less or more than was said.
pub(crate) fn with_scopes(mut key: ApiKey, scopes: &str) -> Result<ApiKey> {
    let scopes = scopes.split_whitespace().map(str::parse::<KeyScope>);
    key.scopes = scopes.collect::<Result<_>>()?;
    Ok(key)
}

/// There is a key with this id.
pub(crate) fn is_taken() -> SessionError {
    SessionError::invalid("key id", "is taken; try again")
}
