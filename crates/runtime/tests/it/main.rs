//! Integration tests of the runtime: single rules, and random runs compared with google-adk.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod artifacts;
mod artifacts_differential;
mod callbacks;
mod cancel;
mod compaction;
mod composition;
mod config;
mod confirmation;
mod contained;
mod crash;
mod differential;
mod endings;
mod expiry;
mod failures;
mod ingest;
mod maintenance;
mod oversize;
mod parallel_order;
mod poisoning;
mod requests;
mod resume;
mod resume_requests;
mod rewind;
mod runs;
mod snapshots;
mod stories;
mod streaming;
mod support;
mod telemetry;
mod together;
mod turns_differential;
mod without_log;
