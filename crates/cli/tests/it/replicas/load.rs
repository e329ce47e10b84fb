//! Clients that append to replicas while these are killed. A client sends an unanswered request
//! again with the same ids, to the next replica, and records all answers.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use retain::Json;
use retain_testkit::random::Random;
use serde_json::{Value, json};

use super::{
    cluster::Cluster,
    http::{self, Answer},
};
use crate::crash::wait;

/// Number of sessions to which clients append outside runs.
pub(super) const OPEN: usize = 6;
/// Number of sessions to which clients append only inside runs, one run at a time.
pub(super) const RUNS: usize = 4;
/// One in this many clients makes runs.
const RUNNER: usize = 4;
/// The prefix of every event id, by which the proxy recognizes writes.
pub(super) const MARK: &str = "evt-";
/// Maximum time of an append with its retries. If the response that grants a lease is lost, the
/// lease blocks the session for 30 seconds.
const APPEND_TIMEOUT: Duration = Duration::from_secs(180);

/// The outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventOutcome {
    /// Stored at this position.
    Stored(u64),
    /// Rejected permanently, because the lease of its run was lost.
    Refused,
}

/// An event that was sent.
#[derive(Debug, Clone)]
pub(super) struct SentEvent {
    pub(super) session: String,
    pub(super) client: usize,
    /// Increases with every event of the client.
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) run: String,
    pub(super) outcome: EventOutcome,
}

/// Returns the path of a session.
pub(super) fn path(session: &str) -> String {
    format!("/api/v1/apps/shop/users/ada/sessions/{session}")
}

/// Returns the names of all sessions.
pub(super) fn sessions() -> Vec<String> {
    let open = (0..OPEN).map(|number| format!("open-{number}"));
    open.chain((0..RUNS).map(|number| format!("runs-{number}")))
        .collect()
}

/// The state that all clients share.
pub(super) struct Load<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) should_stop: AtomicBool,
    /// Whether a thread has failed. Clients then stop without waiting for answers.
    pub(super) has_failed: AtomicBool,
    /// Number of answered appends.
    pub(super) answered: AtomicUsize,
    /// Number of times that a client sent a failed request again.
    pub(super) resent: AtomicUsize,
    /// The body of the first answer with status 503.
    pub(super) first_refusal: OnceLock<String>,
}

impl<'a> Load<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Load<'a> {
        let address = cluster.address(0);
        for session in sessions() {
            let body = json!({"sessionId": session}).to_string();
            let path = "/api/v1/apps/shop/users/ada/sessions";
            let created = http::ask(&address, "POST", path, &body).unwrap();
            assert!(matches!(created.status, 200 | 201), "{:?}", created.body);
        }
        Load {
            cluster,
            should_stop: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
            resent: AtomicUsize::new(0),
            first_refusal: OnceLock::new(),
        }
    }

    /// Waits until `more` further appends were answered, while the load continues.
    pub(super) fn wait_for_answers(&self, more: usize) {
        wait_for(&self.answered, more);
    }

    /// Waits until a client sends a failed request again.
    pub(super) fn wait_for_retry(&self) {
        wait_for(&self.resent, 1);
    }
}

/// Waits until a counter has grown by `more`.
fn wait_for(counter: &AtomicUsize, more: usize) {
    let goal = counter.load(Ordering::Relaxed) + more;
    let started = Instant::now();
    while counter.load(Ordering::Relaxed) < goal {
        assert!(
            started.elapsed() < APPEND_TIMEOUT,
            "no progress within {APPEND_TIMEOUT:?}"
        );
        wait(Duration::from_millis(5));
    }
}

/// One client.
pub(super) struct Client<'a> {
    load: &'a Load<'a>,
    number: usize,
    random: Random,
    /// The replica in use. After a failure the client uses the next one.
    replica: usize,
    count: u64,
    sent: Vec<SentEvent>,
}

/// The result of a batch.
enum Outcome {
    Stored(Json),
    RunLost,
    RunBusy,
}

