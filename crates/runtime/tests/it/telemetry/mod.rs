//! The spans that runs leave: as ADK makes them for the same runs, without content unless it is asked
//! for, and below one another in whatever way a run goes.

mod collect;
mod differential;
mod runs;
mod tree;
