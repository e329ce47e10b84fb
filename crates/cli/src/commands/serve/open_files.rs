//! The limit on open files: each connection needs one, and many systems default to about 1,000.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit.
pub(super) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the server accepts fewer connections at a time, and other clients wait.
    let _ = setrlimit(Resource::Nofile, limit);
}
