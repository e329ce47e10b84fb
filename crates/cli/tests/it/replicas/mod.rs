//! Several servers on one store, with many clients, while one after another is killed: no
//! acknowledged event is lost, none is stored twice, runs do not interleave, and tails have no gap.
//!
//! `cluster` starts and kills the servers, `load` runs the clients, `follow` reads the tails, and
//! `compare` finds differences. `postgres` is a database that can be killed, and `proxy` cuts the
//! connections to it.

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
use follow::{TailLog, follow};
use load::{Client, Load, SentEvent, path, sessions};
use retain_testkit::random::Random;

use crate::{program::uri, seed, times};

/// A function that kills servers or the database while clients append.
type Disruption<'a> = dyn Fn(&Load<'_>, &mut Random) + Sync + 'a;

/// Lets clients append during failures that they notice, and compares what they sent with the
/// store.
fn append_during_failures(
    cluster: Cluster,
    clients: usize,
    seed: u64,
    disruption: &Disruption<'_>,
) {
    append(cluster, clients, seed, true, disruption);
}

/// Lets clients append during failures, and compares what they sent with the store. `notice` says
/// whether clients must notice the failures or must hardly notice them.
fn append(cluster: Cluster, clients: usize, seed: u64, notice: bool, disruption: &Disruption<'_>) {
    let load = Load::new(&cluster);
    let names = sessions();
    let goals: Vec<OnceLock<u64>> = names.iter().map(|_| OnceLock::new()).collect();
    let (sent, seen) = std::thread::scope(|scope| {
        let (load, cluster) = (&load, &cluster);
        // The scope waits for all its threads, even when one of them has failed.
        let _stop_on_drop = StopOnDrop {
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
        load.wait_for_answers(clients * 2);
        disruption(load, &mut Random::new(seed));
        load.wait_for_answers(clients * 2);
        load.should_stop.store(true, Ordering::Relaxed);
        let sent: Vec<SentEvent> = working
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect();
        for (name, goal) in names.iter().zip(&goals) {
            let answer = cluster.get(0, &format!("{}/events?recent=1", path(name)));
            goal.set(answer.body["position"].as_u64().unwrap()).unwrap();
        }
        let seen: Vec<TailLog> = following.into_iter().map(|f| f.join().unwrap()).collect();
        (sent, seen)
    });
    let first_refusal = load.first_refusal.into_inner().unwrap_or_default();
    let (answered, resent) = (load.answered.into_inner(), load.resent.into_inner());
    let reconnects: usize = seen.iter().map(|seen| seen.reconnects).sum();
    println!(
        "{answered} appends answered, {resent} requests sent again, followers reconnected {reconnects} times"
    );
    println!("the first refusal: {first_refusal}");
    let faults = compare_everywhere(&cluster, &sent, &seen);
    assert_eq!(faults, [], "{}", cluster.stop());
    // On a busy machine, a server may give up before the database is back, so that a few clients
    // retry.
    let is_noticed = resent * 500 >= answered.max(1);
    match notice {
        true => assert!(
            resent > 0,
            "the test proves nothing: no client had to retry"
        ),
        false => assert!(
            !is_noticed,
            "clients retried {resent} of {answered} requests"
        ),
    }
}

/// Stops all threads on drop, so that they stop after a failed assertion too.
struct StopOnDrop<'a> {
    load: &'a Load<'a>,
    goals: &'a [OnceLock<u64>],
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.load.should_stop.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            self.load.has_failed.store(true, Ordering::Relaxed);
        }
        // Followers stop, because every one of them has reached position 0.
        for goal in self.goals {
            let _ = goal.set(0);
        }
    }
}

/// Checks that all replicas return the same data.
fn compare_everywhere(cluster: &Cluster, sent: &[SentEvent], seen: &[TailLog]) -> Vec<Fault> {
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

/// Kills one server after another and restarts it.
fn kill_one_after_another(load: &Load<'_>, random: &mut Random, rounds: usize) {
    for round in 0..rounds {
        let number = round % load.cluster.replicas();
        load.cluster.kill(number);
        if load.cluster.replicas() > 1 {
            // The others continue without it.
            load.wait_for_answers(random.below(200) as usize);
        }
        load.cluster.restart(number);
        load.wait_for_answers(50 + random.below(200) as usize);
    }
}

#[test]
fn server_on_sqlite_loses_nothing_when_killed_under_load() {
    let seed = seed("server_on_sqlite_loses_nothing_when_killed_under_load", 81);
    let folder = retain_testkit::scratch::folder();
    let cluster = Cluster::start(&uri(&folder.path().join("sessions.db")), 1);
    append_during_failures(cluster, 32, seed, &|load, random| {
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
    append_during_failures(cluster, 32, seed, &|load, random| {
        kill_one_after_another(load, random, times(3, 30));
    });
}

/// Replaces one server after another by a program with one more migration. The servers that are not
/// replaced yet stay ready.
fn upgrade_one_after_another(load: &Load<'_>, random: &mut Random) {
    let cluster = load.cluster;
    for number in 0..cluster.replicas() {
        cluster.kill(number);
        cluster.restart_upgraded(number);
        for replica in 0..cluster.replicas() {
            let ready = cluster.get(replica, "/ready");
            assert_eq!(ready.status, 200, "replica {replica}: {:?}", ready.body);
        }
        load.wait_for_answers(100 + random.below(200) as usize);
    }
}

#[test]
fn rolling_upgrade_on_sqlite_loses_nothing_and_keeps_old_servers_ready() {
    let seed = seed(
        "rolling_upgrade_on_sqlite_loses_nothing_and_keeps_old_servers_ready",
        88,
    );
    let folder = retain_testkit::scratch::folder();
    let cluster = Cluster::start(&uri(&folder.path().join("sessions.db")), 3);
    append_during_failures(cluster, 32, seed, &upgrade_one_after_another);
}

#[test]
fn load_test_fails_instead_of_hanging_without_servers() {
    let seed = seed("load_test_fails_instead_of_hanging_without_servers", 87);
    let folder = retain_testkit::scratch::folder();
    let cluster = Cluster::start(&uri(&folder.path().join("sessions.db")), 2);
    let failing = || {
        append_during_failures(cluster, 8, seed, &|load, _| {
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
