//! The runtime from outside: runs on every kind of session service.

mod callbacks;
mod cancel;
mod failures;
mod runs;
mod support;
mod together;
