//! The history checker records the operations of concurrent writers and readers and checks them.
//!
//! The tasks use two instances and several sessions. Each operation is recorded with the times of
//! its call and its return. The final log of each session is then the truth that every answer must
//! match; see `judge.rs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use retain_core::{
    Append, Conflict, Event, JsonMap, RunOptions, Session, SessionError, SessionKey, SessionLog,
    Window,
};

use crate::{harness::Harness, judge, random::Random};

/// Sessions per round.
const SESSIONS: usize = 3;
/// Number of writer tasks; half of them use each instance.
const WRITERS: u64 = 6;
/// Number of reader tasks.
const READERS: u64 = 3;
/// Operations per round, few enough that reading the whole log again and again stays cheap.
const ROUND: usize = 1000;

/// Returns the number of operations of a normal check, or of a long one if `RETAIN_LONG` is set.
pub fn usual_operations() -> usize {
    match std::env::var_os("RETAIN_LONG") {
        Some(_) => 1_000_000,
        None => 20_000,
    }
}

/// What a check did and which anomalies it found.
#[derive(Debug, Default)]
pub struct Report {
    /// Total number of operations.
    pub operations: usize,
    /// Acknowledged appends.
    pub acknowledged: usize,
    /// Rejected appends.
    pub refused: usize,
    /// Appends whose outcome is unknown.
    pub unknown: usize,
    /// Reads.
    pub reads: usize,
    /// Answers that do not match the log, with the seed. Empty for a correct store.
    pub anomalies: Vec<String>,
}

/// How an append ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// Stored at these positions.
    Stored(Vec<u64>),
    /// Rejected: the log must have none of its events.
    Refused,
    /// The outcome is unknown.
    Unknown,
}

/// An attempted append.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) ids: Vec<String>,
    pub(crate) called: u64,
    pub(crate) returned: u64,
    pub(crate) outcome: Outcome,
    /// Whether it repeats an acknowledged append.
    pub(crate) is_repeat: bool,
    /// The user state key of its writer, and the value that it sets.
    pub(crate) mark: Option<(String, i64)>,
}

/// A read and its result.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) called: u64,
    pub(crate) returned: u64,
    /// The number of newest events requested; `None` requests all.
    pub(crate) newest: Option<usize>,
    pub(crate) seen: Session,
}

/// The recorded operations of one session.
#[derive(Debug, Default, Clone)]
pub(crate) struct History {
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<Read>,
}

/// Runs about `operations` random operations on the store and reports anomalies.
pub async fn check_history(harness: Harness, seed: u64, operations: usize) -> Report {
    let logs = [harness.service(), harness.second().await];
    let mut report = Report::default();
    let mut random = Random::new(seed);
    for round in 0..operations.div_ceil(ROUND) {
        let seed = random.next_u64();
        play_round(&logs, round, seed, &mut report).await;
        if !report.anomalies.is_empty() {
            break;
        }
    }
    report
}

