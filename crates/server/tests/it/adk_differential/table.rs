//! The committed table of ADK's objects equals what the generator writes for google-adk 2.13, and
//! the committed upgrade from 2.12 equals the difference to what it writes for 2.12.

use std::{path::PathBuf, process::Command};

use retain_testkit::{
    oracle::{Oracle, Reference, is_long},
    scratch,
};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const TABLE: &str = "crates/core/src/wire/table.rs";
const UPGRADE: &str = "crates/core/testdata/wire/2.12.0-to-2.13.0.diff";

/// Generates the table of the google-adk of `reference`. If it is not installed, records that
/// `test` was skipped.
fn generate(reference: Reference, test: &str) -> Option<String> {
    let script = root().join("scripts/generate-adk-tables");
    let generator = Oracle::start(reference, test, script)?;
    Some(generator.stop().join("\n") + "\n")
}

/// Returns the line that lists the versions of the packages.
fn packages(table: &str) -> &str {
    let mut lines = table.lines();
    lines
        .find(|line| line.starts_with("//! From "))
        .expect("the packages")
}

#[test]
fn committed_wire_table_equals_the_output_of_the_generator() {
    let test = "committed_wire_table_equals_the_output_of_the_generator";
    let Some(generated) = generate(Reference::AdkMcp, test) else {
        return;
    };
    let committed = read(TABLE);
    let differs = |(one, other): &(&str, &str)| one != other;
    let first = generated.lines().zip(committed.lines()).find(differs);
    assert!(
        generated == committed,
        "run scripts/generate-adk-tables with the Python of `scripts/environment adk-mcp`; \
         the first difference is {first:?}"
    );
}

/// The recorded diff of the tables of 2.12.0 and 2.13.0 has only one line, that of the packages:
/// the upgrade changes no object.
#[test]
fn upgrade_from_adk_2_12_changes_only_package_versions() {
    let difference = read(UPGRADE);
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

/// Runs only with `RETAIN_LONG`, because it needs a second google-adk.
#[test]
fn committed_upgrade_equals_the_difference_between_the_generated_tables() {
    let test = "committed_upgrade_equals_the_difference_between_the_generated_tables";
    if !is_long() {
        return;
    }
    let Some(before) = generate(Reference::AdkMcpPrevious, test) else {
        return;
    };
    let folder = scratch::folder();
    let file = folder.path().join("2.12.0.rs");
    std::fs::write(&file, before).unwrap();
    let diff = Command::new("diff")
        .args(["-U1", "--label", "google-adk-2.12.0"])
        .args(["--label", "google-adk-2.13.0"])
        .args([file, root().join(TABLE)])
        .output()
        .expect("the program diff");
    let diff = String::from_utf8(diff.stdout).unwrap();
    assert!(
        diff == read(UPGRADE),
        "{UPGRADE} must contain this difference:\n{diff}"
    );
}
