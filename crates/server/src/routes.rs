//! The list of routes, each with who may use it: a route without that cannot be written.

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
    guard::{Caller, Refused, Scope, fault, unauthorized},
    services::{Server, Shared},
};

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, also without a key or with a bad one, which is not looked at: health, the files of
    /// the web UI.
    Public,
    /// Who has the scope. A key that is bound to an app or a user must fit the `{app}` and `{user}`
    /// of the path; if the path has no `{user}`, a key that is bound to one is refused.
    Path(Scope),
    /// Who has the scope. Owner and app are in the body or the query, and the handler asks
    /// `Caller::check_owner`.
    Body(Scope),
    /// Who has the scope, whatever user the key is bound to: the answer tells nothing of anybody's
    /// data. A key that is bound to an app must fit the `{app}` of the path, if there is one.
    Anybody(Scope),
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// The method.
    pub method: Method,
    /// The path, with names in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
}

/// Routes as they are put together.
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

/// Whether the route that a request comes to is for everybody.
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

/// Lets a request pass if its caller may use the route.
async fn check_access(
    State(access): State<Access>,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let caller = Caller::of(request.extensions());
    let param = |name: &str| {
        let found = params.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_owned())
    };
    if caller.is_nobody() && access != Access::Public {
        return unauthorized(
            request.uri().path(),
            "a key is needed: Authorization: Bearer …",
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
        Err(Refused(detail)) => fault(request.uri().path(), 403, &detail),
    }
}
