//! Kills a writer with SIGKILL while it appends, repeatedly on one database.

use std::{os::unix::process::ExitStatusExt as _, path::Path, process::Command, time::Duration};

use retain::SqliteSessionService;
use retain_testkit::random::Random;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::{
    ledger::{Fault, Ledger, compare_all, compare_open},
    program::{ChildProgram, RETAIN, append_arguments, uri},
    seed, times,
};

/// Number of events that a client sends per process.
const LINES: usize = 40;

/// Number of processes per session. A longer session would take longer to read each time.
const LIVES: usize = 25;

/// Number of cycles per database, limited for the same reason.
const CYCLES: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_events_of_sequential_appends_survive_a_kill() {
    let test = "acknowledged_events_of_sequential_appends_survive_a_kill";
    kill_repeatedly(seed(test, 1), &["single"], 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_events_of_eight_concurrent_appends_survive_a_kill() {
    let test = "acknowledged_events_of_eight_concurrent_appends_survive_a_kill";
    kill_repeatedly(seed(test, 2), &["eight"], 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_events_survive_when_four_processes_are_killed() {
    let test = "acknowledged_events_survive_when_four_processes_are_killed";
    kill_repeatedly(seed(test, 3), &["north", "east", "south", "west"], 2).await;
}

/// Runs one client per name, each with its own process, all on one database.
async fn kill_repeatedly(seed: u64, names: &[&str], in_flight: usize) {
    let mut random = Random::new(seed);
    let (mut acknowledged, mut lost_acknowledgements) = (0, 0);
    let mut left = times(50, 1000);
    while left > 0 {
        let cycles = left.min(CYCLES);
        left -= cycles;
        let mut database = CrashedDatabase::new(names, in_flight);
        for cycle in 0..cycles {
            database.cycle(cycle, &mut random).await;
        }
        database.end().await;
        acknowledged += database
            .done
            .iter()
            .map(Ledger::acknowledged)
            .sum::<usize>();
        lost_acknowledgements += database.lost_acknowledgements;
    }
    println!(
        "{acknowledged} events acknowledged; {lost_acknowledgements} stored without an acknowledgement"
    );
    // Only stored events whose acknowledgement was lost show that a retry stores nothing twice.
    assert!(
        lost_acknowledgements > 0,
        "the test proves nothing: no process was killed between storing and acknowledging an event"
    );
}

/// One database and the clients that have used it.
struct CrashedDatabase<'a> {
    folder: TempDir,
    names: &'a [&'a str],
    in_flight: usize,
    clients: Vec<Ledger>,
    done: Vec<Ledger>,
    lost_acknowledgements: usize,
}

impl CrashedDatabase<'_> {
    fn new<'a>(names: &'a [&'a str], in_flight: usize) -> CrashedDatabase<'a> {
        CrashedDatabase {
            folder: retain_testkit::scratch::folder(),
            names,
            in_flight,
            clients: Vec::new(),
            done: Vec::new(),
            lost_acknowledgements: 0,
        }
    }

    fn store(&self) -> String {
        uri(&self.folder.path().join("sessions.db"))
    }

    async fn cycle(&mut self, cycle: usize, random: &mut Random) {
        let store = self.store();
        if cycle.is_multiple_of(LIVES) {
            finish(&store, &mut self.clients);
            self.done.append(&mut self.clients);
            let names = self.names.iter().map(|name| format!("{name}-{cycle}"));
            self.clients = names
                .map(|name| Ledger::new(&name, self.in_flight))
                .collect();
        }
        run_and_kill(&store, &mut self.clients, random);
        // In the other cases, the next process starts with the files that the killed one left.
        if random.chance(70) {
            let sessions = SqliteSessionService::connect(&store).await.unwrap();
            let faults = compare_open(&sessions, &self.clients).await;
            assert_eq!(faults, [], "cycle {cycle}");
            for client in &self.clients {
                self.lost_acknowledgements += client.lost_acknowledgements(&sessions).await;
            }
        }
    }

    /// Sends the remaining events and compares everything.
    async fn end(&mut self) {
        finish(&self.store(), &mut self.clients);
        self.done.append(&mut self.clients);
        assert_eq!(
            compare_all(&self.store(), &self.done).await,
            [],
            "at the end"
        );
    }
}

/// Runs one process per client and kills each at its own moment.
fn run_and_kill(store: &str, clients: &mut [Ledger], random: &mut Random) {
    std::thread::scope(|scope| {
        for client in clients {
            let lines = random.below(LINES as u64 + 1) as usize;
            // Opening takes longer than an append: with the short time, a kill at line 0 would
            // almost always come before the database is open.
            let longest_us = if lines == 0 { 30_000 } else { 3_000 };
            let then = Duration::from_micros(random.below(longest_us));
            scope.spawn(move || run_until_killed(store, client, lines, then));
        }
    });
}

/// Appends until some lines are acknowledged and some time has passed, then kills the process.
fn run_until_killed(store: &str, client: &mut Ledger, lines: usize, then: Duration) {
    let running = start(store, client);
    for _ in 0..lines {
        match running.next_line() {
            Some(line) => client.acknowledge_line(&line),
            None => break,
        }
    }
    wait(then);
    let exit = running.kill();
    for line in &exit.lines {
        client.acknowledge_line(line);
    }
    let was_killed = exit.status.signal() == Some(9);
    assert!(was_killed || exit.status.success(), "{}", exit.stderr);
}

/// Sends the remaining events and lets the program exit by itself: every line is acknowledged.
fn finish(store: &str, clients: &mut [Ledger]) {
    for client in clients {
        let exit = start(store, client).wait();
        assert!(exit.status.success(), "{}", exit.stderr);
        for line in &exit.lines {
            client.acknowledge_line(line);
        }
        assert_eq!(exit.lines.len(), LINES);
    }
}

fn start(store: &str, client: &mut Ledger) -> ChildProgram {
    let mut command = Command::new(RETAIN);
    append_arguments(&mut command, store, client);
    ChildProgram::start(command, client.outbox(LINES))
}

#[allow(
    clippy::disallowed_methods,
    reason = "this thread has no async executor"
)]
pub(crate) fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// Changes a healthy database directly and returns what the comparison finds.
async fn after_tampering(sql: &str) -> Vec<Fault> {
    let folder = retain_testkit::scratch::folder();
    let path = folder.path().join("sessions.db");
    let mut clients = [Ledger::new("s", 1)];
    finish(&uri(&path), &mut clients);
    assert_eq!(compare_all(&uri(&path), &clients).await, []);
    tamper(&path, sql);
    compare_all(&uri(&path), &clients).await
}

