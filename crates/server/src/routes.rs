//! The table of routes. Each has an [`Access`] rule; the type system does not allow a route without
//! one.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use axum::{
    Router,
    extract::{MatchedPath, RawPathParams, Request, State},
    handler::Handler,
    http::Method,
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::{MethodFilter, on},
};

use crate::{
    guard::{AccessDenied, Caller, Scope, fault, unauthorized},
    services::{Server, Shared},
};

/// The access rule of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Public: no API key is read. For health and the files of the web UI.
    Public,
    /// Requires the scope. A key bound to an app or user must match `{app}` and `{user}` of the
    /// path; a user-bound key is rejected if the path has no `{user}`.
    Path(Scope),
    /// Requires the scope. App and user are in the body or query, and the handler calls
    /// `Caller::check_owner`.
    Body(Scope),
    /// Requires the scope, whatever user the key is bound to, because the response contains no user
    /// data. A key bound to an app must match `{app}` of the path, if there is one.
    Anybody(Scope),
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteInfo {
    /// The method.
    pub method: Method,
    /// The path pattern, with parameters in braces.
    pub path: &'static str,
    /// Its access rule.
    pub access: Access,
}

/// Routes under construction.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    router: Router<Shared>,
    list: Vec<RouteInfo>,
}

impl Routes {
    /// Adds a route.
    pub(crate) fn add<H, T>(
        mut self,
        method: Method,
        path: &'static str,
        access: Access,
        handler: H,
    ) -> Routes
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        let guarded = on(filter, handler).layer(from_fn_with_state(access, check_access));
        self.router = self.router.route(path, guarded);
        self.list.push(RouteInfo {
            method,
            path,
            access,
        });
        self
    }

    pub(crate) fn into_router(self, _server: &Arc<Server>) -> Router<Shared> {
        self.router
    }

    pub(crate) fn list(self) -> Vec<RouteInfo> {
        self.list
    }
}

/// Whether the matched route is public.
pub(crate) fn is_public(request: &Request) -> bool {
    static PUBLIC: LazyLock<HashSet<(Method, &'static str)>> = LazyLock::new(|| {
        let routes = Server::routes().into_iter();
        let public = routes.filter(|route| route.access == Access::Public);
        public.map(|route| (route.method, route.path)).collect()
    });
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return false;
    };
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref method => method.clone(),
    };
    PUBLIC.contains(&(method, path.as_str()))
}

/// Passes a request on if its caller may use the route.
async fn check_access(
    State(access): State<Access>,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let caller = Caller::from_extensions(request.extensions());
    let param = |name: &str| {
        let found = params.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_owned())
    };
    if caller.is_unauthenticated() && access != Access::Public {
        return unauthorized(
            request.uri().path(),
            "authentication required: send an API key as `Authorization: Bearer KEY` or \
             `x-api-key: KEY`",
        );
    }
    let checked = match access {
        Access::Public => Ok(()),
        Access::Path(scope) => caller
            .check_scope(scope)
            .and_then(|()| caller.check_owner(param("app").as_deref(), param("user").as_deref())),
        Access::Body(scope) => caller.check_scope(scope),
        Access::Anybody(scope) => caller.check_scope(scope).and_then(|()| match param("app") {
            Some(app) => caller.check_app(&app),
            None => Ok(()),
        }),
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(AccessDenied(detail)) => fault(request.uri().path(), 403, &detail),
    }
}
