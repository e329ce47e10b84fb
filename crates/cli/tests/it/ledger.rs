//! Records what a client sent and what was acknowledged, and compares it with a database.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use retain::{
    Event, Json, Session, SessionLog as _, SqliteSessionService, State,
    session::{SessionKey, Window},
};

/// A difference between a database and what a client sent and got acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// An acknowledged event is missing.
    Lost(String),
    /// An acknowledged event is not at the acknowledged position.
    Moved(String),
    /// An event is stored more than once.
    Duplicate(String),
    /// An event was never sent, or differs from the one sent.
    Unexpected(String),
    /// Events are not in the order in which they were sent.
    OutOfOrder(String),
    /// Positions are not 1, 2, 3, …
    Gap(u64),
    /// More unacknowledged events are stored than were in flight.
    TooMany(usize),
    /// A state key differs from the fold of the events.
    State(String),
    /// The database does not open or read, or reports corruption.
    Corrupt(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The client of one session: its outbox and the acknowledgements it got.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    pub(crate) key: SessionKey,
    /// Maximum number of appends in flight.
    pub(crate) in_flight: usize,
    sent: Vec<Arc<Event>>,
    acknowledged: Vec<(u64, String)>,
}

impl Ledger {
    pub(crate) fn new(session: &str, in_flight: usize) -> Ledger {
        Ledger {
            key: SessionKey::new("crash", "ada", session),
            in_flight,
            sent: Vec::new(),
            acknowledged: Vec::new(),
        }
    }

    /// Returns the next `count` unacknowledged events: first those sent before, then new ones.
    pub(crate) fn outbox(&mut self, count: usize) -> &[Arc<Event>] {
        let first = self.acknowledged.len();
        while self.sent.len() < first + count {
            let event = event(&self.key.id, self.sent.len());
            self.sent.push(Arc::new(event));
        }
        &self.sent[first..]
    }

    /// Records an acknowledgement. Acknowledgements arrive in the order of the events. The last one
    /// may repeat, if a client missed it and sent the event again.
    pub(crate) fn acknowledge(&mut self, position: u64, id: &str) {
        if let Some(last) = self.acknowledged.last()
            && last.1 == id
        {
            assert_eq!(last.0, position, "{id} has moved");
            return;
        }
        let next = &self.sent[self.acknowledged.len()];
        assert_eq!(id, next.id, "acknowledged out of order");
        self.acknowledged.push((position, id.to_owned()));
    }

