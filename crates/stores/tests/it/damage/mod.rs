//! Damages that a check must report with their location, and what a repair does about each.
//!
//! Each damage is done by SQL to a database with every kind of record.

mod cases;
mod folder;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use std::sync::Arc;

use retain_core::{Migration, MigrationSide, Problem, TransferStore, repair_store};
use retain_testkit::TestClock;

use cases::DamageCase;

/// Returns the sessions of one side of a migration, which can be checked.
fn store(side: &MigrationSide) -> &dyn TransferStore {
    &**side.sessions.as_ref().expect("a session store")
}

fn texts(problems: &[Problem]) -> String {
    let problems = problems.iter();
    problems.map(|problem| format!("{problem}\n")).collect()
}

/// Checks and repairs a database with these damages. `intact` holds the same data without them.
async fn check_and_repair(cases: &[&DamageCase], damaged: &MigrationSide, intact: &MigrationSide) {
    let report = repair_store(store(damaged)).await.unwrap();
    let (repaired, remaining) = (texts(&report.repaired), texts(&report.remaining));
    for case in cases {
        let (name, found) = match case.is_repairable {
            true => (case.name, &repaired),
            false => (case.name, &remaining),
        };
        let line = found.lines().find(|line| line.contains(case.report));
        let line = line.unwrap_or_else(|| panic!("{name}: not in {found}"));
        let is_repairable = line.ends_with("run `retain check --repair`");
        assert_eq!(is_repairable, case.is_repairable, "{name}: {line}");
    }
    if cases.iter().any(|case| !case.is_repairable) {
        return;
    }
    let name = cases[0].name;
    assert_eq!(remaining, "", "{name}");
    if cases.iter().all(|case| !case.loses_data) {
        let comparison = Migration::new(intact.clone(), damaged.clone());
        let compared = comparison.with_clock(Arc::new(TestClock::default()));
        let compared = compared.compare().await;
        compared.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
