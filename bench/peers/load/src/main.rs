//! The client of the suite `server`. It reads windows as JSON lines and runs each against a server:
//! each of several clients has one keep-alive connection and sends its next request after the last
//! answer. The program checks the status of every answer and the text that the window expects.
//!
//! Called with a port, the program is instead a bare socket that answers. Called with `awake`, it
//! keeps a core from sleeping.

mod http;
mod socket;

use http::Connection;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

/// Maximum time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The requests to send. `{i}` in path and body is the number of the request.
#[derive(Debug, Deserialize)]
struct Window {
    port: u16,
    clients: usize,
    count: u64,
    /// Start no request after this time, so that a slow server cannot delay the benchmark.
    max_ms: u64,
    method: String,
    path: String,
    #[serde(default)]
    body: String,
    /// A text, and how often it must occur in every answer.
    expect: String,
    times: usize,
    /// Whether to time a request up to its first event instead of its end.
    #[serde(default)]
    first_event: bool,
}

#[derive(Debug, Default, Serialize)]
struct Done {
    ops: u64,
    /// The time from the first request to the last answer.
    wall_us: u64,
    /// The sum of all request times.
    busy_us: u64,
    /// The median request time.
    p50_us: u64,
    bytes: u64,
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        // `spin_loop` keeps the core awake and leaves its second hardware thread to other
        // processes.
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
            Ok(window) => run_window(&window),
            Err(e) => Err(format!("invalid window {line:?}: {e}")),
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

fn run_window(window: &Window) -> Result<Done, String> {
    let mut clients = Clients::open(window).map_err(|e| e.to_string())?;
    let begin = Instant::now();
    clients.begin_all()?;
    while clients.waiting > 0 {
        clients.wait()?;
    }
    let wall = begin.elapsed();
    let mut times = clients.times;
    times.sort();
    Ok(Done {
        ops: times.len() as u64,
        wall_us: wall.as_micros() as u64,
        busy_us: times.iter().sum::<Duration>().as_micros() as u64,
        p50_us: times
            .get(times.len() / 2)
            .map_or(0, |t| t.as_micros() as u64),
        bytes: clients.bytes,
    })
}

/// All clients, on one thread. A thread for each would cost more than many servers do.
struct Clients<'a> {
    window: &'a Window,
    clients: Vec<Client>,
    poll: Poll,
    events: Events,
    begin: Instant,
    /// The number of the next request.
    next: u64,
    /// Number of clients that wait for an answer.
    waiting: usize,
    times: Vec<Duration>,
    bytes: u64,
}

struct Client {
    connection: Connection,
    path: String,
    asked: Instant,
    is_waiting: bool,
}

impl Clients<'_> {
    fn open(window: &Window) -> io::Result<Clients<'_>> {
        let poll = Poll::new()?;
        let open = |number| {
            let mut connection = Connection::open(window.port)?;
            let (socket, token) = (&mut connection.socket, Token(number));
            poll.registry()
                .register(socket, token, Interest::READABLE)?;
            Ok(Client {
                connection,
                path: String::new(),
                asked: Instant::now(),
                is_waiting: false,
            })
        };
        let clients = (0..window.clients).map(open).collect::<io::Result<_>>()?;
        Ok(Clients {
            window,
            clients,
            poll,
            events: Events::with_capacity(window.clients),
            begin: Instant::now(),
            next: 0,
            waiting: 0,
            times: Vec::new(),
            bytes: 0,
        })
    }

    fn begin_all(&mut self) -> Result<(), String> {
        self.begin = Instant::now();
        (0..self.clients.len()).try_for_each(|number| self.ask(number))
    }

    /// Sends the next request, unless none is left or the time is up.
    fn ask(&mut self, number: usize) -> Result<(), String> {
        let window = self.window;
        let is_time_up = self.begin.elapsed() >= Duration::from_millis(window.max_ms);
        if is_time_up || self.next >= window.count {
            return Ok(());
        }
        let request = self.next.to_string();
        self.next += 1;
        let fill = |text: &str| text.replace("{i}", &request);
        let (client, body) = (&mut self.clients[number], fill(&window.body));
        client.path = fill(&window.path);
        client.asked = Instant::now();
        client.is_waiting = true;
        self.waiting += 1;
        let asked = client.connection.ask(&window.method, &client.path, &body);
        asked.map_err(|e| self.with_request(number, &e))
    }

    /// Waits for the next answers and reads them.
    fn wait(&mut self) -> Result<(), String> {
        // A single client has a core to itself and spins: sleeping and waking up takes as long as a
        // small request.
        if let [_] = self.clients[..] {
            std::hint::spin_loop();
            return self.take(0);
        }
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        match self.poll.poll(&mut events, Some(ANSWER_TIMEOUT)) {
            Ok(()) if events.is_empty() => return Err("no answer within 120 s".to_owned()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(error.to_string());
            }
            _ => {}
        }
        let ready = events.iter().map(|event| event.token().0);
        ready
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|number| self.take(number))?;
        self.events = events;
        Ok(())
    }

    /// Reads the bytes that have arrived for a client; if the answer is complete, sends its next
    /// request.
    fn take(&mut self, number: usize) -> Result<(), String> {
        let window = self.window;
        let client = &mut self.clients[number];
        if !client.is_waiting {
            return Ok(());
        }
        let answer = match client.connection.poll_answer() {
            Ok(Some(answer)) => answer,
            Ok(None) if client.asked.elapsed() < ANSWER_TIMEOUT => return Ok(()),
            Ok(None) => return Err("no answer within 120 s".to_owned()),
            Err(error) => return Err(self.with_request(number, &error)),
        };
        let until = match window.first_event {
            true => answer.first_event,
            false => Some(Instant::now()),
        };
        let path = &client.path;
        let until = until.ok_or_else(|| format!("{path}: the answer has no event"))?;
        self.times.push(until.duration_since(client.asked));
        self.bytes += answer.body.len() as u64;
        check(window, path, answer.status, &answer.body)?;
        client.is_waiting = false;
        self.waiting -= 1;
        if answer.closes {
            self.reconnect(number).map_err(|e| e.to_string())?;
        }
        self.ask(number)
    }

    /// Opens a new connection, because the server closes the old one after its answer.
    fn reconnect(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.clients[number].connection;
        self.poll.registry().deregister(&mut connection.socket)?;
        *connection = Connection::open(self.window.port)?;
        let (socket, token) = (&mut connection.socket, Token(number));
        self.poll
            .registry()
            .register(socket, token, Interest::READABLE)
    }

    fn with_request(&self, number: usize, error: &io::Error) -> String {
        format!(
            "{} {}: {error}",
            self.window.method, self.clients[number].path
        )
    }
}

fn check(window: &Window, path: &str, status: u16, body: &[u8]) -> Result<(), String> {
    let found = memchr::memmem::find_iter(body, &window.expect).count();
    if status == 200 && found == window.times {
        return Ok(());
    }
    let start: String = String::from_utf8_lossy(body).chars().take(200).collect();
    let (expect, times) = (&window.expect, window.times);
    Err(format!(
        "{path}: status {status}, found {expect:?} {found} times, expected {times}: {start}"
    ))
}
