//! The client of the suite `server`. Reads windows as JSON lines and plays each against a server:
//! so many clients, each with one connection that is kept open, each asking the next thing when the
//! last was answered. Every answer's status is checked, and what the window says must be in it.
//!
//! With a port as its argument it is instead a bare socket that answers; with `awake`, a process
//! that keeps a core from sleeping.

mod http;
mod socket;

use http::Connection;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is to be asked. `{i}` in path and body is the number of the request.
#[derive(Debug, Deserialize)]
struct Window {
    port: u16,
    clients: usize,
    count: u64,
    /// No request is begun after this, so that a slow server cannot hold up the run.
    max_ms: u64,
    method: String,
    path: String,
    #[serde(default)]
    body: String,
    /// A text, and how often it stands in every answer.
    expect: String,
    times: usize,
    /// A request is timed up to its first event, not to its end.
    #[serde(default)]
    first_event: bool,
}

#[derive(Debug, Default, Serialize)]
struct Done {
    ops: u64,
    /// From the first request to the last answer.
    wall_us: u64,
    /// All requests' times together.
    busy_us: u64,
    /// Half of the requests took no longer.
    p50_us: u64,
    bytes: u64,
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        // A core that spins politely does not sleep, and leaves its other half to others.
        Some("awake") => loop {
            std::hint::spin_loop();
        },
        Some(port) => return socket::serve(port),
        None => {}
    }
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let answer = match serde_json::from_str::<Window>(&line) {
            Ok(window) => play(&window),
            Err(e) => Err(format!("cannot be read: {e}")),
        };
        let answer = match answer {
            Ok(done) => serde_json::to_string(&done).unwrap_or_default(),
            Err(error) => serde_json::json!({ "error": error }).to_string(),
        };
        if writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
    }
}

fn play(window: &Window) -> Result<Done, String> {
    let next = AtomicU64::new(0);
    let begin = Instant::now();
    let clients: Vec<Result<(Vec<Duration>, u64), String>> = std::thread::scope(|scope| {
        let client = || scope.spawn(|| client(window, &next, begin));
        let threads: Vec<_> = (0..window.clients).map(|_| client()).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.unwrap_or_else(|_| Err("a client panicked".to_owned())))
            .collect()
    });
    let wall = begin.elapsed();
    let mut times = Vec::new();
    let mut bytes = 0;
    for client in clients {
        let (own, read) = client?;
        times.extend(own);
        bytes += read;
    }
    times.sort();
    Ok(Done {
        ops: times.len() as u64,
        wall_us: wall.as_micros() as u64,
        busy_us: times.iter().sum::<Duration>().as_micros() as u64,
        p50_us: times
            .get(times.len() / 2)
            .map_or(0, |t| t.as_micros() as u64),
        bytes,
    })
}

/// One client: takes numbers until there are none left or time is up.
fn client(
    window: &Window,
    next: &AtomicU64,
    begin: Instant,
) -> Result<(Vec<Duration>, u64), String> {
    let mut connection = Connection::open(window.port).map_err(|e| e.to_string())?;
    let (mut times, mut bytes) = (Vec::new(), 0);
    while begin.elapsed() < Duration::from_millis(window.max_ms) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= window.count {
            break;
        }
        let fill = |text: &str| text.replace("{i}", &number.to_string());
        let (path, body) = (fill(&window.path), fill(&window.body));
        let asked = Instant::now();
        let answer = connection.ask(&window.method, &path, &body);
        let answer = answer.map_err(|e| format!("{} {path}: {e}", window.method))?;
        let until = if window.first_event {
            answer.first_event
        } else {
            Some(Instant::now())
        };
        let until = until.ok_or_else(|| format!("{path}: no event came"))?;
        times.push(until.duration_since(asked));
        bytes += answer.body.len() as u64;
        check(window, &path, answer.status, &answer.body)?;
    }
    Ok((times, bytes))
}

fn check(window: &Window, path: &str, status: u16, body: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(body);
    let found = text.matches(&window.expect).count();
    if status == 200 && found == window.times {
        return Ok(());
    }
    let start: String = text.chars().take(200).collect();
    let (expect, times) = (&window.expect, window.times);
    Err(format!(
        "{path}: status {status}, {expect:?} {found} times and not {times}: {start}"
    ))
}
