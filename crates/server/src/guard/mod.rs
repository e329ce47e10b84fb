//! Who asks, from where, and how much: what stands before every handler.
//!
//! ```text
//! a request → observe (id, log, counters) → origin (Host, Origin, CORS) → body (size, encoding,
//! time) → keys (who, how often) → streams (how many at once) → the route's Access → its handler
//! ```

mod body;
mod caller;
mod fault;
mod keys;
mod limits;
mod observe;
mod origin;
mod rate;
mod runs;
mod streams;

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderValue, header},
    middleware::Next,
    response::Response,
};
use futures_util::FutureExt as _;
use retain_core::{Clock, Ids, RandomIds, SystemClock};

use crate::{
    metrics::Metrics,
    routes::is_public,
    shutdown::{Phase, Shutdown},
};
pub(crate) use caller::Refused;
pub use caller::{Caller, Scope};
pub(crate) use fault::fault;
pub use keys::Keys;
pub(crate) use keys::{KeyWatch, Standing, unauthorized};
pub use limits::ServerLimits;
pub use observe::TraceContext;
pub use origin::{Origins, OriginsError, is_loopback_name};
pub use runs::{RunPermit, Runs, TooManyRuns};
pub use streams::Streams;

/// What is asked of a request before it comes to its handler.
#[derive(Debug)]
pub struct Guards {
    /// From where a browser may ask.
    pub origins: Origins,
    /// Who may ask.
    pub keys: Keys,
    /// How much may be asked.
    pub limits: ServerLimits,
    /// What has been asked and lasts.
    pub streams: Streams,
    /// What has been asked.
    pub metrics: Metrics,
    /// Whether the server is about to end.
    pub shutdown: Shutdown,
    /// Where request ids come from.
    pub ids: Arc<dyn Ids>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Whose part a request is, for those who follow it through several programs.
    pub trace_context: Option<TraceContext>,
}

impl Default for Guards {
    /// Without keys, for an address that is not known; with the usual limits.
    fn default() -> Guards {
        Guards {
            origins: Origins::default(),
            keys: Keys::default(),
            limits: ServerLimits::default(),
            streams: Streams::default(),
            metrics: Metrics::default(),
            shutdown: Shutdown::default(),
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
            trace_context: None,
        }
    }
}

/// Lets a request pass if nothing is against it. The outermost layer.
pub(crate) async fn stand_before(
    State(guards): State<Arc<Guards>>,
    request: Request,
    next: Next,
) -> Response {
    observe::observed(&guards, request, |request| check(&guards, request, next)).await
}

async fn check(guards: &Arc<Guards>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let cors = match guards.origins.check(&request) {
        Ok(cors) => cors,
        Err(refused) => return *refused,
    };
    if let Some(answer) = cors.preflight(&request) {
        return answer;
    }
    let mut response = match admit(guards, &mut request).await {
        Ok(()) => {
            let request = body::limited(request, &guards.limits);
            run(guards, request, &path, next).await
        }
        Err(refused) => *refused,
    };
    cors.allow(response.headers_mut());
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// Who asks, and whether what is sent can be taken.
async fn admit(guards: &Arc<Guards>, request: &mut Request) -> Result<(), Box<Response>> {
    body::check(request, &guards.limits)?;
    // A program that has these routes inside its own may know better who asks. Of who asks for what
    // is everybody's, nothing is asked: health is told also while keys cannot be looked up.
    if request.extensions().get::<Caller>().is_none() && !is_public(request) {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| peer.ip());
        let (headers, path) = (request.headers(), request.uri().path());
        let asked = guards.keys.caller(headers, path, peer, &*guards.clock);
        let (caller, key) = asked.await?;
        request.extensions_mut().insert(caller);
        if let Some(key) = key {
            request.extensions_mut().insert(key);
        }
    }
    request.extensions_mut().insert(Arc::clone(guards));
    Ok(())
}

/// Runs the handler, unless the server's patience ends before.
async fn run(guards: &Arc<Guards>, mut request: Request, path: &str, next: Next) -> Response {
    let held = match streams::admit(guards, &mut request).await {
        Ok(held) => held,
        Err(refused) => return *refused,
    };
    let route = request.extensions().get::<MatchedPath>();
    let is_run = route.is_some_and(|route| route.as_str().starts_with("/run"));
    let mut over = guards.shutdown.follow();
    let response = tokio::select! {
        biased;
        response = AssertUnwindSafe(next.run(request)).catch_unwind() => {
            response.unwrap_or_else(|_| {
                // What it said is on standard error already, with its place.
                tracing::error!("a handler panicked");
                fault(path, 500, "something went wrong here; the log says what")
            })
        }
        () = over.reached(Phase::Over) => {
            let mut response = fault(path, 503, "the server is shutting down");
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
    };
    let response = guards.shutdown.ending(response, is_run, &guards.metrics);
    streams::holding(response, held)
}
