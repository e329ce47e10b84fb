//! Every type that an exported item names is exported too, so that users can store values of it and
//! implement traits with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::public_names::{exported_paths, source_dir};

/// The crates whose items `retain` exports by name.
const CRATES: [&str; 7] = [
    "core", "mcp", "memory", "models", "runtime", "server", "stores",
];

/// Traits that stay private, so that users cannot implement the traits that require them.
const SEALS: [&str; 1] = ["Sealed"];

/// A public type: its crate and its name.
type PublicType = (&'static str, String);

#[test]
fn exported_items_name_only_exported_types() {
    let files = CRATES.map(|name| (name, rust_files(&crate_dir(name))));
    let mut public: BTreeMap<PublicType, PathBuf> = BTreeMap::new();
    for (crate_name, files) in &files {
        for file in files {
            let names = read_items(file).into_iter().filter(|item| item.is_type);
            public.extend(names.map(|item| ((*crate_name, item.name), file.clone())));
        }
    }
    let exported = exported_types(&public);
    assert!(exported.len() > 150, "the exports were not read");
    let mut missing = BTreeSet::new();
    let mut checked = 0;
    for (crate_name, files) in &files {
        for item in files.iter().flat_map(|file| read_items(file)) {
            if !exported.contains(&(*crate_name, item.name.clone())) {
                continue;
            }
            for name in item.named_types {
                checked += 1;
                if SEALS.contains(&name.as_str()) {
                    continue;
                }
                // Look a name up in the item's own crate first.
                let homes = std::iter::once(*crate_name).chain(CRATES);
                let mut homes = homes.map(|home| (home, name.clone()));
                if let Some(named) = homes.find(|named| public.contains_key(named))
                    && !exported.contains(&named)
                {
                    missing.insert(format!("{} names {name} of {}", item.name, named.0));
                }
            }
        }
    }
    assert!(checked > 1000, "the items were not read");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns the public types that `retain` exports, alone or with their module.
fn exported_types(public: &BTreeMap<PublicType, PathBuf>) -> BTreeSet<PublicType> {
    let mut exported = BTreeSet::new();
    for file in rust_files(source_dir()) {
        let text = fs::read_to_string(file).unwrap();
        let aliases = text.lines().filter_map(aliased_path).map(str::to_owned);
        for path in exported_paths(&text).into_iter().chain(aliases) {
            let path = path.split(" as ").next().unwrap_or_default();
            // A path without `::` exports a whole crate.
            let (first, rest) = path.split_once("::").unwrap_or((path, ""));
            let is_home = |name: &&str| first.strip_prefix("retain_") == Some(name);
            let Some(home) = CRATES.into_iter().find(is_home) else {
                continue;
            };
            let name = rest.rsplit("::").next().unwrap_or_default();
            exported.insert((home, name.to_owned()));
            let module = crate_dir(home).join(rest.replace("::", "/"));
            let in_module = |file: &Path| file.with_extension("").starts_with(&module);
            let types = public.iter().filter(|((of, _), _)| *of == home);
            let types = types.filter(|(_, file)| in_module(file));
            exported.extend(types.map(|(named, _)| named.clone()));
        }
    }
    exported
}

/// Returns the type to which a line such as `pub type A = b::C<D>;` gives another name.
fn aliased_path(line: &str) -> Option<&str> {
    let (_, path) = line.strip_prefix("pub type ")?.rsplit_once(" = ")?;
    path.split(['<', ';']).next()
}

/// A public type or trait, or an `impl` of one, with the types in its signatures and fields.
struct Item {
    name: String,
    is_type: bool,
    named_types: Vec<String>,
}

/// Reads the items of a file, which may be indented in a macro call. rustfmt aligns the closing
/// brace of an item with its first line.
fn read_items(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap();
    let mut items = Vec::new();
    let mut lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    while let Some(line) = lines.next() {
        let head = line.trim_start();
        let Some((kind, name)) = item_head(head) else {
            continue;
        };
        let indent = &line[..line.len() - head.len()];
        let mut public = vec![head];
        if !head.ends_with([';', '}']) {
            let body = lines.by_ref();
            let body = body.map(|line| line.strip_prefix(indent).unwrap_or_default());
            let body = body.take_while(|line| !["}", ");"].contains(line));
            public.extend(public_lines(kind, body));
        }
        items.push(Item {
            name: name.to_owned(),
            is_type: kind != "impl",
            named_types: public.into_iter().flat_map(type_names).collect(),
        });
    }
    items
}

/// Returns the kind and the name of the item that starts on a line.
fn item_head(line: &str) -> Option<(&'static str, &str)> {
    // An alias can be written out, so users do not need its name.
    let kinds = ["trait", "struct", "enum"];
    let public = line.strip_prefix("pub ").and_then(|rest| {
        let (word, rest) = rest.split_once(' ')?;
        Some((kinds.into_iter().find(|kind| *kind == word)?, rest))
    });
    let (kind, rest) = public.or_else(|| {
        let inherent = line.starts_with("impl") && !line.contains(" for ");
        let header = line.strip_suffix(" {").filter(|_| inherent)?;
        Some(("impl", header.split(' ').rfind(|word| starts_upper(word))?))
    })?;
    let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
    Some((kind, &rest[..end]))
}

/// Returns the lines of an item's body that users see: signatures, public fields, all variants.
fn public_lines<'a>(kind: &str, body: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut in_signature = false;
    let is_public = |line: &&str| {
        let code = line.strip_prefix("    ").unwrap_or_default();
        let is_function = match kind {
            "trait" => code.starts_with("fn ") || code.starts_with("async fn "),
            _ => code.starts_with("pub ") && code.contains("fn "),
        };
        in_signature |= is_function;
        let shown = in_signature || kind == "enum" || code.starts_with("pub ");
        in_signature &= !line.ends_with(['{', ';', '}']);
        shown && !code.trim_start().starts_with("//")
    };
    body.filter(is_public).collect()
}

fn type_names(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !is_name(c));
    words
        .filter(|word| starts_upper(word))
        .map(str::to_owned)
        .collect()
}

fn starts_upper(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn crate_dir(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.join(name).join("src")
}

/// Returns all Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
