//! Replicas on one PostgreSQL: tests kill the servers and the database, and terminate or cut
//! connections.

use std::{process::Command, time::Duration};

use super::{
    append_during_failures,
    cluster::Cluster,
    kill_one_after_another,
    load::{Load, MARK},
    postgres::Postgres,
    proxy::{Cut, Proxy},
    upgrade_one_after_another,
};
use crate::{crash::wait, program::RETAIN, seed, skip, times};

const CLIENTS: usize = 32;

#[test]
fn three_servers_lose_nothing_when_killed_in_turn() {
    let test = "three_servers_lose_nothing_when_killed_in_turn";
    let seed = seed(test, 83);
    let Some(postgres) = Postgres::start(test) else {
        return;
    };
    let cluster = Cluster::start(&postgres.url, 3);
    append_during_failures(cluster, CLIENTS, seed, &|load, random| {
        kill_one_after_another(load, random, times(3, 30));
    });
}

#[test]
fn rolling_upgrade_loses_nothing_and_keeps_old_servers_ready() {
    let test = "rolling_upgrade_loses_nothing_and_keeps_old_servers_ready";
    let seed = seed(test, 89);
    let Some(postgres) = Postgres::start(test) else {
        return;
    };
    let cluster = Cluster::start(&postgres.url, 3);
    append_during_failures(cluster, CLIENTS, seed, &upgrade_one_after_another);
}

#[test]
fn killed_database_loses_nothing_under_load() {
    let test = "killed_database_loses_nothing_under_load";
    let seed = seed(test, 84);
    let Some(postgres) = Postgres::start(test) else {
        return;
    };
    let cluster = Cluster::start(&postgres.url, 2);
    append_during_failures(cluster, CLIENTS, seed, &|load, random| {
        for _ in 0..times(3, 20) {
            postgres.kill();
            wait(Duration::from_millis(random.below(1500)));
            postgres.restart();
            load.wait_for_answers(100 + random.below(200) as usize);
        }
        // Leave the database down until servers return errors and clients retry.
        postgres.kill();
        load.wait_for_retry();
        postgres.restart();
    });
}

#[test]
fn terminated_connections_lose_nothing_under_load() {
    let test = "terminated_connections_lose_nothing_under_load";
    let seed = seed(test, 85);
    let Some(postgres) = Postgres::start(test) else {
        return;
    };
    let cluster = Cluster::start(&postgres.url, 2);
    let ended = append_during_hidden_failures(cluster, seed, &|load, random| {
        let mut ended = 0;
        for _ in 0..times(15, 300) {
            ended += postgres.terminate_backends();
            load.wait_for_answers(random.below(100) as usize);
        }
        ended
    });
    println!("{ended} connections were terminated");
    assert!(ended > 20, "only {ended} connections were terminated");
}

#[test]
fn connections_cut_around_a_commit_lose_nothing() {
    let test = "connections_cut_around_a_commit_lose_nothing";
    let seed = seed(test, 86);
    let Some(postgres) = Postgres::start(test) else {
        return;
    };
    let proxy = Proxy::start(postgres.port(), MARK);
    let cluster = Cluster::start(&postgres.url_through(proxy.port), 2);
    append_during_hidden_failures(cluster, seed, &|load, random| {
        let (cuts, committed) = (times(60, 1000), times(5, 100));
        for cut in 1.. {
            if cut > cuts && proxy.cuts().1 > committed {
                break;
            }
            proxy.cut(random.pick(&[Cut::Before, Cut::Within, Cut::After, Cut::After]));
            while proxy.cuts().0 < cut {
                load.wait_for_answers(1);
            }
            load.wait_for_answers(random.below(20) as usize);
        }
        0
    });
    let (cuts, committed) = proxy.cuts();
    println!("{cuts} connections were cut, {committed} of them after the commit");
}

#[test]
fn replicas_example_runs() {
    let test = "replicas_example_runs";
    let Some(postgres) = Postgres::start(test) else {
        return;
    };
    if Command::new("curl").arg("--version").output().is_err() {
        return skip(test, "curl is not installed");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/replicas.sh");
    let ran = Command::new(script)
        .arg(&postgres.url)
        .env("RETAIN", RETAIN)
        .env_remove("RETAIN_API_KEY")
        .output()
        .unwrap();
    let (stdout, stderr) = (ran.stdout, String::from_utf8_lossy(&ran.stderr));
    let stdout = String::from_utf8(stdout).unwrap();
    assert!(ran.status.success(), "{stdout}{stderr}");
    assert!(stdout.ends_with("  position 6\n"), "{stdout}");
}

/// Like [`append_during_failures`], for failures that servers hide from clients. The servers retry
/// and determine by themselves whether the first attempt was stored. Returns the result of
/// `disruption`.
fn append_during_hidden_failures(
    cluster: Cluster,
    seed: u64,
    disruption: &(dyn Fn(&Load<'_>, &mut retain_testkit::random::Random) -> usize + Sync),
) -> usize {
    let counted = std::sync::Mutex::new(0);
    super::append(cluster, CLIENTS, seed, false, &|load, random| {
        *counted.lock().unwrap() = disruption(load, random);
    });
    counted.into_inner().unwrap()
}
