//! The HTTP server: ADK's API and Retain's own, with access control.

pub use retain_server::{
    Access, AppError, Apps, Caller, Conformance, Dev, Guards, Keys, Metrics, Origins, OriginsError,
    RouteInfo, RunPermit, Runs, Scope, Server, ServerLimits, Services, Shutdown, Streams,
    TooManyRuns, TraceContext, Traces, erase_report_json, is_loopback_name, memory_hit_json,
    memory_json, openapi_json, serve, serve_guarded,
};
