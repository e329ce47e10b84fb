//! Checks that `promises.rs` runs the contract tests for every store of this crate.

use std::{fs, path::Path};

/// Returns the types that implement `SessionStore` in the source text.
fn find_stores(source: &str) -> Vec<String> {
    let impls = source.split("impl SessionStore for ").skip(1);
    let names = impls.map(|rest| {
        let name = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_');
        name.collect()
    });
    names.collect()
}

/// Returns the functions of `stores.rs` that open a `store`.
fn find_openers<'a>(store: &str, stores: &'a str) -> Vec<&'a str> {
    let functions = stores.split("pub(crate) async fn ").skip(1);
    let openers = functions.filter(|body| body.contains(&format!("{store}::")));
    openers.filter_map(|body| body.split('(').next()).collect()
}

/// Appends all source files below a folder to `text`.
fn read_sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).expect("a source file"));
        }
    }
}

#[test]
fn every_store_runs_the_contract_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = String::new();
    read_sources(&root.join("src"), &mut source);
    let stores = find_stores(&source);
    assert!(
        stores.len() >= 2,
        "found only {stores:?}: has the form of the impl changed?"
    );
    let (openers, promises) = (include_str!("stores.rs"), include_str!("promises.rs"));
    for store in stores {
        let store_openers = find_openers(&store, openers);
        assert!(!store_openers.is_empty(), "stores.rs does not open {store}");
        for opener in store_openers {
            let line = format!("session_promises!(crate::stores::{opener}()");
            assert!(promises.contains(&line), "promises.rs lacks {line}");
        }
    }
}

#[test]
fn guard_finds_stores_and_their_openers() {
    let source = "impl SessionStore for AStore {}\nimpl X for Y {}\nimpl SessionStore for BStore{}";
    assert_eq!(find_stores(source), ["AStore", "BStore"]);
    let openers = "pub(crate) async fn a() { AStore::new() }\npub(crate) async fn b() { B::new() }";
    assert_eq!(find_openers("AStore", openers), ["a"]);
}
