//! Checks that every backend has the same source files.

use std::path::Path;

const FILES: [&str; 17] = [
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
    "read",
    "schema",
    "state",
    "tail",
];

#[test]
fn every_backend_has_the_same_source_files() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for backend in ["in_memory", "sqlite", "postgres"] {
        for name in FILES {
            let file = src.join(backend).join(format!("{name}.rs"));
            let folder = src.join(backend).join(name).join("mod.rs");
            assert!(
                file.is_file() || folder.is_file(),
                "{backend} has no {name}.rs"
            );
        }
    }
}
