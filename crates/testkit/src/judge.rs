//! Checks a history: every answer must match the final log.

use std::collections::{BTreeMap, HashMap, HashSet};

use retain_core::{JsonMap, ScopedDelta, Session};

use crate::{
    fold::states_by_position,
    history::{History, Outcome, Read, Write},
};

/// Returns the anomalies. `end` is the final session, `shared` has the user's writes to any
/// session.
pub(crate) fn find_anomalies(end: &Session, history: &History, shared: &[Write]) -> Vec<String> {
    let checker = LogChecker {
        end,
        log: end.events.iter().map(|event| event.id.as_str()).collect(),
        states: states_by_position(&JsonMap::new(), end.events.iter()),
    };
    let mut wrong = checker.check_log(history);
    wrong.extend(history.writes.iter().filter_map(|w| checker.check_write(w)));
    wrong.extend(checker.check_order(&history.writes));
    wrong.extend(history.reads.iter().flat_map(|r| checker.check_read(r)));
    wrong.extend(checker.check_freshness(history));
    let marks = Marks::from_writes(shared);
    wrong.extend(history.reads.iter().filter_map(|read| marks.check(read)));
    wrong
}

/// Returns the anomalies of the events that a tail returned.
pub(crate) fn find_tail_anomalies(end: &Session, tailed: &[(u64, String)]) -> Vec<String> {
    let expected = end.events.iter_with_positions();
    let expected: Vec<(u64, String)> = expected.map(|(at, e)| (at, e.id.clone())).collect();
    let same = tailed.iter().zip(&expected).take_while(|(a, b)| a == b);
    let same = same.count();
    if same == tailed.len() {
        return Vec::new();
    }
    vec![format!(
        "the tail returned {:?}, but the log has {:?}",
        tailed[same],
        expected.get(same)
    )]
}

struct LogChecker<'a> {
    end: &'a Session,
    /// The event ids, by position.
    log: Vec<&'a str>,
    /// The session's own state after each position.
    states: Vec<JsonMap>,
}

