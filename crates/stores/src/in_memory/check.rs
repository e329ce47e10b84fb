//! Checks the tables for corruption.

use retain_core::{
    Damage, EventColumns, Json, Location, Problem, Problems, SessionCheck, SessionFacts,
    SessionKey, StateColumns,
};

use super::schema::{SessionLog, SessionTables};

/// Checks that the id index, the state and its size equal what the log of each session gives.
pub(super) fn check(tables: &SessionTables) -> Vec<Problem> {
    let mut problems = Problems::default();
    for (key, log) in &tables.logs {
        for (event, position) in log.events.iter().zip(1..) {
            if log.ids.get(&event.id) != Some(&position) {
                let damage = Damage::Differs {
                    what: "its entry in the id index".to_owned(),
                    values: None,
                };
                let location = Location::of_event(key, position);
                problems.push(Problem::permanent(location, damage));
            }
        }
        check_log(key, log, &mut problems);
    }
    problems.into_vec()
}

fn check_log(key: &SessionKey, log: &SessionLog, problems: &mut Problems) {
    let mut check = SessionCheck::new(SessionFacts {
        key: key.clone(),
        position: log.position(),
        create_time: log.create_time,
        last_update_time: log.last_update_time,
        // This store has no mark and no size of the log.
        in_order: false,
        state_bytes: log.state_bytes as u64,
        log_bytes: 0,
        sized_to: 0,
        origin: log.origin.clone(),
    });
    let initial = Json::from(log.initial.clone()).to_string();
    check.check_event(EventColumns {
        position: 0,
        id: "",
        invocation: "",
        timestamp: log.create_time,
        body: initial.as_bytes(),
    });
    for (event, position) in log.events.iter().zip(1..) {
        match event.to_json() {
            Ok(body) => check.check_event(EventColumns {
                position,
                id: &event.id,
                invocation: &event.invocation_id,
                timestamp: event.timestamp,
                body: body.as_bytes(),
            }),
            Err(error) => check.check_unreadable(position, error),
        }
    }
    for (name, values) in log.state.history() {
        let last = values.last().map(|(position, _)| *position);
        for (position, value) in values {
            let value = value.as_ref().map(Json::to_string);
            check.check_state(StateColumns {
                name,
                position: *position,
                value: value.as_deref(),
                is_current: Some(*position) == last,
            });
        }
    }
    problems.extend(check.end().problems);
}