impl Client<'_> {
    pub(super) fn new<'a>(load: &'a Load<'a>, number: usize, seed: u64) -> Client<'a> {
        Client {
            load,
            number,
            random: Random::new(seed + number as u64),
            replica: number,
            count: 0,
            sent: Vec::new(),
        }
    }

    /// Appends until `should_stop` is set, and returns the events sent.
    pub(super) fn work(mut self) -> Vec<SentEvent> {
        while !self.load.should_stop.load(Ordering::Relaxed) {
            if self.number.is_multiple_of(RUNNER) {
                self.run();
            } else {
                let session = format!("open-{}", self.random.below(OPEN as u64));
                let events = 1 + self.random.below(3) as usize;
                let run = format!("{MARK}{}-{}-alone", self.number, self.count);
                self.append(&session, &run, events, Value::Null);
            }
        }
        self.sent
    }

    /// Begins a run and appends a few times; the last append ends the run.
    fn run(&mut self) {
        let session = format!("runs-{}", self.random.below(RUNS as u64));
        let begin = json!({"begin": {"waitMs": 60_000}});
        let token = match self.send(&session, &json!({"events": [], "run": begin})) {
            Outcome::Stored(answer) => answer["run"].as_str().unwrap().to_owned(),
            // No event was stored.
            Outcome::RunBusy | Outcome::RunLost => return,
        };
        let run = format!("run-{}-{}", self.number, self.count);
        let appends = 1 + self.random.below(4);
        for append in 1..=appends {
            let word = if append == appends { "end" } else { "within" };
            if !self.append(&session, &run, 1, json!({word: token})) {
                return;
            }
        }
    }

    /// Appends a batch; returns false if the lease of its run was lost.
    fn append(&mut self, session: &str, run: &str, events: usize, token: Value) -> bool {
        let first = self.count + 1;
        self.count += events as u64;
        let numbers = first..=self.count;
        let batch: Vec<Value> = numbers
            .clone()
            .map(|number| self.event(number, run))
            .collect();
        let result = self.send(session, &json!({"events": batch, "run": token}));
        for (place, number) in numbers.enumerate() {
            let id = self.id(number);
            let outcome = match &result {
                Outcome::Stored(answer) => {
                    let stored = &answer["events"][place];
                    assert_eq!(stored["event"]["id"].as_str(), Some(id.as_str()));
                    EventOutcome::Stored(stored["position"].as_u64().unwrap())
                }
                Outcome::RunLost => EventOutcome::Refused,
                Outcome::RunBusy => {
                    panic!("an append that does not begin a run was rejected as busy")
                }
            };
            self.sent.push(SentEvent {
                session: session.to_owned(),
                client: self.number,
                number,
                id,
                run: run.to_owned(),
                outcome,
            });
        }
        matches!(result, Outcome::Stored(_))
    }

    fn id(&self, number: u64) -> String {
        format!("{MARK}{}-{number}", self.number)
    }

    fn event(&self, number: u64, run: &str) -> Value {
        let mut delta = json!({ format!("last-{}", self.number): number });
        if number.is_multiple_of(5) {
            delta[format!("user:last-{}", self.number)] = number.into();
        }
        json!({
            "id": self.id(number), "author": "user", "invocationId": run, "timestamp": 1.7e9,
            "content": {"role": "user", "parts": [{"text": format!("{number} of {}", self.number)}]},
            "actions": {"stateDelta": delta},
        })
    }

    /// Sends the same body until there is an answer.
    fn send(&mut self, session: &str, body: &Value) -> Outcome {
        let (path, body) = (format!("{}/events", path(session)), body.to_string());
        let started = Instant::now();
        loop {
            let address = self.load.cluster.address(self.replica);
            let answer = http::ask(&address, "POST", &path, &body);
            match answer {
                Ok(Answer { status: 200, body }) => {
                    self.load.answered.fetch_add(1, Ordering::Relaxed);
                    return Outcome::Stored(body);
                }
                Ok(Answer { status: 409, body }) if body["code"].as_str() == Some("run_lost") => {
                    return Outcome::RunLost;
                }
                Ok(Answer { status: 409, body }) if body["code"].as_str() == Some("run_busy") => {
                    return Outcome::RunBusy;
                }
                Ok(Answer { status: 503, body }) => {
                    self.load.first_refusal.get_or_init(|| format!("{body:?}"));
                }
                Err(_) => {}
                Ok(Answer { status, body }) => panic!("{status}: {body:?}"),
            }
            let has_failed = self.load.has_failed.load(Ordering::Relaxed);
            let in_time = started.elapsed() < APPEND_TIMEOUT;
            assert!(in_time && !has_failed, "no answer for {session}");
            self.load.resent.fetch_add(1, Ordering::Relaxed);
            self.replica += 1;
            wait(Duration::from_millis(20));
        }
    }
}
