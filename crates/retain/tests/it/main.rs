//! The public API: its size, its shape, and programs that users of ADK's Rust crates know.

mod public_names;
