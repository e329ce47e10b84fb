//! Folders and files for one test. They are deleted when the test ends, unless
//! `RETAIN_KEEP_SCRATCH` is set: then `scripts/test` scans them for API keys and deletes them.

use std::{env, fs::File};

use tempfile::{Builder, TempDir};

/// The variable that makes tests keep their folders and files for the API key scan.
const KEEP_VARIABLE: &str = "RETAIN_KEEP_SCRATCH";

/// Whether tests keep their folders and files for the API key scan.
pub fn is_kept() -> bool {
    env::var_os(KEEP_VARIABLE).is_some()
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix("retain-").disable_cleanup(is_kept());
    builder
}

/// Creates a folder.
pub fn folder() -> TempDir {
    builder().tempdir().expect("a temporary folder")
}

/// Creates a file open for reading and writing, for example for the output of a child process.
pub fn file() -> File {
    file_named(".log")
}

/// Creates a file whose name ends with `end`.
pub fn file_named(end: &str) -> File {
    let file = builder().suffix(end).tempfile();
    file.expect("a temporary file").into_file()
}
