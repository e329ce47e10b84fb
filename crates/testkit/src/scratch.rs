//! Folders and files for one test. They are gone with it, unless `RETAIN_KEEP_SCRATCH` is set: then
//! `scripts/test` looks for keys in what tests leave behind, and removes it.

use std::{env, fs::File};

use tempfile::{Builder, TempDir};

/// Set where what tests leave behind is looked through after them.
const KEEP: &str = "RETAIN_KEEP_SCRATCH";

/// Whether what tests leave behind is looked through after them.
pub fn is_kept() -> bool {
    env::var_os(KEEP).is_some()
}

fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix("retain-").disable_cleanup(is_kept());
    builder
}

/// A folder.
pub fn folder() -> TempDir {
    builder().tempdir().expect("a temporary folder can be made")
}

/// A file that is open for reading and writing, for example for what a child process says.
pub fn file() -> File {
    file_named(".log")
}

/// A file whose name ends like this.
pub fn file_named(end: &str) -> File {
    let made = builder().suffix(end).tempfile();
    made.expect("a temporary file can be made").into_file()
}
