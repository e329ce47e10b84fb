//! The limit on open files: each connection needs one, and many systems default to about 1,000.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit.
pub(super) fn allow_many() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the server accepts fewer connections, and further clients wait.
    let _ = setrlimit(Resource::Nofile, limit);
}
