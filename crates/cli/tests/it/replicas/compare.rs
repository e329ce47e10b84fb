//! Compares what was sent, acknowledged and tailed with what is stored.

use std::collections::{HashMap, HashSet};

use retain::Json;

use super::{
    cluster::Cluster,
    follow::TailLog,
    load::{EventOutcome, SentEvent, path},
};

/// A difference from what the store must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// An acknowledged event is missing or at another position.
    Lost(String),
    /// An event is stored twice.
    Duplicate(String),
    /// An event was rejected or never sent, but is stored.
    Unexpected(String),
    /// Events of one client are not in the order in which it sent them.
    OutOfOrder(String),
    /// Positions are not 1, 2, 3, …
    Gap(String, u64),
    /// A run has written after another one had begun writing.
    Interleaved(String),
    /// A tail received an event other than the stored one at this position.
    TailMismatch(String, u64),
    /// A state key differs from the last event that set it.
    State(String),
}

/// A stored session.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    pub(super) session: String,
    pub(super) events: Vec<StoredEvent>,
    pub(super) state: HashMap<String, u64>,
}

/// A stored event.
#[derive(Debug, Clone)]
pub(super) struct StoredEvent {
    pub(super) position: u64,
    pub(super) id: String,
    pub(super) run: String,
    pub(super) text: String,
}

impl Log {
    /// Reads a session from one replica.
    pub(super) fn read(cluster: &Cluster, replica: usize, session: &str) -> Log {
        let answer = cluster.get(replica, &format!("{}/events", path(session)));
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        let events = answer.body["events"].as_array().unwrap().iter();
        let text = |json: &Json| json.as_str().unwrap().to_owned();
        let events = events.map(|logged| StoredEvent {
            position: logged["position"].as_u64().unwrap(),
            id: text(&logged["event"]["id"]),
            run: text(&logged["event"]["invocationId"]),
            text: text(&logged["event"]["content"]["parts"][0]["text"]),
        });
        let state = cluster.get(replica, &format!("{}/state", path(session)));
        let state = state.body["state"].as_object().unwrap().iter();
        Log {
            session: session.to_owned(),
            events: events.collect(),
            state: state
                .map(|(key, value)| (key.to_owned(), value.as_u64().unwrap()))
                .collect(),
        }
    }

    fn last(&self) -> u64 {
        self.events.last().map_or(0, |event| event.position)
    }
}

/// Returns every fault of a log.
pub(super) fn compare(log: &Log, sent: &[SentEvent], seen: &[TailLog]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let sent: HashMap<&str, &SentEvent> = sent
        .iter()
        .filter(|sent| sent.session == log.session)
        .map(|sent| (sent.id.as_str(), sent))
        .collect();
    compare_events(log, &sent, &mut faults);
    compare_order(log, &sent, &mut faults);
    compare_runs(log, &mut faults);
    compare_state(log, &sent, &mut faults);
    for seen in seen.iter().filter(|seen| seen.session == log.session) {
        compare_tail(log, seen, &mut faults);
    }
    faults
}

fn compare_events(log: &Log, sent: &HashMap<&str, &SentEvent>, faults: &mut Vec<Fault>) {
    let mut places = HashMap::new();
    for (expected, event) in (1..).zip(&log.events) {
        if event.position != expected {
            faults.push(Fault::Gap(log.session.clone(), expected));
        }
        if places.insert(event.id.as_str(), event.position).is_some() {
            faults.push(Fault::Duplicate(event.id.clone()));
        }
        let as_sent = sent.get(event.id.as_str()).is_some_and(|sent| {
            let text = format!("{} of {}", sent.number, sent.client);
            sent.outcome != EventOutcome::Refused && sent.run == event.run && text == event.text
        });
        if !as_sent {
            faults.push(Fault::Unexpected(event.id.clone()));
        }
    }
    for (id, sent) in sent {
        if let EventOutcome::Stored(position) = sent.outcome
            && places.get(id) != Some(&position)
        {
            faults.push(Fault::Lost((*id).to_owned()));
        }
    }
}

