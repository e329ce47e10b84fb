//! Fails when a store of this crate does not sign the promises.

use std::{fs, path::Path};

/// The types that the sources implement `SessionStore` for.
fn stores_in(source: &str) -> Vec<String> {
    let heads = source.split("impl SessionStore for ").skip(1);
    let names = heads.map(|rest| {
        let name = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_');
        name.collect()
    });
    names.collect()
}

/// The functions of `stores.rs` that open a `store`.
fn openers_of<'a>(store: &str, stores: &'a str) -> Vec<&'a str> {
    let functions = stores.split("pub(crate) async fn ").skip(1);
    let opening = functions.filter(|body| body.contains(&format!("{store}::")));
    opening.filter_map(|body| body.split('(').next()).collect()
}

fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push_str(&fs::read_to_string(path).expect("a source file"));
        }
    }
}

#[test]
fn every_store_signs_the_promises() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = String::new();
    sources(&root.join("src"), &mut source);
    let stores = stores_in(&source);
    assert!(
        stores.len() >= 2,
        "only {stores:?}: has their form changed?"
    );
    let (openers, signed) = (include_str!("stores.rs"), include_str!("promises.rs"));
    for store in stores {
        let opened = openers_of(&store, openers);
        assert!(!opened.is_empty(), "stores.rs does not open {store}");
        for opener in opened {
            let line = format!("session_promises!(crate::stores::{opener}()");
            assert!(signed.contains(&line), "promises.rs lacks {line}");
        }
    }
}

#[test]
fn guard_finds_promises_and_lists() {
    let source = "impl SessionStore for AStore {}\nimpl X for Y {}\nimpl SessionStore for BStore{}";
    assert_eq!(stores_in(source), ["AStore", "BStore"]);
    let openers = "pub(crate) async fn a() { AStore::new() }\npub(crate) async fn b() { B::new() }";
    assert_eq!(openers_of("AStore", openers), ["a"]);
}
