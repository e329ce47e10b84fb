//! Fails if a promise function is missing from its macro list, because then no store runs it.

use std::{collections::BTreeSet, fs, path::Path};

/// The folders of promises, each with a lower bound for the number of promises. If the parser finds
/// fewer, the form of the source has changed.
const FOLDERS: [(&str, usize); 3] = [
    ("src/promises", 100),
    ("src/artifacts", 15),
    ("src/memory", 25),
];

/// Returns the names of the functions that a line with `pub async fn` defines.
fn promises_in(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines();
    let heads = lines.filter_map(|line| line.strip_prefix("pub async fn "));
    heads.filter_map(|head| head.split('(').next())
}

/// The line of a macro after which its list of promises begins.
const LIST: &str = "@each $open, [$($needs)?];\n";

/// Returns the names of the promises in all lists of a source.
fn listed_in(source: &str) -> Vec<&str> {
    let lists = source.split(LIST).skip(1);
    let lists = lists.map(|list| {
        list.split_once("        }\n")
            .expect("the end of the list")
            .0
    });
    let lines = lists.flat_map(str::lines).map(str::trim);
    let names = lines.filter(|line| !line.starts_with("//") && !line.is_empty());
    names.map(|line| line.trim_end_matches(',')).collect()
}

#[test]
fn every_promise_is_listed_in_its_macro() {
    for (folder, least) in FOLDERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut defined = BTreeSet::new();
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("the folder of promises") {
            let path = entry.expect("an entry").path();
            let source = fs::read_to_string(path).expect("a source file");
            for name in promises_in(&source) {
                count += 1;
                defined.insert(name.to_owned());
            }
        }
        assert_eq!(defined.len(), count, "two promises have the same name");
        assert!(count > least, "only {count} promises in {folder:?}");
        let list = fs::read_to_string(folder.join("mod.rs")).expect("the file with the list");
        let list = listed_in(&list);
        let listed: BTreeSet<String> = list.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed.len(), list.len(), "a promise is listed twice");
        let unlisted: Vec<_> = defined.difference(&listed).collect();
        assert!(
            unlisted.is_empty(),
            "missing from the macro list: {unlisted:?}"
        );
        let undefined: Vec<_> = listed.difference(&defined).collect();
        assert!(
            undefined.is_empty(),
            "listed but not defined: {undefined:?}"
        );
    }
}

#[test]
fn guard_parses_promises_and_lists() {
    let source = "/// Doc.\npub async fn a_promise(h: H) {\n    async fn inner() {}\n}\nasync fn helper() {}\n";
    assert_eq!(promises_in(source).collect::<Vec<_>>(), ["a_promise"]);
    let list =
        format!("x {LIST}            // group\n            one,\n            two,\n        }}\n");
    assert_eq!(listed_in(&list.repeat(2)), ["one", "two", "one", "two"]);
}
