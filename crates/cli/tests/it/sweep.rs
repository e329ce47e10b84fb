//! Sweeps of the real server and of `retain sweep`: work that a kill interrupted, and expired
//! sessions.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    crash::wait,
    serve::process::{Server, retain, run_request, serve},
    times,
};

/// A generous limit, so that a sweep that never comes fails the test. A server that is killed during
/// a sweep blocks others for 30 seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `is_done` returns true.
fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting: {what}");
        wait(Duration::from_millis(50));
    }
}

/// Returns the value of a metric.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no metric {name} in {text}"));
    value.trim().parse().unwrap()
}

/// Waits until the server has swept once more and no work is pending.
fn wait_for_sweep(server: &Server) {
    let before = metric(server, "retain_sweeps_total ");
    wait_until("a sweep finishes the pending work", || {
        metric(server, "retain_sweeps_total ") > before
            && metric(server, "retain_pending_sessions ") == 0
    });
}

fn stdout(mut command: Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Kills a server after each of several answers, and checks that memory then has every message and
/// every answer once.
fn ingestions_survive_kills(folder: &Path, store: &str) {
    let with_sweeps = |interval: &str| {
        let arguments = ["--session-service-uri", store, "--sweep-interval", interval];
        Server::with(folder, &arguments)
    };
    let kills = times(6, 60);
    for number in 0..kills {
        // Without sweeps, only the final sweep can repair what the kills have interrupted.
        let server = with_sweeps("0");
        let text = format!("Remember the word canary{number}x.");
        let answer = server.post("/run", &run_request(&format!("s{number}"), &text));
        server.signal(Signal::KILL);
        server.wait();
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let server = with_sweeps("1");
    wait_for_sweep(&server);
    server.stop();
    let mut list = retain(folder);
    list.args([
        "memory",
        "list",
        "--store",
        store,
        "--app",
        "assistant",
        "--user",
        "ada",
    ]);
    let listed = stdout({
        list.args(["--json", "--limit", "10000"]);
        list
    });
    for number in 0..kills {
        let word = format!("Remember the word canary{number}x.");
        let messages = listed
            .lines()
            .filter(|line| line.contains(&word) && line.contains(r#""author":"user""#));
        assert_eq!(messages.count(), 1, "{word} in {listed}");
    }
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(
        lines.len(),
        2 * kills,
        "a message and an answer per run: {listed}"
    );
}

#[test]
fn ingestion_survives_a_kill_right_after_the_answer() {
    let folder = retain_testkit::scratch::folder();
    ingestions_survive_kills(folder.path(), "sqlite:///s.db");
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn ingestion_on_postgres_survives_a_kill_right_after_the_answer() {
    use retain_testkit::postgres::{TestDatabase, is_there};
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let uri = database.uri();
    let swept = tokio::task::spawn_blocking(move || {
        let folder = retain_testkit::scratch::folder();
        ingestions_survive_kills(folder.path(), &uri);
    });
    swept.await.unwrap();
}

/// Creates a session with a time to live, a memory and an artifact.
fn fill(server: &Server) {
    let sessions = "/api/v1/apps/assistant/users/ada/sessions";
    let created = server.post(sessions, r#"{"sessionId":"short","ttlSeconds":1000}"#);
    assert_eq!(created.status, 201, "{}", created.text);
    let run = server.post(
        "/run",
        &run_request("short", "Remember the word swordfish."),
    );
    assert_eq!(run.status, 200, "{}", run.text);
    let artifact = r#"{"filename":"a.txt","artifact":{"text":"canary"}}"#;
    let saved = server.post(&format!("{sessions}/short/artifacts"), artifact);
    assert_eq!(saved.status, 200, "{}", saved.text);
    assert!(has_artifact(server));
}

/// Lets the time to live of all sessions pass.
fn expire(folder: &Path) {
    let database = folder.join(".retain/retain.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let expired = database.execute("UPDATE sessions SET ttl_us = 1", []);
    assert_eq!(expired.unwrap(), 1);
}

/// Whether the artifact is there, by ADK's routes and by Retain's, which must agree.
fn has_artifact(server: &Server) -> bool {
    let adk = "/apps/assistant/users/ada/sessions/short/artifacts";
    let own = "/api/v1/apps/assistant/users/ada/sessions/short/artifacts";
    let answers = [
        server.get(&format!("{adk}/a.txt")),
        server.get(&format!("{adk}/a.txt/versions/0")),
        server.get(&format!("{own}/load?name=a.txt")),
    ];
    let listed = [server.get(adk), server.get(own)].map(|list| list.text.contains("a.txt"));
    let statuses = answers.map(|answer| answer.status);
    match statuses {
        [200, 200, 200] if listed == [true, true] => true,
        [404, 404, 404] if listed == [false, false] => false,
        _ => panic!("artifact routes disagree: {statuses:?} {listed:?}"),
    }
}

fn files_below(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path.display().to_string()),
        }
    }
    files
}

#[test]
fn sweep_command_deletes_expired_sessions_from_all_stores_of_the_server() {
    for stores in [
        &[][..],
        &[
            "--memory-service-uri",
            "sqlite:///memory.db",
            "--artifact-service-uri",
            "file://FOLDER/files",
        ],
    ] {
        let folder = retain_testkit::scratch::folder();
        let path = folder.path().display().to_string();
        let stores: Vec<String> = stores
            .iter()
            .map(|it| it.replace("FOLDER", &path))
            .collect();
        let mut command = serve(folder.path(), &["--sweep-interval", "0"]);
        command.args(&stores);
        let server = Server::start(command);
        fill(&server);
        expire(folder.path());
        let session = "/api/v1/apps/assistant/users/ada/sessions/short";
        assert_eq!(server.get(session).status, 404);
        assert!(!has_artifact(&server), "hidden from the same moment");
        server.stop();
        let sweep = |arguments: &[&str]| {
            let mut command = retain(folder.path());
            command.arg("sweep").args(&stores).args(arguments);
            stdout(command)
        };
        let receipt = sweep(&["--json"]);
        assert_eq!(
            receipt.trim_end(),
            r#"{"sessions":1,"artifactVersions":1,"sessionMemories":2,"expiredMemories":0,"failedSessions":0,"pendingSessions":0}"#
        );
        let receipt = sweep(&[]);
        let nothing = "deleted: 0 expired sessions, 0 of their artifact versions";
        assert!(receipt.starts_with(nothing), "{receipt}");
        let left = files_below(&folder.path().join("files"));
        assert!(left.iter().all(|file| !file.contains("a.txt")), "{left:?}");
        let mut list = retain(folder.path());
        list.args([
            "memory",
            "list",
            "--app",
            "assistant",
            "--user",
            "ada",
            "--json",
        ]);
        list.args(&stores);
        assert_eq!(stdout(list), "");
    }
}

#[test]
fn server_sweeps_expired_sessions_periodically() {
    let folder = retain_testkit::scratch::folder();
    let server = Server::with(folder.path(), &["--sweep-interval", "0.3"]);
    fill(&server);
    expire(folder.path());
    wait_until("the server deletes the expired session", || {
        metric(&server, "retain_expired_sessions_deleted_total ") == 1
    });
    assert!(!has_artifact(&server));
    server.stop();
}
