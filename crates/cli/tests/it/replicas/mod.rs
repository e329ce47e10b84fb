//! Several servers on one store, with many clients, while one after another is killed: no
//! acknowledged event is lost, none is stored twice, runs do not interleave, and tails have no gap.
//!
//! `cluster` has the servers, `load` the clients, `follow` the tails, `compare` the comparison;
//! `postgres` is a database that can be killed, and `proxy` cuts the connections to it.

mod cluster;
mod compare;
mod follow;
mod http;
mod load;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod proxy;
#[cfg(feature = "postgres")]
mod with_postgres;

use std::sync::{OnceLock, atomic::Ordering};

use cluster::Cluster;
use compare::{Fault, Log, compare, compare_shared};
use follow::{Seen, follow};
use load::{Client, Load, Sent, path, sessions};
use retain_testkit::random::Random;

use crate::{program::uri, seed, times};

/// The failures of servers or of the database while clients append.
type Disruption<'a> = dyn Fn(&Load<'_>, &mut Random) + Sync + 'a;

/// Let clients append during failures that they notice, and compare.
fn append_through(cluster: Cluster, clients: usize, seed: u64, disruption: &Disruption<'_>) {
    append(cluster, clients, seed, true, disruption);
}

/// Let clients append during failures, and compare. `notice` is whether clients must notice the
/// failures.
fn append(cluster: Cluster, clients: usize, seed: u64, notice: bool, disruption: &Disruption<'_>) {
    let load = Load::new(&cluster);
    let names = sessions();
    let goals: Vec<OnceLock<u64>> = names.iter().map(|_| OnceLock::new()).collect();
    let (sent, seen) = std::thread::scope(|scope| {
        let (load, cluster) = (&load, &cluster);
        // The scope waits for all its threads, even when one of them has failed.
        let _enough = StopOnDrop {
            load,
            goals: &goals,
        };
        let following = names.iter().zip(&goals).enumerate();
        let following: Vec<_> = following
            .map(|(number, (name, goal))| scope.spawn(move || follow(cluster, name, number, goal)))
            .collect();
        let working: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || Client::new(load, number, seed).work()))
            .collect();
        load.progress(clients * 2);
        disruption(load, &mut Random::new(seed));
        load.progress(clients * 2);
        load.enough.store(true, Ordering::Relaxed);
        let sent: Vec<Sent> = working
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect();
        for (name, goal) in names.iter().zip(&goals) {
            let answer = cluster.get(0, &format!("{}/events?recent=1", path(name)));
            goal.set(answer.body["position"].as_u64().unwrap()).unwrap();
        }
        let seen: Vec<Seen> = following.into_iter().map(|f| f.join().unwrap()).collect();
        (sent, seen)
    });
    let first_refusal = load.first_refusal.into_inner().unwrap_or_default();
    let (answered, resent) = (load.answered.into_inner(), load.resent.into_inner());
    let moved: usize = seen.iter().map(|seen| seen.moved).sum();
    println!(
        "{answered} appends answered, {resent} requests sent again, followers moved {moved} times"
    );
    println!("the first refusal: {first_refusal}");
    let faults = compare_everywhere(&cluster, &sent, &seen);
    assert_eq!(faults, [], "{}", cluster.stop());
    // On a busy machine a server may wait longer than it retries.
    let is_noticed = resent * 500 >= answered.max(1);
    match notice {
        true => assert!(resent > 0, "the test does not bite"),
        false => assert!(!is_noticed, "{resent} of {answered} were sent again"),
    }
}

/// Stops all threads on drop, so that a failure stops them too.
struct StopOnDrop<'a> {
    load: &'a Load<'a>,
    goals: &'a [OnceLock<u64>],
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.load.enough.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            self.load.given_up.store(true, Ordering::Relaxed);
        }
        // Every follower has reached this goal.
        for goal in self.goals {
            let _ = goal.set(0);
        }
    }
}

/// All replicas must return the same data.
fn compare_everywhere(cluster: &Cluster, sent: &[Sent], seen: &[Seen]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for replica in 0..cluster.replicas() {
        for session in sessions() {
            let log = Log::read(cluster, replica, &session);
            faults.extend(compare(&log, sent, seen));
            faults.extend(compare_shared(&log, sent));
        }
    }
    faults
}

/// Kill one server after another and restart it.
fn kill_one_after_another(load: &Load<'_>, random: &mut Random, rounds: usize) {
    for round in 0..rounds {
        let number = round % load.cluster.replicas();
        load.cluster.kill(number);
        if load.cluster.replicas() > 1 {
            // The others continue without it.
            load.progress(random.below(200) as usize);
        }
        load.cluster.revive(number);
        load.progress(50 + random.below(200) as usize);
    }
}

#[test]
fn server_on_sqlite_loses_nothing_when_killed_under_load() {
    let seed = seed("server_on_sqlite_loses_nothing_when_killed_under_load", 81);
    let folder = retain_testkit::scratch::folder();
    let cluster = Cluster::start(&uri(&folder.path().join("sessions.db")), 1);
    append_through(cluster, 32, seed, &|load, random| {
        kill_one_after_another(load, random, times(3, 30));
    });
}

#[test]
fn three_servers_on_sqlite_lose_nothing_when_killed_in_turn() {
    let seed = seed(
        "three_servers_on_sqlite_lose_nothing_when_killed_in_turn",
        82,
    );
    let folder = retain_testkit::scratch::folder();
    let cluster = Cluster::start(&uri(&folder.path().join("sessions.db")), 3);
    append_through(cluster, 32, seed, &|load, random| {
        kill_one_after_another(load, random, times(3, 30));
    });
}

#[test]
fn load_test_fails_instead_of_hanging_without_servers() {
    let seed = seed("load_test_fails_instead_of_hanging_without_servers", 87);
    let folder = retain_testkit::scratch::folder();
    let cluster = Cluster::start(&uri(&folder.path().join("sessions.db")), 2);
    let failing = || {
        append_through(cluster, 8, seed, &|load, _| {
            // No server is left to answer the waiting clients.
            load.cluster.kill(0);
            load.cluster.kill(1);
            std::panic::resume_unwind(Box::new("failed on purpose"));
        });
    };
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(failing));
    assert_eq!(
        failed.unwrap_err().downcast_ref::<&str>(),
        Some(&"failed on purpose")
    );
}
