//! Checks the tables for corruption.

use super::schema::SessionTables;

/// Returns one line for each problem: an id index that does not match its log.
pub(super) fn check(tables: &SessionTables) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, log) in &tables.logs {
        for (event, position) in log.events.iter().zip(1..) {
            if log.ids.get(&event.id) != Some(&position) {
                problems.push(format!("{key}: event {position} is not in the id index"));
            }
        }
    }
    problems
}
