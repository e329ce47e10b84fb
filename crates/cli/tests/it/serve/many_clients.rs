//! Many clients that only tail cost little memory, and all of them receive events.

use std::{io::Read as _, net::TcpStream};

use super::process::{Server, run_request};
use crate::{skip, times};

const TAIL: &str = "/api/v1/apps/assistant/users/ada/sessions/s1/tail";

/// Maximum memory per client in bytes.
const EACH_MAX: u64 = 64 * 1024;

#[test]
fn thousand_idle_tails_use_little_memory() {
    let clients = times(1_000, 10_000);
    // One file descriptor per client, and some for everything else.
    let needed = clients as u64 + 200;
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let reason = format!("the limit on open files is {:?}", limit.maximum);
        return skip("thousand_idle_tails_use_little_memory", &reason);
    }
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let folder = retain_testkit::scratch::folder();
    let server = Server::with(
        folder.path(),
        &["--log-level", "off", "--max-streams-per-user", "20000"],
    );
    let answer = server.post("/run", &run_request("s1", "Hello."));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let before = resident_bytes(server.pid());
    let mut sockets: Vec<TcpStream> = (0..clients)
        .map(|_| {
            let mut socket = server.connect();
            server.send(&mut socket, "GET", &format!("{TAIL}?after=2"), "", "");
            socket
        })
        .collect();
    let line = format!("retain_streams_active {clients}");
    while !server
        .get("/metrics")
        .text
        .lines()
        .any(|found| found == line)
    {
        std::thread::yield_now();
    }
    let each = resident_bytes(server.pid()).saturating_sub(before) / clients as u64;
    println!("{clients} idle clients: {each} bytes each, over {before} bytes");
    assert!(each <= EACH_MAX, "{each} bytes each");
    // All of them receive the new events.
    let answer = server.post("/run", &run_request("s1", "My favorite tea is Earl Grey."));
    assert_eq!(answer.status, 200, "{}", answer.text);
    for socket in &mut sockets {
        let mut received = String::new();
        let mut buffer = [0; 4096];
        while !received.contains("Earl Grey") {
            let count = socket.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "{received}");
            received.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
    // After the clients disconnect, the server has no active stream.
    drop(sockets);
    while !server
        .get("/metrics")
        .text
        .lines()
        .any(|line| line == "retain_streams_active 0")
    {
        std::thread::yield_now();
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}
