//! Checks the tables for corruption.

use super::schema::SessionTables;

/// Returns one line for each event whose id the id index does not map to the event's position.
pub(super) fn check(tables: &SessionTables) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, log) in &tables.logs {
        for (event, position) in log.events.iter().zip(1..) {
            if log.ids.get(&event.id) != Some(&position) {
                problems.push(format!(
                    "session {key}: the id index does not map event {position} to its position"
                ));
            }
        }
    }
    problems
}
