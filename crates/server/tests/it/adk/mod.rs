//! ADK's API: runs and streams, imports, artifacts, invalid requests, and the permissions of API
//! keys.

mod artifacts;
mod default_app;
mod import;
mod live;
mod logs;
mod owners;
mod redaction;
mod replaced;
mod resuming;
mod running;
mod support;