fn tamper(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_finds_a_lost_event() {
    // Remove the last event and decrease the position.
    let sql = "DELETE FROM events WHERE event_id = 's-39'; UPDATE sessions SET position = 39";
    let faults = after_tampering(sql).await;
    assert!(faults.contains(&Fault::Lost("s-39".into())), "{faults:?}");

    // Remove an event in the middle: the database check detects the gap.
    let faults = after_tampering("DELETE FROM events WHERE event_id = 's-7'").await;
    assert!(
        faults
            .iter()
            .any(|fault| matches!(fault, Fault::Corrupt(_)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_finds_a_repeated_event() {
    let sql = "DROP INDEX events_by_id; \
               INSERT INTO events SELECT key + 1, event_id, invocation, timestamp, body \
               FROM events WHERE event_id = 's-39'; \
               UPDATE sessions SET position = 41";
    let faults = after_tampering(sql).await;
    assert!(
        faults.contains(&Fault::Duplicate("s-39".into())),
        "{faults:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_finds_reordered_events() {
    let sql = "UPDATE events SET key = key + 1000 WHERE event_id = 's-20'; \
               UPDATE events SET key = key - 1 WHERE event_id = 's-21'; \
               UPDATE events SET key = key - 999 WHERE event_id = 's-20'";
    let faults = after_tampering(sql).await;
    assert!(faults.contains(&Fault::Moved("s-20".into())), "{faults:?}");
    assert!(
        faults.contains(&Fault::OutOfOrder("s-20".into())),
        "{faults:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_finds_a_changed_state_or_event() {
    let sql = "UPDATE state SET value = '1' WHERE key = 'count'; DELETE FROM shared_state; \
               UPDATE events SET body = replace(body, 'event 3 ', 'event 4 ')";
    let faults = after_tampering(sql).await;
    for fault in [
        Fault::State("count".into()),
        Fault::State("user:s".into()),
        Fault::Unexpected("s-3".into()),
    ] {
        assert!(faults.contains(&fault), "{fault} in {faults:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_finds_an_event_that_was_never_sent() {
    let folder = retain_testkit::scratch::folder();
    let store = uri(&folder.path().join("sessions.db"));
    let mut clients = [Ledger::new("s", 1)];
    finish(&store, &mut clients);
    let without_sent_events = [Ledger::new("s", 1)];
    let faults = compare_all(&store, &without_sent_events).await;
    assert!(faults.contains(&Fault::TooMany(LINES)), "{faults:?}");
    assert!(
        faults.contains(&Fault::Unexpected("s-0".into())),
        "{faults:?}"
    );
}
