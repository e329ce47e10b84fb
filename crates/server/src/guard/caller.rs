//! The caller of a request and its permissions.

use axum::{
    http::Extensions,
    response::{IntoResponse, Response},
};
pub use retain_core::KeyScope as Scope;

use super::fault;

/// The caller of a request. If the server requires no API key, a caller without one may do
/// everything.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The scopes of the caller's API key; `None` if no key is required.
    pub scopes: Option<Vec<Scope>>,
    /// The only app that the caller may access; `None` allows every app.
    pub app: Option<String>,
    /// The only user whose data the caller may access; `None` allows every user.
    pub user: Option<String>,
}

/// The error of a request that its caller is not allowed to make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AccessDenied(pub(crate) String);

impl Caller {
    /// Returns the caller that the guards identified. Without guards it has no permissions, so that
    /// a route mounted without them is closed.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Caller {
        let unauthenticated = || Caller {
            scopes: Some(Vec::new()),
            ..Caller::default()
        };
        extensions.get().cloned().unwrap_or_else(unauthenticated)
    }

    /// Whether a key is required and missing. A valid key always has a scope.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.scopes.as_ref().is_some_and(Vec::is_empty)
    }

    /// Checks that the key has a scope.
    pub(crate) fn check_scope(&self, scope: Scope) -> Result<(), AccessDenied> {
        match &self.scopes {
            Some(scopes) if !scopes.contains(&scope) && !scopes.contains(&Scope::Admin) => {
                let name = scope.name();
                Err(AccessDenied(format!(
                    "this API key does not have the scope {name:?}; use a key that has it"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the key may access the app, whatever user the key is bound to.
    pub(crate) fn check_app(&self, app: &str) -> Result<(), AccessDenied> {
        self.check_owner(Some(app), self.user.as_deref())
    }

    /// Checks that the key may access data of this app and user; `None` means any.
    pub(crate) fn check_owner(
        &self,
        app: Option<&str>,
        user: Option<&str>,
    ) -> Result<(), AccessDenied> {
        let fits = |bound: &Option<String>, requested: Option<&str>| {
            bound
                .as_deref()
                .is_none_or(|bound| requested == Some(bound))
        };
        if fits(&self.app, app) && fits(&self.user, user) {
            return Ok(());
        }
        Err(AccessDenied(
            "this API key is bound to another app or user; use a key for this one".to_owned(),
        ))
    }
}

impl IntoResponse for AccessDenied {
    fn into_response(self) -> Response {
        fault("", 403, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unauthenticated_caller_has_no_permissions() {
        let caller = Caller::from_extensions(&Extensions::new());
        assert!(caller.is_unauthenticated());
        assert!(caller.check_scope(Scope::SessionsRead).is_err());
        let mut authenticated = Extensions::new();
        authenticated.insert(Caller::default());
        assert!(!Caller::from_extensions(&authenticated).is_unauthenticated());
    }
}