    /// Like [`acknowledge`](Self::acknowledge), for a line that the program printed.
    pub(crate) fn acknowledge_line(&mut self, line: &str) {
        let json = Json::parse(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let (position, id) = (json["position"].as_u64(), json["id"].as_str());
        self.acknowledge(position.unwrap(), id.unwrap());
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Returns this client as it was before its first acknowledgement.
    pub(crate) fn without_acknowledgements(&self) -> Ledger {
        Ledger {
            acknowledged: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether an acknowledgement is for this client.
    pub(crate) fn is_for(&self, line: &str) -> bool {
        line.contains(&format!("\"{}-", self.key.id))
    }

    /// Counts the stored events whose acknowledgement never arrived.
    pub(crate) async fn lost_acknowledgements(&self, sessions: &SqliteSessionService) -> usize {
        let session = sessions.read(&self.key, Window::NONE).await.unwrap();
        let stored = session.map_or(0, |session| session.position as usize);
        stored - self.acknowledged.len()
    }

    /// Compares this session with the database and returns every fault.
    pub(crate) async fn compare(&self, sessions: &SqliteSessionService) -> Vec<Fault> {
        let session = match sessions.read(&self.key, Window::ALL).await {
            Ok(Some(session)) => session,
            Ok(None) => Session::new(&self.key.app, &self.key.user, &self.key.id),
            Err(error) => return vec![Fault::Corrupt(error_chain(&error))],
        };
        let mut faults = Vec::new();
        self.compare_acknowledged(&session, &mut faults);
        self.compare_sent(&session, &mut faults);
        compare_state(&session, &mut faults);
        faults
    }

    fn compare_acknowledged(&self, session: &Session, faults: &mut Vec<Fault>) {
        let mut places: HashMap<&str, Vec<u64>> = HashMap::new();
        for (expected, (position, event)) in (1..).zip(session.events.iter_with_positions()) {
            if position != expected {
                faults.push(Fault::Gap(expected));
            }
            places.entry(&event.id).or_default().push(position);
        }
        let doubled = places.iter().filter(|(_, found)| found.len() > 1);
        faults.extend(doubled.map(|(id, _)| Fault::Duplicate((*id).to_owned())));
        for (position, id) in &self.acknowledged {
            match places.get(id.as_str()) {
                None => faults.push(Fault::Lost(id.clone())),
                Some(found) if !found.contains(position) => faults.push(Fault::Moved(id.clone())),
                Some(_) => {}
            }
        }
    }

    fn compare_sent(&self, session: &Session, faults: &mut Vec<Fault>) {
        let indexes = self.sent.iter().enumerate();
        let indexes: HashMap<&str, usize> =
            indexes.map(|(index, e)| (e.id.as_str(), index)).collect();
        let acknowledged = self.acknowledged.iter().map(|(_, id)| id.as_str());
        let acknowledged: HashSet<&str> = acknowledged.collect();
        let (mut last, mut extra) = (None, 0);
        for event in &session.events {
            let index = indexes.get(event.id.as_str()).copied();
            if index.is_none_or(|index| *self.sent[index] != *event) {
                faults.push(Fault::Unexpected(event.id.clone()));
            }
            if self.in_flight == 1 && index <= last {
                faults.push(Fault::OutOfOrder(event.id.clone()));
            }
            last = index;
            extra += usize::from(!acknowledged.contains(event.id.as_str()));
        }
        if extra > self.in_flight {
            faults.push(Fault::TooMany(extra));
        }
    }
}

/// Checks that the state equals the fold of the events. Other sessions share `app:` and `user:`
/// state with this one, but use other keys.
fn compare_state(session: &Session, faults: &mut Vec<Fault>) {
    let mut expected = State::new();
    for event in &session.events {
        expected.apply(&event.actions.state_delta);
    }
    let is_shared = |key: &str| key.starts_with("app:") || key.starts_with("user:");
    let mut keys: Vec<&str> = expected.iter().map(|(key, _)| key).collect();
    keys.extend(
        session
            .state
            .iter()
            .map(|(key, _)| key)
            .filter(|key| !is_shared(key)),
    );
    let wrong = keys
        .into_iter()
        .filter(|key| session.state.get(key) != expected.get(key));
    faults.extend(wrong.map(|key| Fault::State(key.to_owned())));
}

/// Opens a database and returns the faults of all its clients.
pub(crate) async fn compare_all(uri: &str, ledgers: &[Ledger]) -> Vec<Fault> {
    let sessions = match SqliteSessionService::connect(uri).await {
        Ok(sessions) => sessions,
        Err(error) => return vec![Fault::Corrupt(error_chain(&error))],
    };
    compare_open(&sessions, ledgers).await
}

/// Like [`compare_all`], for an open database.
pub(crate) async fn compare_open(
    sessions: &SqliteSessionService,
    ledgers: &[Ledger],
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for ledger in ledgers {
        faults.extend(ledger.compare(sessions).await);
    }
    match sessions.check().await {
        Ok(problems) => {
            let texts = problems.iter().map(ToString::to_string);
            faults.extend(texts.map(Fault::Corrupt));
        }
        Err(error) => faults.push(Fault::Corrupt(error_chain(&error))),
    }
    faults
}

/// Formats an error with its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Creates the event with this number. It sets a counter, shared state keys, and one of only 64
/// other keys, so that the state stays small. Some bodies are larger than a database page.
fn event(session: &str, number: usize) -> Event {
    let words = if number % 16 == 5 {
        800
    } else {
        1 + number % 20
    };
    let mut event = Event::user_text(format!("event {number} {}", "of many ".repeat(words)));
    event.id = format!("{session}-{number}");
    event.invocation_id = format!("run-{}", number / 4);
    event.timestamp = 1_700_000_000.0 + number as f64;
    let delta = &mut event.actions.state_delta;
    delta.insert("count", number as u64);
    delta.insert(format!("key-{}", number % 64), event.id.as_str());
    delta.insert(format!("user:{session}"), number as u64);
    if number % 8 == 3 {
        delta.insert(format!("app:{session}"), number as u64);
    }
    event
}