async fn play_round(logs: &[Arc<dyn SessionLog>; 2], round: usize, seed: u64, report: &mut Report) {
    // Each round has its own app, so that its shared state starts empty.
    let app = format!("app{round}");
    let keys: Vec<SessionKey> = (0..SESSIONS)
        .map(|n| SessionKey::new(&app, "ada", format!("s{n}")))
        .collect();
    for key in &keys {
        let created = logs[0].create_session(&key.app, &key.user, None, Some(&key.id));
        created.await.expect("a session");
    }
    let clock = Arc::new(AtomicU64::new(0));
    let steps = ROUND as u64 / (WRITERS + READERS);
    let players = (0..WRITERS + READERS).map(|number| {
        let player = Player {
            log: Arc::clone(&logs[number as usize % 2]),
            keys: keys.clone(),
            name: format!("w{number}"),
            random: Random::new(seed ^ number),
            clock: Arc::clone(&clock),
            histories: vec![History::default(); SESSIONS],
            written: 0,
        };
        tokio::spawn(player.play(number < WRITERS, steps))
    });
    let tails: Vec<_> = keys.iter().map(|key| logs[1].tail(key, 0)).collect();
    let mut histories = vec![History::default(); SESSIONS];
    for player in players.collect::<Vec<_>>() {
        for (all, own) in histories.iter_mut().zip(player.await.expect("a player")) {
            all.writes.extend(own.writes);
            all.reads.extend(own.reads);
        }
    }
    count_operations(report, &histories);
    let shared: Vec<Write> = (histories.iter().flat_map(|h| h.writes.clone())).collect();
    for ((key, history), mut tail) in keys.iter().zip(&histories).zip(tails) {
        let end = logs[0].read(key, Window::ALL).await;
        let end = end.expect("a read").expect("a session");
        let mut wrong = judge::find_anomalies(&end, history, &shared);
        let mut tailed = Vec::new();
        while tailed.len() < end.events.len() {
            let next = tokio::time::timeout(Duration::from_secs(60), tail.next()).await;
            let Ok(Some(Ok((position, event)))) = next else {
                wrong.push(format!("the tail stops after {} events", tailed.len()));
                break;
            };
            tailed.push((position, event.id.clone()));
        }
        wrong.extend(judge::find_tail_anomalies(&end, &tailed));
        let wrong = wrong.into_iter();
        report
            .anomalies
            .extend(wrong.map(|what| format!("round {round} (seed {seed}), {key}: {what}")));
    }
}

fn count_operations(report: &mut Report, histories: &[History]) {
    for history in histories {
        report.reads += history.reads.len();
        report.operations += history.reads.len() + history.writes.len();
        for write in &history.writes {
            match write.outcome {
                Outcome::Stored(_) => report.acknowledged += 1,
                Outcome::Refused => report.refused += 1,
                Outcome::Unknown => report.unknown += 1,
            }
        }
    }
}

/// A writer or reader task.
struct Player {
    log: Arc<dyn SessionLog>,
    keys: Vec<SessionKey>,
    name: String,
    random: Random,
    /// A logical clock that counts calls and returns.
    clock: Arc<AtomicU64>,
    histories: Vec<History>,
    written: i64,
}

