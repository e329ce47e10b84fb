//! The HTTP server: ADK's API and Retain's own, with access control.

pub use retain_server::{
    Access, AppError, Apps, Caller, Conformance, Dev, Guards, Keys, Metrics, Origins, OriginsError,
    RouteInfo, RunPermit, Runs, Scope, Server, ServerLimits, Services, Shutdown, Streams,
    TooManyRuns, TraceContext, Traces, is_loopback_name, openapi_json, serve, serve_guarded,
};
