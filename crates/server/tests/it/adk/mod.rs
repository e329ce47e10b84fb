//! ADK's face, by what its clients do: stream, vanish, import, save files, ask wrongly.

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
