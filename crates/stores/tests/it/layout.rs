//! Checks that every backend has the same source files.

use std::path::Path;

const FILES: [&str; 19] = [
    "addresses",
    "append",
    "artifacts",
    "check",
    "create",
    "delete",
    "draft",
    "erase",
    "fork",
    "keys",
    "lease",
    "list",
    "memory",
    "pending",
    "read",
    "schema",
    "state",
    "tail",
    "usage",
];

const MEMORY_FILES: [&str; 5] = ["add", "change", "read", "restore", "scope"];

#[test]
fn every_backend_has_the_same_source_files() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for backend in ["in_memory", "sqlite", "postgres"] {
        let backend = src.join(backend);
        for name in FILES {
            assert_has_module(&backend, name);
        }
        for name in MEMORY_FILES {
            assert_has_module(&backend.join("memory"), name);
        }
    }
}

fn assert_has_module(folder: &Path, name: &str) {
    let file = folder.join(format!("{name}.rs"));
    let module = folder.join(name).join("mod.rs");
    assert!(
        file.is_file() || module.is_file(),
        "{} has no {name}.rs",
        folder.display()
    );
}
