//! ADK's API, by what its clients do: stream, disconnect, import, save files, send invalid
//! requests.

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
