//! When the kernel reports a failed write or sync, the client gets an error and never a false
//! acknowledgement. Appends succeed after a restart, and acknowledged events survive a later power
//! failure.

use retain::{
    Event, SessionError, SessionLog as _, SessionService as _, SqliteSessionService,
    session::SessionKey,
};
use retain_testkit::{
    crash::{Stage, have_strace},
    random::Random,
};

use crate::{
    ledger::{Ledger, error_chain},
    power_simulation::PowerSimulation,
    seed, skip, times,
};

/// The system calls that fail, with their errors. All of them change data.
const FAULTS: [&str; 6] = [
    "fdatasync:error=EIO",
    "fdatasync:error=ENOSPC",
    "pwrite64:error=EIO",
    "pwrite64:error=ENOSPC",
    "ftruncate:error=EIO",
    "unlink:error=EIO",
];

/// Number of events that a client sends per process.
const LINES: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn failed_write_or_sync_is_never_acknowledged() {
    let test = "failed_write_or_sync_is_never_acknowledged";
    if !have_strace() {
        return skip(test, "strace is not installed or not permitted to trace");
    }
    let seed = seed(test, 7);
    let mut random = Random::new(seed);
    let mut failed = 0;
    for round in 0..times(3, 60) {
        let mut simulation = PowerSimulation::new("");
        let mut clients = [Ledger::new("calm", 1), Ledger::new("eager", 8)];
        for life in 0..12 {
            let client = &mut clients[life % 2];
            let fault = random_fault(&mut random);
            let succeeded = simulation.append(client, LINES, Some(&fault));
            failed += usize::from(!succeeded);
            let faults = simulation.compare().await;
            assert_eq!(
                faults,
                [],
                "seed {seed}, round {round}, life {life}: {fault}"
            );
        }
        for client in &mut clients {
            let succeeded = simulation.append(client, LINES, None);
            assert!(succeeded && client.acknowledged() >= LINES);
        }
        assert_eq!(
            simulation.compare().await,
            [],
            "seed {seed}, round {round}, at the end"
        );
        let outcome = simulation.crash(seed + round as u64, 60).await;
        assert_eq!(
            outcome.bad,
            Vec::<String>::new(),
            "seed {seed}, round {round}"
        );
        assert_eq!(outcome.lossy, 0, "seed {seed}, round {round}");
    }
    println!("{test}: {failed} lives ended in an error");
    assert!(
        failed > 0,
        "the test proves nothing: no process noticed a fault"
    );
}

/// A process that continues after a failure, like a server, retries each event until it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn retrying_process_never_acknowledges_a_lost_event_after_an_io_error() {
    let test = "retrying_process_never_acknowledges_a_lost_event_after_an_io_error";
    if !have_strace() {
        return skip(test, "strace is not installed or not permitted to trace");
    }
    let seed = seed(test, 8);
    let mut random = Random::new(seed);
    let mut failed = 0;
    for round in 0..times(3, 60) {
        let mut simulation = PowerSimulation::new("");
        let mut client = Ledger::new("retrying", 1);
        simulation.append(&mut client, LINES, None);
        for life in 0..4 {
            let fault = random_repeated_fault(&mut random);
            let itself = std::env::current_exe().unwrap();
            let succeeded =
                simulation.append_with(&mut client, LINES, &fault, &itself, |child, uri| {
                    child.args([RETRYING_CLIENT, "--exact", "--nocapture"]);
                    child.env(RETRYING_CLIENT_STORE, uri);
                });
            assert!(
                succeeded,
                "seed {seed}, round {round}, life {life}: {fault}"
            );
            let faults = simulation.compare().await;
            assert_eq!(
                faults,
                [],
                "seed {seed}, round {round}, life {life}: {fault}"
            );
        }
        let outcome = simulation.crash(seed + round as u64, 60).await;
        assert_eq!(
            outcome.bad,
            Vec::<String>::new(),
            "seed {seed}, round {round}"
        );
        assert_eq!(outcome.lossy, 0, "seed {seed}, round {round}");
        let ends = simulation.moments().iter().map(|moment| moment.stage);
        failed += ends.filter(|end| *end == Stage::End(-1)).count();
    }
    println!("{test}: {failed} calls failed");
    assert!(failed > 0, "the test proves nothing: no call failed");
}

/// Returns a fault of every Nth write or sync, rare enough that appends succeed in between.
fn random_repeated_fault(random: &mut Random) -> String {
    let fault = FAULTS[random.below(4) as usize];
    let rest = if fault.starts_with("pwrite64") { 40 } else { 3 };
    let (first, step) = (1 + random.below(rest), rest + random.below(rest));
    format!("{fault}:when={first}+{step}")
}

/// The name of the test function below, and the variable without which it does nothing.
const RETRYING_CLIENT: &str = "io_error::retrying_client";
const RETRYING_CLIENT_STORE: &str = "RETAIN_TEST_RETRYING_STORE";

/// Not a test, but the process that the test above runs. It opens a database, reads events and
/// retries each append until it succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn retrying_client() {
    let Ok(uri) = std::env::var(RETRYING_CLIENT_STORE) else {
        return;
    };
    let sessions = loop {
        match SqliteSessionService::connect(&uri).await {
            Ok(sessions) => break sessions,
            Err(error) => eprintln!("{}", error_chain(&error)),
        }
    };
    let key = Ledger::new("retrying", 1).key;
    loop {
        let created = sessions.create_session(&key.app, &key.user, None, Some(&key.id));
        match created.await {
            Ok(_) | Err(SessionError::AlreadyExists { .. }) => break,
            Err(error) => eprintln!("{}", error_chain(&error)),
        }
    }
    println!();
    for line in std::io::stdin().lines() {
        let event = Event::from_json(&line.unwrap()).unwrap();
        println!("{}", append_with_retries(&sessions, &key, event).await);
    }
}

async fn append_with_retries(
    sessions: &SqliteSessionService,
    key: &SessionKey,
    event: Event,
) -> String {
    loop {
        match sessions.append(key, event.clone().into()).await {
            Ok(appended) => {
                let (position, event) = &appended.events[0];
                return format!("{{\"position\":{position},\"id\":\"{}\"}}", event.id);
            }
            Err(error) => eprintln!("{}", error_chain(&error)),
        }
    }
}

/// Returns a fault of the n-th call of a thread, and sometimes of all its later calls.
fn random_fault(random: &mut Random) -> String {
    let fault = FAULTS[random.below(FAULTS.len() as u64) as usize];
    let most = if fault.starts_with("pwrite64") { 40 } else { 4 };
    let when = 1 + random.below(most);
    let on = if random.chance(30) { "+" } else { "" };
    format!("{fault}:when={when}{on}")
}
