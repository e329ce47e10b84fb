//! A full disk: an append fails with that error, reads continue, no acknowledged event is lost, and
//! appends succeed again once space is freed, without reopening the database.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use retain::{
    Event, SessionError, SessionLog as _, SessionService as _, SqliteSessionService,
    session::{SessionKey, Window},
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    ledger::{Ledger, compare_all, compare_open, error_chain},
    program::{ChildProgram, RETAIN, append_arguments, uri},
    skip,
};

/// Number of full-disk errors after which a client stops.
const FULL: usize = 10;

/// More appends than fit on any of the disks.
const MANY: usize = 5000;

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_is_reported_and_appends_succeed_once_space_is_free() {
    let test = "full_disk_is_reported_and_appends_succeed_once_space_is_free";
    fill_and_free(test, vec![Ledger::new("alone", 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_is_reported_to_each_of_eight_writers() {
    let test = "full_disk_is_reported_to_each_of_eight_writers";
    let clients = (0..8).map(|number| Ledger::new(&format!("writer{number}"), 1));
    fill_and_free(test, clients.collect()).await;
}

/// Runs on a disk that is full before the first checkpoint, and on one that is full after several.
async fn fill_and_free(test: &str, clients: Vec<Ledger>) {
    for megabytes in [4, 14] {
        match SmallDisk::mount(megabytes) {
            Some(disk) => fill_and_free_one(test, &disk, clients.clone()).await,
            None => return skip(test, "mounting a small disk needs root"),
        }
    }
}

async fn fill_and_free_one(test: &str, disk: &SmallDisk, clients: Vec<Ledger>) {
    disk.occupy_half();
    let sessions = SqliteSessionService::connect(&disk.uri()).await.unwrap();
    for client in &clients {
        let (app, user, id) = (&client.key.app, &client.key.user, &client.key.id);
        let created = sessions.create_session(app, user, None, Some(id)).await;
        created.unwrap();
    }
    let mut clients = append_concurrently(&sessions, clients, FULL, MANY).await;
    let acknowledged: usize = clients.iter().map(Ledger::acknowledged).sum();
    println!("{test}: full after {acknowledged} events");
    assert!(acknowledged > 0);
    assert_eq!(compare_open(&sessions, &clients).await, []);
    for client in &clients {
        // The error `Full` means that nothing was stored.
        let session = sessions.read(&client.key, Window::NONE).await.unwrap();
        assert_eq!(session.unwrap().position, client.acknowledged() as u64);
    }

    disk.free_space();
    let more = 40 / clients.len();
    clients = append_concurrently(&sessions, clients, 1, more).await;
    let later: usize = clients.iter().map(Ledger::acknowledged).sum();
    assert_eq!(later, acknowledged + 40);
    assert_eq!(compare_open(&sessions, &clients).await, []);
    drop(sessions);
    assert_eq!(compare_all(&disk.uri(), &clients).await, []);
}

/// Runs [`append_until_full`] for all clients concurrently.
async fn append_concurrently(
    sessions: &SqliteSessionService,
    clients: Vec<Ledger>,
    full: usize,
    most: usize,
) -> Vec<Ledger> {
    let mut appending = JoinSet::new();
    for mut client in clients {
        let sessions = sessions.clone();
        appending.spawn(async move {
            append_until_full(&sessions, &mut client, full, most).await;
            client
        });
    }
    appending.join_all().await
}

/// Appends until `full` appends have failed with a full disk, or `most` events are stored. Retries
/// each event until it is stored.
async fn append_until_full(
    sessions: &SqliteSessionService,
    client: &mut Ledger,
    full: usize,
    most: usize,
) {
    let (mut failures, mut stored) = (0, 0);
    while failures < full && stored < most {
        let event = client.outbox(1)[0].as_ref().clone();
        match sessions.append(&client.key, event.into()).await {
            Ok(appended) => {
                let (position, event) = &appended.events[0];
                client.acknowledge(*position, &event.id);
                stored += 1;
            }
            Err(SessionError::Full { .. }) => failures += 1,
            Err(other) => panic!("expected a full disk: {}", error_chain(&other)),
        }
        // Reads succeed on a full disk too.
        let read = sessions.read(&client.key, Window::newest(3)).await;
        read.unwrap_or_else(|error| panic!("cannot read: {}", error_chain(&error)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_command_reports_a_full_disk() {
    let test = "append_command_reports_a_full_disk";
    let Some(disk) = SmallDisk::mount(4) else {
        return skip(test, "mounting a small disk needs root");
    };
    let mut client = Ledger::new("program", 8);
    disk.occupy_half();
    let mut command = Command::new(RETAIN);
    append_arguments(&mut command, &disk.uri(), &client);
    let exit = ChildProgram::start(command, client.outbox(MANY)).wait();
    for line in &exit.lines {
        client.acknowledge_line(line);
    }
    assert!(!exit.status.success());
    assert!(exit.stderr.contains("no space left"), "{}", exit.stderr);
    let mut clients = [client];
    assert_eq!(compare_all(&disk.uri(), &clients).await, []);

    disk.free_space();
    let [client] = &mut clients;
    let mut command = Command::new(RETAIN);
    append_arguments(&mut command, &disk.uri(), client);
    let events = &client.outbox(1)[..20];
    let exit = ChildProgram::start(command, events).wait();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert_eq!(exit.lines.len(), 20);
    for line in &exit.lines {
        client.acknowledge_line(line);
    }
    assert_eq!(compare_all(&disk.uri(), &clients).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_before_the_disk_is_full_and_deletions_succeed() {
    let test = "writes_are_refused_before_the_disk_is_full_and_deletions_succeed";
    let Some(disk) = SmallDisk::mount(14) else {
        return skip(test, "mounting a small disk needs root");
    };
    disk.occupy_half();
    let sessions = SqliteSessionService::connect(&disk.guarded_uri())
        .await
        .unwrap();
    for id in ["a", "b"] {
        let created = sessions.create_session("app", "ada", None, Some(id)).await;
        created.unwrap();
    }
    let key = SessionKey::new("app", "ada", "a");
    let append = || sessions.append(&key, Event::user_text("x".repeat(10_000)).into());
    let refused = loop {
        match append().await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, SessionError::Full { .. }));
    let chain = error_chain(&refused);
    assert!(chain.contains("bytes must stay free"), "{chain}");
    assert!(sessions.free_space().is_some_and(|space| space.free > 0));
    sessions.delete_session("app", "ada", "b").await.unwrap();

    disk.free_space();
    // The next measurement is at most 250 ms away.
    let recovered = tokio::time::timeout(Duration::from_secs(60), async {
        while append().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    recovered.await.unwrap();
}

/// A file system of a few megabytes, mounted while this value lives.
struct SmallDisk {
    folder: TempDir,
    megabytes: usize,
}

impl SmallDisk {
    /// Mounts a disk of this size; `None` if mounting is not permitted.
    fn mount(megabytes: usize) -> Option<SmallDisk> {
        let folder = retain_testkit::scratch::folder();
        let mut mount = Command::new("mount");
        let size = format!("size={megabytes}m");
        mount.args(["-t", "tmpfs", "-o", &size, "retain-test"]);
        let output = mount.arg(folder.path()).output().ok()?;
        output
            .status
            .success()
            .then_some(SmallDisk { folder, megabytes })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn uri(&self) -> String {
        // Without the guard of free space, so that SQLite itself meets the full disk.
        uri(&self.path().join("sessions.db")) + "?min_free_space=0"
    }

    /// The same database, with the default minimum of free space.
    fn guarded_uri(&self) -> String {
        uri(&self.path().join("sessions.db"))
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Occupies half of the space.
    fn occupy_half(&self) {
        std::fs::write(self.ballast(), vec![1; self.megabytes * 512 * 1024]).unwrap();
    }

    /// Frees the space that [`occupy_half`](Self::occupy_half) takes.
    fn free_space(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmount = |lazily: &[&str]| {
            let mut command = Command::new("umount");
            let output = command.args(lazily).arg(self.path()).output();
            output.is_ok_and(|output| output.status.success())
        };
        // After a failed test, a file may still be open.
        let _ = unmount(&[]) || unmount(&["-l"]);
    }
}