fn compare_order(log: &Log, sent: &HashMap<&str, &SentEvent>, faults: &mut Vec<Fault>) {
    let mut last: HashMap<usize, u64> = HashMap::new();
    for event in &log.events {
        let Some(sent) = sent.get(event.id.as_str()) else {
            continue;
        };
        if last.insert(sent.client, sent.number) >= Some(sent.number) {
            faults.push(Fault::OutOfOrder(event.id.clone()));
        }
    }
}

/// Checks that the events of different runs do not interleave.
fn compare_runs(log: &Log, faults: &mut Vec<Fault>) {
    let (mut over, mut now) = (HashSet::new(), "");
    for event in &log.events {
        if event.run != now {
            over.insert(now);
            now = &event.run;
            if over.contains(now) {
                faults.push(Fault::Interleaved(event.id.clone()));
            }
        }
    }
}

fn compare_state(log: &Log, sent: &HashMap<&str, &SentEvent>, faults: &mut Vec<Fault>) {
    let mut expected: HashMap<String, u64> = HashMap::new();
    for event in &log.events {
        if let Some(sent) = sent.get(event.id.as_str()) {
            expected.insert(format!("last-{}", sent.client), sent.number);
        }
    }
    let own = log.state.iter().filter(|(key, _)| key.starts_with("last-"));
    let own: HashMap<String, u64> = own.map(|(key, value)| (key.clone(), *value)).collect();
    let keys: HashSet<&String> = expected.keys().chain(own.keys()).collect();
    let wrong = keys
        .into_iter()
        .filter(|key| expected.get(*key) != own.get(*key));
    faults.extend(wrong.map(|key| Fault::State(format!("{} {key}", log.session))));
}

/// Checks that the user's state has the last value that each client set.
pub(super) fn compare_shared(log: &Log, sent: &[SentEvent]) -> Vec<Fault> {
    let mut expected: HashMap<String, u64> = HashMap::new();
    for sent in sent {
        if sent.outcome != EventOutcome::Refused && sent.number.is_multiple_of(5) {
            let last = expected.entry(format!("user:last-{}", sent.client));
            let last = last.or_default();
            *last = sent.number.max(*last);
        }
    }
    let wrong = expected
        .into_iter()
        .filter(|(key, value)| log.state.get(key) != Some(value));
    wrong.map(|(key, _)| Fault::State(key)).collect()
}

