//! Folders and files for one test. They are deleted with it, unless `RETAIN_KEEP_SCRATCH` is set:
//! then `scripts/test` scans the leftovers for API keys and deletes them.

use std::{env, fs::File};

use tempfile::{Builder, TempDir};

/// The variable that keeps test leftovers for a scan.
const KEEP: &str = "RETAIN_KEEP_SCRATCH";

/// Whether test leftovers are kept for a scan.
pub fn is_kept() -> bool {
    env::var_os(KEEP).is_some()
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix("retain-").disable_cleanup(is_kept());
    builder
}

/// Create a folder.
pub fn folder() -> TempDir {
    builder().tempdir().expect("a temporary folder can be made")
}

/// Create a file open for reading and writing, for example for the output of a child process.
pub fn file() -> File {
    file_named(".log")
}

/// Create a file whose name ends with `end`.
pub fn file_named(end: &str) -> File {
    let made = builder().suffix(end).tempfile();
    made.expect("a temporary file can be made").into_file()
}
