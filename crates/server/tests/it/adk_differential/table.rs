//! The committed table of ADK's objects is what the generator makes from google-adk 2.13.

use std::path::PathBuf;

use retain_testkit::oracle::{Oracle, Reference};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const TABLE: &str = "crates/core/src/wire/table.rs";

/// The line that lists the versions of the packages.
fn packages(table: &str) -> &str {
    let mut lines = table.lines();
    lines
        .find(|line| line.starts_with("//! From "))
        .expect("the packages")
}

#[test]
fn committed_wire_table_equals_the_output_of_the_generator() {
    let (test, script) = (
        "committed_wire_table_equals_the_output_of_the_generator",
        root().join("scripts/generate-adk-tables"),
    );
    let Some(generator) = Oracle::start(Reference::Adk, test, script) else {
        return;
    };
    let generated = generator.stop().join("\n") + "\n";
    let committed = read(TABLE);
    let differs = |(one, other): &(&str, &str)| one != other;
    let first = generated.lines().zip(committed.lines()).find(differs);
    assert!(
        generated == committed,
        "run scripts/generate-adk-tables with the Python of `scripts/environment adk`; \
         the first difference is {first:?}"
    );
}

/// The upgrade from 2.12.0 changes no object: the recorded diff of the two tables is only the line
/// of the packages.
#[test]
fn upgrade_from_adk_2_12_changes_only_package_versions() {
    let difference = read("crates/core/testdata/wire/2.12.0-to-2.13.0.diff");
    let changed = difference.lines().skip(2);
    let (old, new): (Vec<&str>, Vec<&str>) = changed
        .filter(|line| line.starts_with(['-', '+']))
        .partition(|line| line.starts_with('-'));
    let table = read(TABLE);
    let packages = packages(&table);
    assert_eq!(new, [format!("+{packages}")]);
    let before = packages.replace("google-adk 2.13.0", "google-adk 2.12.0");
    assert_eq!(old, [format!("-{before}")]);
}
