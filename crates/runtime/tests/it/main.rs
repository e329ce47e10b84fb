//! The runtime from outside: runs on every kind of session service.

mod runs;
mod support;
