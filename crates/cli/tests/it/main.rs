//! Tests that run the real program as a process. It is killed, loses power, runs out of disk space
//! or gets write errors, and every event that it acknowledged must survive. Other tests check the
//! output of the commands.
//!
//! `ledger` compares what a client sent and what was acknowledged with the database; `program` runs
//! `retain append` as a child process; `power_simulation` simulates power loss; `replicas` runs
//! several servers on one store. A random test prints its seed; `RETAIN_SEED` sets another one.
//! `RETAIN_LONG` makes the tests long.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop at the first surprise"
)]

mod backup;
mod closed_pipe;
mod concurrent_open;
mod crash;
mod demo;
mod disk_full;
mod erase;
mod io_error;
mod key_search;
mod ledger;
mod memory;
mod migrate;
mod power_loss;
mod power_simulation;
mod program;
mod replicas;
mod serve;
mod sweep;
mod upgrade;
mod usage;

/// Returns the seed of a random test: `RETAIN_SEED`, or else `default`.
fn seed(test: &str, default: u64) -> u64 {
    let given = std::env::var("RETAIN_SEED").ok();
    let seed = given.map_or(default, |text| {
        text.parse().expect("RETAIN_SEED is a number")
    });
    println!("{test}: RETAIN_SEED={seed}");
    seed
}

/// Returns the number of repetitions: `usually`, or `long` if `RETAIN_LONG` is set.
fn times(usually: usize, long: usize) -> usize {
    match std::env::var_os("RETAIN_LONG") {
        Some(_) => long,
        None => usually,
    }
}

/// Records a skipped test with its reason, for the summary of `scripts/test`.
fn skip(test: &str, reason: &str) {
    use std::io::Write as _;
    println!("{test}: skipped: {reason}");
    let Some(path) = std::env::var_os("RETAIN_SKIPS") else {
        return;
    };
    let mut options = std::fs::File::options();
    let mut file = options.append(true).create(true).open(path).unwrap();
    writeln!(file, "{test}: {reason}").unwrap();
}
