//! Developer tools: the web UI's files, graphs, traces, and replays of recordings.

mod conformance;
mod graphs;
mod initial_state;
mod support;
mod traces;
mod ui;