fn compare_tail(log: &Log, seen: &TailLog, faults: &mut Vec<Fault>) {
    let mut tailed = seen.events.iter();
    for event in &log.events {
        let same = |(position, id): &(u64, String)| *position == event.position && *id == event.id;
        if !tailed.next().is_some_and(same) {
            faults.push(Fault::TailMismatch(log.session.clone(), event.position));
            return;
        }
    }
    if tailed.next().is_some() {
        faults.push(Fault::TailMismatch(log.session.clone(), log.last() + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "runs-0";

    /// Creates two runs of two events each, as sent, stored and tailed.
    fn healthy() -> (Log, Vec<SentEvent>, Vec<TailLog>) {
        let (mut log, mut sent, mut tailed) = (Log::default(), Vec::new(), Vec::new());
        log.session = SESSION.into();
        for (position, client, number) in [(1, 7, 1), (2, 7, 2), (3, 8, 1), (4, 8, 2)] {
            let (id, run) = (format!("evt-{client}-{number}"), format!("run-{client}"));
            tailed.push((position, id.clone()));
            log.events.push(StoredEvent {
                position,
                id: id.clone(),
                run: run.clone(),
                text: format!("{number} of {client}"),
            });
            log.state.insert(format!("last-{client}"), number);
            sent.push(SentEvent {
                session: SESSION.into(),
                client,
                number,
                id,
                run,
                outcome: EventOutcome::Stored(position),
            });
        }
        let seen = TailLog {
            session: SESSION.into(),
            events: tailed,
            reconnects: 0,
        };
        (log, sent, vec![seen])
    }

    fn faults_after(
        change: impl FnOnce(&mut Log, &mut Vec<SentEvent>, &mut Vec<TailLog>),
    ) -> Vec<Fault> {
        let (mut log, mut sent, mut seen) = healthy();
        assert_eq!(compare(&log, &sent, &seen), []);
        change(&mut log, &mut sent, &mut seen);
        compare(&log, &sent, &seen)
    }

    #[test]
    fn compare_finds_lost_moved_repeated_and_foreign_events() {
        let faults = faults_after(|log, _, _| drop(log.events.pop()));
        assert!(
            faults.contains(&Fault::Lost("evt-8-2".into())),
            "{faults:?}"
        );
        let faults = faults_after(|_, sent, _| sent[1].outcome = EventOutcome::Stored(3));
        assert_eq!(faults, [Fault::Lost("evt-7-2".into())]);
        let faults = faults_after(|log, _, _| log.events[1].id = "evt-7-1".into());
        assert!(
            faults.contains(&Fault::Duplicate("evt-7-1".into())),
            "{faults:?}"
        );
        let faults = faults_after(|_, sent, _| sent[1].outcome = EventOutcome::Refused);
        assert_eq!(faults, [Fault::Unexpected("evt-7-2".into())]);
        let faults = faults_after(|log, _, _| log.events[2].text = "2 of 8".into());
        assert_eq!(faults, [Fault::Unexpected("evt-8-1".into())]);
        let faults = faults_after(|log, _, _| log.events[3].position = 5);
        assert!(
            faults.contains(&Fault::Gap(SESSION.into(), 4)),
            "{faults:?}"
        );
    }

    #[test]
    fn compare_finds_reordered_events_and_interleaved_runs() {
        let faults = faults_after(|log, sent, seen| {
            for (place, position) in [(1, 3), (2, 2)] {
                log.events[place].position = position;
                sent[place].outcome = EventOutcome::Stored(position);
                seen[0].events[place].0 = position;
            }
            log.events.swap(1, 2);
            seen[0].events.swap(1, 2);
        });
        let (first, second) = ("evt-7-2".to_owned(), "evt-8-2".to_owned());
        assert_eq!(
            faults,
            [Fault::Interleaved(first), Fault::Interleaved(second)]
        );
        let faults = faults_after(|log, _, _| log.events.swap(0, 1));
        assert!(
            faults.contains(&Fault::OutOfOrder("evt-7-1".into())),
            "{faults:?}"
        );
    }

    #[test]
    fn compare_finds_missed_and_repeated_tail_events() {
        let faults = faults_after(|_, _, seen| drop(seen[0].events.remove(2)));
        assert_eq!(faults, [Fault::TailMismatch(SESSION.into(), 3)]);
        let faults = faults_after(|_, _, seen| {
            let again = seen[0].events[1].clone();
            seen[0].events.insert(2, again);
        });
        assert_eq!(faults, [Fault::TailMismatch(SESSION.into(), 3)]);
        let faults = faults_after(|_, _, seen| seen[0].events.push((5, "evt-9-9".into())));
        assert_eq!(faults, [Fault::TailMismatch(SESSION.into(), 5)]);
    }

    #[test]
    fn compare_finds_a_wrong_state() {
        let faults = faults_after(|log, _, _| log.state.extend([("last-8".into(), 1)]));
        assert_eq!(faults, [Fault::State("runs-0 last-8".into())]);
        let (log, mut sent, _) = healthy();
        assert_eq!(compare_shared(&log, &sent), []);
        sent[1].number = 5;
        assert_eq!(
            compare_shared(&log, &sent),
            [Fault::State("user:last-7".into())]
        );
    }
}