impl LogChecker<'_> {
    /// Checks that the log is dense and has no duplicate or unknown event, that the counter grows
    /// by 1 each time, and that the state equals the fold of the events.
    fn check_log(&self, history: &History) -> Vec<String> {
        let mut wrong = Vec::new();
        let positions = self.end.events.iter_with_positions().map(|(at, _)| at);
        if !positions.eq(1..=self.log.len() as u64) || self.end.position != self.log.len() as u64 {
            wrong.push("positions are not dense".to_owned());
        }
        let mut seen = HashSet::new();
        let duplicates = self.log.iter().filter(|id| !seen.insert(**id));
        wrong.extend(duplicates.map(|id| format!("{id} is stored twice")));
        let tried = history.writes.iter().flat_map(|write| &write.ids);
        let tried: HashSet<&str> = tried.map(String::as_str).collect();
        let unknown = self.log.iter().filter(|id| !tried.contains(**id));
        wrong.extend(unknown.map(|id| format!("{id} was never appended")));
        let mut counter = 0;
        for event in self.end.events.iter() {
            if let Some(count) = event.actions.state_delta.get("counter") {
                counter += 1;
                if count.as_i64() != Some(counter) {
                    wrong.push(format!("the counter is {count} after step {counter}"));
                }
            }
        }
        wrong.extend(self.check_state(self.end, "the end"));
        wrong
    }

    /// Checks that the state of a session equals the fold of the events up to its position.
    fn check_state(&self, seen: &Session, who: &str) -> Option<String> {
        let own = ScopedDelta::from_delta(&seen.state.to_delta()).session;
        let expected = self.states.get(seen.position as usize)?;
        (own != *expected).then(|| {
            let position = seen.position;
            format!(
                "{who} at position {position} has the state {own:?}, but the log has {expected:?}"
            )
        })
    }

    /// Checks that acknowledged events are at the reported positions, and rejected ones not in the
    /// log.
    fn check_write(&self, write: &Write) -> Option<String> {
        match &write.outcome {
            Outcome::Unknown => None,
            Outcome::Refused if write.is_repeat => {
                Some(format!("the repeat of {:?} was rejected", write.ids))
            }
            Outcome::Refused => {
                let stored = write.ids.iter().find(|id| self.log.contains(&id.as_str()));
                stored.map(|id| format!("{id} was rejected but is stored"))
            }
            Outcome::Stored(positions) => {
                let is_at = |(at, id): (&u64, &String)| {
                    self.log.get(*at as usize - 1).copied() == Some(id.as_str())
                };
                let is_dense = positions.windows(2).all(|two| two[0] + 1 == two[1]);
                let is_stored = positions.len() == write.ids.len()
                    && is_dense
                    && positions.iter().zip(&write.ids).all(is_at);
                (!is_stored).then(|| {
                    format!(
                        "{:?} was acknowledged at {positions:?} but is not stored",
                        write.ids
                    )
                })
            }
        }
    }

    /// Checks that an append that began after another had returned has a higher position.
    fn check_order(&self, writes: &[Write]) -> Option<String> {
        let mut placed: Vec<(u64, &Write)> = Vec::new();
        for write in writes.iter().filter(|write| !write.is_repeat) {
            if let Outcome::Stored(positions) = &write.outcome {
                placed.extend(positions.first().map(|first| (*first, write)));
            }
        }
        placed.sort_by_key(|(at, _)| *at);
        let mut latest_call = 0;
        for (_, write) in &placed {
            if write.returned < latest_call {
                return Some(format!("{:?} is stored after a later append", write.ids));
            }
            latest_call = latest_call.max(write.called);
        }
        None
    }

    /// Checks that a read returns a prefix of the log, or the newest events of a prefix, and the
    /// matching state.
    fn check_read(&self, read: &Read) -> Vec<String> {
        let seen = &read.seen;
        let position = seen.position as usize;
        let from = read.newest.map_or(0, |n| position.saturating_sub(n));
        let events: Vec<(u64, &str)> = (seen.events.iter_with_positions())
            .map(|(at, event)| (at, event.id.as_str()))
            .collect();
        let mut wrong = Vec::new();
        let expected = self.log.get(from..position).map(|ids| {
            let places = from as u64 + 1..;
            places.zip(ids.iter().copied()).collect::<Vec<_>>()
        });
        if expected.as_ref() != Some(&events) {
            wrong.push(format!(
                "a read at position {position} returned {events:?}, but the log has {expected:?}"
            ));
        }
        wrong.extend(self.check_state(seen, "a read"));
        wrong
    }

    /// Checks that a read includes everything that was acknowledged or read before its call.
    fn check_freshness(&self, history: &History) -> Vec<String> {
        // The last position known to be stored, by the time at which it became known.
        let mut known: BTreeMap<u64, u64> = BTreeMap::new();
        let mut record = |moment: u64, position: u64| {
            let at = known.entry(moment).or_default();
            *at = (*at).max(position);
        };
        for write in &history.writes {
            if let Outcome::Stored(positions) = &write.outcome {
                record(write.returned, positions.iter().copied().max().unwrap_or(0));
            }
        }
        for read in &history.reads {
            record(read.returned, read.seen.position);
        }
        let mut most = 0;
        for position in known.values_mut() {
            most = most.max(*position);
            *position = most;
        }
        let stale = history.reads.iter().filter_map(|read| {
            let (_, expected) = known.range(..read.called).next_back()?;
            let found = read.seen.position;
            (found < *expected).then(|| {
                format!(
                    "a read ends at position {found}, but position {expected} was already \
                     acknowledged"
                )
            })
        });
        stale.collect()
    }
}

/// The values to which each writer set its own user state key, with the writes.
struct Marks<'a>(HashMap<&'a str, Vec<(i64, &'a Write)>>);

impl Marks<'_> {
    fn from_writes(writes: &[Write]) -> Marks<'_> {
        let mut marks: HashMap<&str, Vec<(i64, &Write)>> = HashMap::new();
        for write in writes.iter().filter(|write| !write.is_repeat) {
            if let Some((name, number)) = &write.mark {
                marks.entry(name).or_default().push((*number, write));
            }
        }
        Marks(marks)
    }

    /// Checks that, for each writer, a read shows at least the value acknowledged before its call
    /// and at most the value attempted before its return.
    fn check(&self, read: &Read) -> Option<String> {
        for (name, writes) in &self.0 {
            let found = read.seen.state.get(name).and_then(|n| n.as_i64());
            let found = found.unwrap_or(0);
            let stored = |write: &Write| matches!(write.outcome, Outcome::Stored(_));
            let before = writes
                .iter()
                .filter(|(_, write)| write.returned < read.called);
            let least = before.filter(|(_, write)| stored(write)).map(|(n, _)| *n);
            let least = least.max().unwrap_or(0);
            let tried = writes
                .iter()
                .filter(|(_, write)| write.called < read.returned);
            let most = tried.map(|(n, _)| *n).max().unwrap_or(0);
            if !(least..=most).contains(&found) {
                return Some(format!(
                    "a read returned {found} for {name}; expected {least} to {most}"
                ));
            }
        }
        None
    }
}
