//! Power loss: record what the real program writes and syncs, build disk images as they could look
//! after a power failure at many moments, open each image and compare it with what was acknowledged
//! before that moment. `retain_testkit::crash` documents which writes survive.

use retain_testkit::crash::{Action, Moment, Stage, have_strace};

use crate::{
    ledger::Ledger,
    power_simulation::{Outcome, PowerSimulation},
    seed, skip, times,
};

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_events_survive_a_power_failure() {
    let test = "acknowledged_events_survive_a_power_failure";
    let points = times(400, 10_000);
    if let Some(outcome) = simulate_power_loss(test, "full", 4, points).await {
        assert_eq!(outcome.bad, Vec::<String>::new());
        assert_eq!(outcome.lossy, 0);
    }
}

/// If the test detects no loss with reduced durability, its other results prove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn simulation_detects_lost_events_with_reduced_durability() {
    let test = "simulation_detects_lost_events_with_reduced_durability";
    if let Some(outcome) = simulate_power_loss(test, "normal", 5, times(100, 2000)).await {
        assert!(
            outcome.lossy > 0,
            "the test proves nothing: no event was lost"
        );
        // Only losses are allowed with this setting: the remaining data must be consistent.
        assert_eq!(outcome.bad, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn simulation_detects_corruption_without_syncs() {
    let test = "simulation_detects_corruption_without_syncs";
    if let Some(outcome) = simulate_power_loss(test, "off", 6, times(100, 2000)).await {
        assert!(
            !outcome.bad.is_empty(),
            "the test proves nothing: no image was corrupt"
        );
    }
}

async fn simulate_power_loss(
    test: &str,
    synchronous: &str,
    default_seed: u64,
    points: usize,
) -> Option<Outcome> {
    if !have_strace() {
        skip(test, "strace is not installed or not permitted to trace");
        return None;
    }
    let seed = seed(test, default_seed);
    // Errors are likely where the WAL restarts, so make many checkpoints.
    let options = format!("?synchronous={synchronous}&checkpoint_pages=1000");
    let mut simulation = PowerSimulation::new(&options);
    run_clients(&mut simulation);
    let outcome = simulation.crash(seed, points).await;
    let (lossy, bad) = (outcome.lossy, outcome.bad.len());
    println!("{test}: {points} crash points, {lossy} with losses, {bad} with other faults");
    Some(outcome)
}

/// Runs a slow client, a fast one, one that is killed and restarted, and two concurrent ones.
fn run_clients(simulation: &mut PowerSimulation) {
    simulation.append(&mut Ledger::new("calm", 1), 420, None);
    simulation.append(&mut Ledger::new("eager", 8), 600, None);
    let mut unlucky = Ledger::new("unlucky", 1);
    simulation.append(&mut unlucky, 60, Some("write:signal=KILL:when=4"));
    assert!(
        unlucky.acknowledged() < 60,
        "the client was killed too late"
    );
    simulation.append(&mut unlucky, 60, None);
    simulation.append_concurrently([Ledger::new("left", 2), Ledger::new("right", 2)], 40);
    let begun = simulation
        .moments()
        .iter()
        .filter(|moment| begins_wal(moment))
        .count();
    assert!(
        begun > 5,
        "too few checkpoints: the WAL was begun {begun} times"
    );
}

/// Whether the write begins a WAL, or restarts it after a full checkpoint.
fn begins_wal(moment: &Moment) -> bool {
    let Action::Write {
        file, offset: 0, ..
    } = &*moment.action
    else {
        return false;
    };
    file == "sessions.db-wal" && moment.stage == Stage::Begin
}
