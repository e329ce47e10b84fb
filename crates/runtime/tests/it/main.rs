//! The runtime from outside: runs on every kind of session service.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod artifacts;
mod callbacks;
mod cancel;
mod compaction;
mod composition;
mod confirmation;
mod contained;
mod crash;
mod endings;
mod failures;
mod ingest;
mod oversize;
mod poisoning;
mod requests;
mod resume;
mod resume_requests;
mod rewind;
mod runs;
mod snapshots;
mod support;
mod together;
mod without_log;
