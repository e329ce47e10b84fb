//! Shutdown waits for requests, then interrupts them. A second signal exits immediately.

use rustix::process::Signal;

use super::process::{Answer, Server, read_until, run_request};

const SESSION: &str = "/api/v1/apps/assistant/users/ada/sessions/s1";

/// Starts a server and takes the lease of a session as another client, so that runs wait.
fn server_with_busy_session(grace: &str) -> (tempfile::TempDir, Server) {
    let folder = retain_testkit::scratch::folder();
    let server = Server::with(folder.path(), &["--shutdown-grace", grace]);
    let answer = server.post("/run", &run_request("s1", "Hello."));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let begin = r#"{"events":[{"author":"user"}],"run":{"begin":{"waitMs":0}}}"#;
    let begun = server.post(&format!("{SESSION}/events"), begin);
    assert_eq!(begun.status, 200, "{}", begun.text);
    (folder, server)
}

/// Waits until this number of runs is active.
fn wait_for_runs(server: &Server, count: u64) {
    let line = format!("retain_runs_active {count}");
    while !server
        .get("/metrics")
        .text
        .lines()
        .any(|found| found == line)
    {
        std::thread::yield_now();
    }
}

#[test]
fn stop_signal_ends_streams_and_queued_runs() {
    let (_folder, server) = server_with_busy_session("0.2");
    let mut tailing = server.connect();
    server.send(&mut tailing, "GET", &format!("{SESSION}/tail"), "", "");
    // Wait for the first event, which shows that the request was accepted.
    let begun = read_until(&mut tailing, "\ndata: ");
    assert!(begun.starts_with("HTTP/1.1 200 "), "{begun}");
    let mut waiting = server.connect();
    server.send(
        &mut waiting,
        "POST",
        "/run",
        "",
        &run_request("s1", "Are you there?"),
    );
    wait_for_runs(&server, 1);
    server.signal(Signal::INT);
    let ended = server.wait();
    assert!(
        ended.status.success(),
        "{:?} {}",
        ended.status,
        ended.stderr
    );
    let tailed = Answer::read(&mut tailing).text;
    assert!(
        tailed.contains("event: restart\ndata: {\"reason\":\"shutdown\"}"),
        "{tailed}"
    );
    assert!(tailed.ends_with("0\r\n\r\n"), "{tailed}");
    assert_eq!(Answer::read(&mut waiting).status, 503);
}

#[test]
fn second_stop_signal_exits_immediately() {
    let (_folder, server) = server_with_busy_session("1000");
    let mut waiting = server.connect();
    server.send(
        &mut waiting,
        "POST",
        "/run",
        "",
        &run_request("s1", "Are you there?"),
    );
    wait_for_runs(&server, 1);
    server.signal(Signal::TERM);
    // When the server no longer listens, the first signal has arrived.
    while std::net::TcpStream::connect(&server.address).is_ok() {
        std::thread::yield_now();
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().status.code(), Some(130));
}
