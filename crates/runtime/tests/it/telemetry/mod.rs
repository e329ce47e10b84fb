//! The spans of runs: equal to ADK's for the same runs, without content unless enabled, and nested
//! correctly however a run ends.

mod collect;
mod differential;
mod runs;
mod tree;
