//! The guards that every request passes before its handler: authentication, origin checks, limits.
//!
//! ```text
//! request → observe (id, log, counters) → origin (Host, Origin, CORS)
//!         → body (size, encoding, time) → keys (authentication, rate)
//!         → streams (concurrency) → budget (bytes) → the route's Access → its handler
//! ```

mod body;
mod budget;
mod caller;
mod fault;
mod keys;
mod large_work;
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
use retain_core::{Clock, Ids, RandomIds, SystemClock, budget::ByteBudget};

use crate::{
    metrics::Metrics,
    routes::is_public,
    shutdown::{Phase, Shutdown},
};
pub(crate) use budget::{MemoryLimit, count_connection};
pub(crate) use caller::AccessDenied;
pub use caller::{Caller, Scope};
pub(crate) use fault::fault;
pub use keys::Keys;
pub(crate) use keys::{KeyStatus, KeyWatch, unauthorized};
pub(crate) use large_work::LargeWork;
pub use limits::ServerLimits;
pub use observe::TraceContext;
pub use origin::{Origins, OriginsError, is_loopback_name};
pub use runs::{RunPermit, Runs, TooManyRuns};
pub use streams::Streams;

/// The checks that a request passes before its handler.
#[derive(Debug)]
#[non_exhaustive]
pub struct Guards {
    /// Which browser origins are allowed.
    pub origins: Origins,
    /// The accepted API keys.
    pub keys: Keys,
    /// The limits.
    pub limits: ServerLimits,
    /// The limit on the memory of requests and caches.
    pub(crate) memory: MemoryLimit,
    /// Requests that work on large data.
    pub(crate) large_work: LargeWork,
    /// Open streams and runs.
    pub streams: Streams,
    /// Counters.
    pub metrics: Metrics,
    /// Whether the server is shutting down.
    pub shutdown: Shutdown,
    /// The source of request ids.
    pub ids: Arc<dyn Ids>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Links the span of a request to the trace of its client.
    pub trace_context: Option<TraceContext>,
}

impl Default for Guards {
    /// Creates guards that require no API keys and have the default limits.
    fn default() -> Guards {
        Guards {
            origins: Origins::default(),
            keys: Keys::default(),
            limits: ServerLimits::default(),
            memory: MemoryLimit::default(),
            large_work: LargeWork::default(),
            streams: Streams::default(),
            metrics: Metrics::default(),
            shutdown: Shutdown::default(),
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
            trace_context: None,
        }
    }
}

impl Guards {
    /// Sets which browser origins are allowed.
    pub fn with_origins(mut self, origins: Origins) -> Guards {
        self.origins = origins;
        self
    }

    /// Sets the accepted API keys.
    pub fn with_keys(mut self, keys: Keys) -> Guards {
        self.keys = keys;
        self
    }

    /// Sets the limits.
    pub fn with_limits(mut self, limits: ServerLimits) -> Guards {
        self.limits = limits;
        self
    }

    /// Sets the limit on the memory of requests. The caches of the apps take theirs from
    /// [`Apps::with_byte_budget`](crate::Apps::with_byte_budget).
    pub fn with_byte_budget(mut self, budget: ByteBudget) -> Guards {
        self.memory = MemoryLimit::new(budget);
        self
    }

    /// Sets the source of request ids.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Guards {
        self.ids = ids;
        self
    }

    /// Sets the clock.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Guards {
        self.clock = clock;
        self
    }

    /// Sets how the span of a request is linked to the trace of its caller.
    pub fn with_trace_context(mut self, trace_context: TraceContext) -> Guards {
        self.trace_context = Some(trace_context);
        self
    }
}

/// Passes a request on if all checks succeed. The outermost layer.
pub(crate) async fn guard_request(
    State(guards): State<Arc<Guards>>,
    request: Request,
    next: Next,
) -> Response {
    observe::observe(&guards, request, |request| check(&guards, request, next)).await
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
        Ok(()) => run(guards, request, &path, next).await,
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

/// Authenticates the caller and checks the headers and the body.
async fn admit(guards: &Arc<Guards>, request: &mut Request) -> Result<(), Box<Response>> {
    body::check(request, &guards.limits)?;
    // A program that nests these routes may have set the caller itself. Public routes skip
    // authentication, so that health checks succeed even if the key store is unavailable.
    if request.extensions().get::<Caller>().is_none() && !is_public(request) {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| peer.ip());
        let (headers, path) = (request.headers(), request.uri().path());
        let caller = guards.keys.caller(headers, path, peer, &*guards.clock);
        let (caller, key) = caller.await?;
        request.extensions_mut().insert(caller);
        if let Some(key) = key {
            request.extensions_mut().insert(key);
        }
    }
    request.extensions_mut().insert(Arc::clone(guards));
    Ok(())
}

/// Runs the handler, unless the server shuts down first.
async fn run(guards: &Arc<Guards>, mut request: Request, path: &str, next: Next) -> Response {
    let permit = match streams::admit(guards, &mut request).await {
        Ok(permit) => permit,
        Err(refused) => return *refused,
    };
    let (request, meter) = match budget::open_meter(guards, request).await {
        Ok(opened) => opened,
        Err(refused) => return *refused,
    };
    let request = body::with_limits(request, &guards.limits, &meter);
    let route = request.extensions().get::<MatchedPath>();
    let is_run = route.is_some_and(|route| route.as_str().starts_with("/run"));
    let mut phase = guards.shutdown.follow();
    let response = tokio::select! {
        biased;
        response = AssertUnwindSafe(meter.scope(next.run(request))).catch_unwind() => {
            response.unwrap_or_else(|_| {
                // The panic hook has printed the message and its location already.
                tracing::error!("a handler panicked");
                fault(path, 500, "internal error; see the server's log")
            })
        }
        () = phase.reached(Phase::Over) => {
            let mut response = fault(path, 503, "the server is shutting down");
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
    };
    let response = budget::hold_until_end(response, meter, path);
    let response = guards
        .shutdown
        .end_with_server(response, is_run, &guards.metrics);
    streams::hold_until_end(response, permit)
}
