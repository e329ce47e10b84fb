//! How many files may be open: a connection is one, and many systems allow a thousand unless asked.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit to the most that the system allows.
pub(super) fn allow_many() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it there is room for fewer clients; those that find none wait.
    let _ = setrlimit(Resource::Nofile, limit);
}
