//! A client with an API key of one user attacks every route, while a client of another user works.
//! The memory of the server stays near its limit, and the other client notices nothing.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use retain::server::{RouteInfo, Server as RetainServer};

use super::process::{Server, retain, run_request};
use crate::times;

const MB: usize = 1_000_000;

/// The limit that the test promises for `--memory-limit 512MB`.
const RESIDENT_MAX: u64 = 640 * MB as u64;

const SESSIONS: &str = "/apps/assistant/users/mallory/sessions";

fn create_key(folder: &Path, arguments: &[&str]) -> String {
    let mut command = retain(folder);
    let ran = command.args(["keys", "create"]).args(arguments).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let key = String::from_utf8(ran.stdout).unwrap();
    format!("x-api-key: {}\r\n", key.trim())
}

/// The hostile client.
struct Attacker<'a> {
    server: &'a Server,
    key: String,
    answers: AtomicUsize,
    refused: AtomicUsize,
}

impl Attacker<'_> {
    /// Sends a request and reads the answer as far as its status. The server may close the
    /// connection before it has read the body.
    fn attack(&self, method: &str, path: &str, body: &str) -> u16 {
        let mut socket = self.send(method, path, body);
        let mut start = [0; 12];
        let status = match socket.read_exact(&mut start) {
            Ok(()) => std::str::from_utf8(&start[9..])
                .ok()
                .and_then(|text| text.parse().ok()),
            Err(_) => None,
        };
        self.answers.fetch_add(1, Ordering::Relaxed);
        if status == Some(503) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        // Read the rest, so that the server has to write all of it.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
        status.unwrap_or(0)
    }

    /// Sends a request and returns its connection, from which nothing was read.
    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut socket = self.server.connect();
        let (host, key, length) = (&self.server.address, &self.key, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {length}\r\n{key}\r\n"
        );
        let _ = socket.write_all(head.as_bytes());
        let _ = socket.write_all(body.as_bytes());
        socket
    }

    /// Stores sessions with large states and sessions with large events.
    fn store_large_sessions(&self) {
        let large = "x".repeat(18 * MB);
        for number in 0..3 {
            let path = format!("{SESSIONS}/state-{number}");
            assert_eq!(
                self.attack("POST", &path, &format!(r#"{{"k":"{large}"}}"#)),
                200
            );
        }
        let text = "x".repeat(MB / 2);
        let events: Vec<String> = (0..36).map(|number| large_event(number, &text)).collect();
        let body = format!(
            r#"{{"sessionId":"events","events":[{}]}}"#,
            events.join(",")
        );
        assert_eq!(self.attack("POST", SESSIONS, &body), 200);
    }

    /// Calls every route with bodies of every kind.
    fn attack_routes(&self, worker: usize, workers: usize) {
        let bodies = hostile_bodies();
        for (number, route) in RetainServer::routes().iter().enumerate() {
            if number % workers != worker {
                continue;
            }
            let path = fill(route);
            for body in &bodies {
                self.attack(route.method.as_str(), &path, body);
                if route.method == "GET" {
                    // The server reads no body of this route.
                    break;
                }
            }
        }
    }

    /// Opens streams and large answers from which nothing is read.
    fn open_slow_readers(&self) -> Vec<TcpStream> {
        let api = "/api/v1/apps/assistant/users/mallory";
        let tails = (0..times(200, 1_000)).map(|_| format!("{api}/sessions/events/tail"));
        let large = (0..40).map(|number| match number % 8 {
            0 => format!("{SESSIONS}/state-0"),
            1 => format!("{SESSIONS}/events"),
            2 => SESSIONS.to_owned(),
            3 => format!("{api}/sessions/state-1"),
            4 => format!("{api}/sessions/events"),
            5 => format!("{api}/sessions/events/export"),
            6 => format!("{api}/sessions?state=true"),
            _ => format!("{api}/export"),
        });
        tails
            .chain(large)
            .map(|path| self.send("GET", &path, ""))
            .collect()
    }

    /// Starts runs on the sessions with large states.
    fn run_on_large_sessions(&self, worker: usize) {
        for number in 0..4 {
            let session = format!("state-{}", (worker + number) % 3);
            let body = run_request(&session, "Hello.").replace("\"ada\"", "\"mallory\"");
            self.attack("POST", "/run", &body);
        }
    }
}

fn large_event(number: usize, text: &str) -> String {
    format!(
        r#"{{"id":"e{number}","author":"user","invocationId":"i{number}","timestamp":{number}.5,"content":{{"role":"user","parts":[{{"text":"{text}"}}]}}}}"#
    )
}

/// Large texts, many small values, deep nesting, and many invalid elements.
fn hostile_bodies() -> [String; 5] {
    let size = times(MB / 4, 8 * MB);
    let owner = r#""appName":"assistant","userId":"mallory","sessionId":"new""#;
    [
        format!(
            r#"{{{owner},"state":{{"k":"{}"}},"text":"x"}}"#,
            "x".repeat(size)
        ),
        format!(
            r#"{{{owner},"stateDelta":{{"k":[{}1]}}}}"#,
            "[],".repeat(size / 3)
        ),
        format!(r#"{{{owner},"state":{}"#, r#"{"k":"#.repeat(size / 5)),
        format!(
            r#"{{{owner},"newMessage":{{"parts":[{}1]}}}}"#,
            "1,".repeat(size / 2)
        ),
        format!("[{}1]", r#"{"":1},"#.repeat(size / 7)),
    ]
}

/// The path of a route on the attacker's own data.
fn fill(route: &RouteInfo) -> String {
    let parts = route.path.split('/').map(|part| match part {
        "{app}" => "assistant",
        "{user}" => "mallory",
        "{session}" => "events",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Works until told to stop. Every request must succeed.
fn work(server: &Server, key: &str, is_over: &AtomicBool) -> usize {
    let mut rounds = 0;
    while rounds == 0 || !is_over.load(Ordering::Relaxed) {
        let session = format!("s{rounds}");
        let ask = |method: &str, path: &str, body: &str| {
            let answer = server.ask(method, path, key, body);
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
        };
        let path = format!("/apps/assistant/users/ada/sessions/{session}");
        ask("POST", &path, r#"{"n":1}"#);
        ask(
            "POST",
            "/run",
            &run_request(&session, "My favorite tea is Earl Grey."),
        );
        ask("GET", &path, "");
        ask("GET", "/apps/assistant/users/ada/sessions", "");
        rounds += 1;
    }
    rounds
}

fn memory_of(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

#[test]
fn hostile_tenant_exhausts_neither_the_memory_nor_other_tenants() {
    let folder = retain_testkit::scratch::folder();
    let user = |name| create_key(folder.path(), &["--app", "assistant", "--user", name]);
    let (hostile, polite) = (user("mallory"), user("ada"));
    let admin = create_key(folder.path(), &["--scopes", "admin"]);
    let server = Server::with(
        folder.path(),
        &[
            "--memory-limit",
            "512MB",
            "--log-level",
            "off",
            "--requests-per-key",
            "100000",
        ],
    );
    let started = memory_of(server.pid(), "VmHWM:");
    let attacker = Attacker {
        server: &server,
        key: hostile,
        answers: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
    };
    attacker.store_large_sessions();
    let stored = memory_of(server.pid(), "VmHWM:");
    let is_over = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let worker = scope.spawn(|| work(&server, &polite, &is_over));
        let slow = attacker.open_slow_readers();
        let attacker = &attacker;
        let runs = (0..4).map(|number| scope.spawn(move || attacker.run_on_large_sessions(number)));
        let runs: Vec<_> = runs.collect();
        let routes = (0..4).map(|number| scope.spawn(move || attacker.attack_routes(number, 4)));
        let routes: Vec<_> = routes.collect();
        let results: Vec<_> = runs
            .into_iter()
            .chain(routes)
            .map(|task| task.join())
            .collect();
        is_over.store(true, Ordering::Relaxed);
        drop(slow);
        assert!(results.iter().all(Result::is_ok), "an attacker panicked");
        worker.join().unwrap()
    });
    let peak = memory_of(server.pid(), "VmHWM:");
    let metrics = server.ask("GET", "/metrics", &admin, "").text;
    let memory = metrics
        .lines()
        .filter(|line| line.starts_with("retain_memory_"));
    println!(
        "peak {peak} bytes ({started} at the start, {stored} after storing), {} answers, {} of \
         them 503, {rounds} rounds of the other client; {:?}",
        attacker.answers.load(Ordering::Relaxed),
        attacker.refused.load(Ordering::Relaxed),
        memory.collect::<Vec<_>>()
    );
    assert!(peak < RESIDENT_MAX, "peak memory: {peak} bytes");
    // The attack is over, and everything is released except the caches.
    loop {
        let metrics = server.ask("GET", "/metrics", &admin, "").text;
        let used = metrics.lines().find_map(|line| {
            line.strip_prefix("retain_memory_reserved_bytes{use=\"requests\"} ")?
                .parse::<u64>()
                .ok()
        });
        if used.is_some_and(|used| used < MB as u64) {
            break;
        }
        thread::yield_now();
    }
}
