//! What is there for developers: the web UI's files, drawings, traces, and replays of recordings.

mod conformance;
mod graphs;
mod initial_state;
mod support;
mod traces;
mod ui;
