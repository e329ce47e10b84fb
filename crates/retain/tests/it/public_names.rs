//! The crate root exports few names, and one module exports each name.

use std::{collections::BTreeMap, fs, path::Path};

/// With more names at the root, a reader on docs.rs does not see the modules.
const ROOT_NAMES_MAX: usize = 40;

#[test]
fn crate_root_exports_at_most_40_names() {
    let root = source("lib.rs");
    let modules = root.lines().filter(|line| line.starts_with("pub mod "));
    let names = modules.count() + exported_paths(&root).len();
    assert!(names <= ROOT_NAMES_MAX, "{names} names at the crate root");
}

#[test]
fn root_exports_only_items_of_its_modules() {
    for path in exported_paths(&source("lib.rs")) {
        assert!(!path.starts_with("retain_"), "{path} is in no module");
    }
}

#[test]
fn every_item_is_exported_by_one_module() {
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(source_dir()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if !file.ends_with(".rs") || file == "lib.rs" {
            continue;
        }
        for path in exported_paths(&source(&file)) {
            modules.entry(path).or_default().push(file.clone());
        }
    }
    assert!(modules.len() > 100, "the exports were not read");
    // A module's path also exports everything below it.
    for (path, files) in &modules {
        assert_eq!(files.len(), 1, "{path} is exported by {files:?}");
        let below = format!("{path}::");
        let inner = modules.keys().find(|other| other.starts_with(&below));
        assert_eq!(inner, None, "exported alone and with {path}");
    }
}

pub(crate) fn source_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

fn source(file: &str) -> String {
    fs::read_to_string(source_dir().join(file)).unwrap()
}

/// Returns the full path of each item that a source file exports with `pub use`.
pub(crate) fn exported_paths(source: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut rest = source;
    while let Some((_, after)) = rest.split_once("pub use ") {
        let (tree, after) = after.split_once(';').unwrap();
        let tree: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", &tree, &mut paths);
        rest = after;
    }
    paths
}

/// Adds the paths of a use tree such as `a::{b, c::d}` to `paths`, each after `prefix`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    assert!(!tree.ends_with('*'), "a glob hides what is exported");
    match tree.split_once('{') {
        None if tree.is_empty() => {}
        None => paths.push(format!("{prefix}{tree}")),
        Some((head, list)) => {
            let list = list.strip_suffix('}').unwrap();
            for item in split_list(list) {
                expand(&format!("{prefix}{head}"), item, paths);
            }
        }
    }
}

/// Splits at the commas outside of braces.
fn split_list(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let comma = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    list.split(comma).collect()
}