impl Player {
    async fn play(mut self, writes: bool, steps: u64) -> Vec<History> {
        for _ in 0..steps {
            let session = self.random.below(self.keys.len() as u64) as usize;
            match (writes, self.random.below(10)) {
                (false, 0..=6) => drop(self.read(session, None).await),
                (false, _) => {
                    let newest = self.random.below(5) as usize;
                    self.read(session, Some(newest)).await;
                }
                (true, 0..=4) => self.write_some(session).await,
                (true, 5..=6) => self.increment(session).await,
                (true, 7..=8) => self.repeat(session).await,
                (true, _) => self.run(session).await,
            }
            // A store that never waits would let each task run to completion alone.
            if self.random.chance(50) {
                tokio::task::yield_now().await;
            }
        }
        self.histories
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn event(&mut self, delta: JsonMap) -> Event {
        self.written += 1;
        let mut event = Event::user_text("x");
        event.id = format!("{}-{}", self.name, self.written);
        // Timestamps are not monotonic; their order must not matter.
        event.timestamp = 1.0 + self.random.below(50) as f64;
        event.actions.state_delta = delta;
        event
    }

    /// Creates an event that sets one of the contended state keys and the writer's own user state
    /// key.
    fn marked_event(&mut self) -> Event {
        let (name, number) = (self.name.clone(), self.written + 1);
        let contested = format!("k{}", self.random.below(3));
        self.event(JsonMap::from([
            (contested, number),
            (format!("user:{name}"), number),
        ]))
    }

    async fn write_some(&mut self, session: usize) {
        let count = self.random.pick(&[1, 1, 2, 3]);
        let events: Vec<Event> = (0..count).map(|_| self.marked_event()).collect();
        self.append(session, events.into(), false).await;
    }

    /// Increments a counter unless another append came in between.
    async fn increment(&mut self, session: usize) {
        let Some(seen) = self.read(session, Some(0)).await else {
            return;
        };
        let counter = seen.state.get("counter").and_then(|n| n.as_i64());
        let event = self.event(JsonMap::from([("counter", counter.unwrap_or(0) + 1)]));
        tokio::task::yield_now().await;
        let append = Append::from(event).expecting(seen.position);
        self.append(session, append, false).await;
    }

    /// Appends an acknowledged event again, as after a lost answer.
    async fn repeat(&mut self, session: usize) {
        let Some(seen) = self.read(session, None).await else {
            return;
        };
        let mine = format!("{}-", self.name);
        let own: Vec<Event> = seen
            .events
            .iter()
            .filter(|event| event.id.starts_with(&mine))
            .cloned()
            .collect();
        if !own.is_empty() {
            let again = self.random.pick(&own);
            self.append(session, again.into(), true).await;
        }
    }

    /// Makes a short run, if the session is free.
    async fn run(&mut self, session: usize) {
        let options = RunOptions::default().with_wait(Duration::ZERO);
        let begin = Append::from(self.marked_event()).beginning_run(options);
        if let Some(run) = self.append(session, begin, false).await {
            tokio::task::yield_now().await;
            let last = Append::from(self.marked_event()).ending_run(run);
            self.append(session, last, false).await;
        }
    }

    async fn append(
        &mut self,
        session: usize,
        append: Append,
        is_repeat: bool,
    ) -> Option<retain_core::RunToken> {
        let ids = append.events.iter().map(|event| event.id.clone()).collect();
        let name = format!("user:{}", self.name);
        let marks = append.events.iter().rev();
        let mark = marks.filter_map(|event| event.actions.state_delta.get(&name)?.as_i64());
        let mark = mark.clone().next().map(|number| (name.clone(), number));
        let called = self.tick();
        let answer = self.log.append(&self.keys[session], append).await;
        let returned = self.tick();
        let run = answer.as_ref().ok().and_then(|appended| appended.run);
        let outcome = match answer {
            Ok(appended) => Outcome::Stored(appended.events.iter().map(|(at, _)| *at).collect()),
            Err(SessionError::Store { .. } | SessionError::Full { .. }) => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        };
        self.histories[session].writes.push(Write {
            ids,
            called,
            returned,
            outcome,
            is_repeat,
            mark,
        });
        run
    }

    async fn read(&mut self, session: usize, newest: Option<usize>) -> Option<Session> {
        let window = newest.map_or(Window::ALL, Window::newest);
        let called = self.tick();
        let seen = self.log.read(&self.keys[session], window).await;
        let returned = self.tick();
        let seen = seen.expect("a read").expect("a session");
        self.histories[session].reads.push(Read {
            called,
            returned,
            newest,
            seen: seen.clone(),
        });
        Some(seen)
    }
}

/// Returns the kind of an error, with the details that a caller can rely on.
pub(crate) fn error_kind(error: &SessionError) -> String {
    match error {
        SessionError::NotFound { .. } => "NotFound".to_owned(),
        SessionError::AlreadyExists { .. } => "AlreadyExists".to_owned(),
        SessionError::Conflict { conflict, .. } => match conflict {
            Conflict::Position { expected, found } => format!("Position({expected}, {found})"),
            Conflict::EventId { id, position } => format!("EventId({id}, {position})"),
            other => format!("{other:?}"),
        },
        SessionError::RunBusy { .. } => "RunBusy".to_owned(),
        SessionError::Cancelled { .. } => "Cancelled".to_owned(),
        SessionError::RunLost { .. } => "RunLost".to_owned(),
        SessionError::NestedRun { .. } => "NestedRun".to_owned(),
        SessionError::InvocationNotFound { invocation_id, .. } => {
            format!("InvocationNotFound({invocation_id})")
        }
        SessionError::PositionNotFound { position, last, .. } => {
            format!("PositionNotFound({position}, {last})")
        }
        other => format!("{other:?}"),
    }
}
