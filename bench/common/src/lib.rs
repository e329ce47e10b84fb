//! The code that all Rust peers of the benchmark share: the protocol loop over standard input and
//! output, the event, and the clocks. It does not depend on SQLite. `bench/README.md` describes the
//! protocol.

mod clock;
mod event;
mod turns;

pub use clock::{Deadline, Meter};
pub use event::{APP, BenchEvent, COUNTER, USER, new_id, now_seconds, text};
pub use turns::{AGENT, ANSWER, CallLog, INSTRUCTION, PATTERN, TurnRunner, Turns};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

/// Why a command returned no numbers.
#[derive(Debug)]
pub enum Failure {
    /// The peer has no such operation; the driver shows a dash.
    Unsupported(String),
    /// The operation failed; the driver shows `error` and the reason.
    Error(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure::Error(e.to_string())
    }
}

/// Result of a peer's operation.
pub type Res<T> = Result<T, Failure>;

/// The result of a command. The answer omits unset fields.
#[derive(Debug, Default, Serialize)]
pub struct Done {
    /// Operations that succeeded.
    pub ops: u64,
    /// Reads: number of events that the last read returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Writers: attempted appends (retries of one append count once).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted: Option<u64>,
    /// Writers: number of events in the store afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// Writers: the counter in the store afterwards (the sum, if each writer has its own session).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<u64>,
    /// Writers: appends that ended in an error.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// Writers: number of retries after a conflict or a stale-session error.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// Writers: the text of the first error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Turns: number of contents sent to the model, by call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Vec<u64>>,
    /// Turns: number of events in each session afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Vec<u64>>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A store that a peer has opened.
pub struct Opened {
    /// The store.
    pub store: Box<dyn Store>,
    /// The actual journal mode and synchronous level, read back from SQLite.
    pub durability: String,
}

/// Concurrent writers: `writers` callers, each appending `each` events.
#[derive(Debug, Clone, Deserialize)]
pub struct Writers {
    /// Prefix of the new session names; must be unused.
    pub prefix: String,
    pub writers: u64,
    pub each: u64,
    /// Whether every writer has its own session; otherwise all share one.
    pub own: bool,
}

impl Writers {
    /// Returns the session of writer `w`.
    pub fn session(&self, w: u64) -> String {
        if self.own {
            format!("{}-{w}", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    /// Returns all sessions to create before the timing.
    pub fn sessions(&self) -> Vec<String> {
        let n = if self.own { self.writers } else { 1 };
        (0..n).map(|w| self.session(w)).collect()
    }
}

/// One peer program.
pub trait Peer {
    /// Returns the version of the library under test, for the table.
    fn version(&self) -> String;
    /// Creates a store in an existing, empty folder, and opens it.
    fn open(&mut self, dir: &Path, variant: &str) -> Res<Opened>;
}

/// One open store. Each timed method prepares its data, calls `meter.start()`, works until it is
/// done or the deadline has passed, and calls `meter.stop()`. A store implements the operations of
/// its suites.
pub trait Store {
    /// Creates sessions with `events` events each and `counter = events`. This is not timed, so it
    /// may write to the tables of the store directly.
    fn load(&mut self, _sessions: &[String], _events: u64) -> Res<()> {
        unsupported("load")
    }
    /// Creates sessions with the state `{"counter": 0}`.
    fn create(&mut self, _ids: &[String], _meter: &mut Meter) -> Res<Done> {
        unsupported("create")
    }
    /// Appends `count` events to each session, sequentially, incrementing the counter each time.
    fn append(&mut self, _sessions: &[String], _count: u64, _meter: &mut Meter) -> Res<Done> {
        unsupported("append")
    }
    /// Reads a session `repeat` times: all events, or the newest `newest`.
    fn read(
        &mut self,
        _session: &str,
        _newest: Option<u64>,
        _repeat: u64,
        _meter: &mut Meter,
    ) -> Res<Done> {
        unsupported("read")
    }
    /// Lists the user's sessions `repeat` times; the field `events` of the answer is their number.
    fn list(&mut self, _repeat: u64, _meter: &mut Meter) -> Res<Done> {
        unsupported("list")
    }
    /// Runs concurrent writers.
    fn writers(&mut self, _plan: &Writers, _meter: &mut Meter) -> Res<Done> {
        unsupported("writers")
    }
    /// Returns the runner on this store.
    fn turn_runner(&mut self) -> Res<&mut dyn TurnRunner> {
        unsupported("turns")
    }
}

fn unsupported<T>(command: &str) -> Res<T> {
    Err(Failure::Unsupported(format!(
        "unsupported command {command:?}"
    )))
}

#[derive(Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
enum Command {
    Open {
        store: String,
        dir: PathBuf,
        #[serde(default)]
        variant: String,
    },
    Load {
        store: String,
        sessions: Vec<String>,
        events: u64,
    },
    Create {
        store: String,
        prefix: String,
        count: u64,
        max_ms: Option<u64>,
    },
    Append {
        store: String,
        sessions: Vec<String>,
        count: u64,
        max_ms: Option<u64>,
    },
    Read {
        store: String,
        session: String,
        newest: Option<u64>,
        repeat: u64,
        max_ms: Option<u64>,
    },
    List {
        store: String,
        repeat: u64,
        max_ms: Option<u64>,
    },
    Writers {
        store: String,
        #[serde(flatten)]
        plan: Writers,
        max_ms: Option<u64>,
    },
    Turns {
        store: String,
        #[serde(flatten)]
        plan: Turns,
        max_ms: Option<u64>,
    },
    Close {
        store: String,
    },
    Quit,
}

/// Creates the peer, then serves the protocol until `quit` or the end of input.
pub fn run<P: Peer>(make: impl FnOnce() -> P) {
    serve(|| {
        let mut peer = make();
        let mut stores: HashMap<String, Box<dyn Store>> = HashMap::new();
        move |command| match command {
            Command::Quit => None,
            command => Some(answer(&mut peer, &mut stores, command)),
        }
    });
}

/// Creates the handler, then passes it one command per line until it returns `None` or the input
/// ends. Suites with their own commands use this function instead of [`run`].
pub fn serve<C: DeserializeOwned, A: FnMut(C) -> Option<Res<Value>>>(make: impl FnOnce() -> A) {
    // Open the counter before any other thread exists, so that it counts all threads.
    clock::open_instruction_counter();
    let mut answer = make();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        let answered = match serde_json::from_str(&line) {
            Ok(command) => match answer(command) {
                None => break,
                Some(Ok(value)) => value,
                Some(Err(Failure::Unsupported(why))) => json!({ "unsupported": why }),
                Some(Err(Failure::Error(why))) => json!({ "error": why }),
            },
            Err(e) => json!({ "error": format!("invalid command {line:?}: {e}") }),
        };
        let written = writeln!(out, "{answered}").and_then(|()| out.flush());
        if written.is_err() {
            break;
        }
    }
}

fn answer(
    peer: &mut impl Peer,
    stores: &mut HashMap<String, Box<dyn Store>>,
    command: Command,
) -> Res<Value> {
    let (done, meter) = match command {
        Command::Open {
            store,
            dir,
            variant,
        } => {
            let opened = peer.open(&dir, &variant)?;
            stores.insert(store, opened.store);
            return Ok(json!({
                "ok": true, "version": peer.version(), "durability": opened.durability,
            }));
        }
        Command::Load {
            store,
            sessions,
            events,
        } => {
            find(stores, &store)?.load(&sessions, events)?;
            return Ok(json!({ "ok": true }));
        }
        Command::Close { store } => {
            stores.remove(&store);
            return Ok(json!({ "ok": true }));
        }
        Command::Quit => return Ok(json!({ "ok": true })),
        Command::Create {
            store,
            prefix,
            count,
            max_ms,
        } => {
            let ids: Vec<String> = (0..count).map(|i| format!("{prefix}-{i}")).collect();
            let mut meter = Meter::new(max_ms);
            (find(stores, &store)?.create(&ids, &mut meter)?, meter)
        }
        Command::Append {
            store,
            sessions,
            count,
            max_ms,
        } => {
            let mut meter = Meter::new(max_ms);
            (
                find(stores, &store)?.append(&sessions, count, &mut meter)?,
                meter,
            )
        }
        Command::Read {
            store,
            session,
            newest,
            repeat,
            max_ms,
        } => {
            let mut meter = Meter::new(max_ms);
            (
                find(stores, &store)?.read(&session, newest, repeat, &mut meter)?,
                meter,
            )
        }
        Command::List {
            store,
            repeat,
            max_ms,
        } => {
            let mut meter = Meter::new(max_ms);
            (find(stores, &store)?.list(repeat, &mut meter)?, meter)
        }
        Command::Writers {
            store,
            plan,
            max_ms,
        } => {
            let mut meter = Meter::new(max_ms);
            (find(stores, &store)?.writers(&plan, &mut meter)?, meter)
        }
        Command::Turns {
            store,
            plan,
            max_ms,
        } => {
            let mut meter = Meter::new(max_ms);
            let turn_runner = find(stores, &store)?.turn_runner()?;
            (turns::window(turn_runner, &plan, &mut meter)?, meter)
        }
    };
    let mut value = serde_json::to_value(done)?;
    meter.write_to(&mut value)?;
    Ok(value)
}

fn find<'a>(
    stores: &'a mut HashMap<String, Box<dyn Store>>,
    name: &str,
) -> Res<&'a mut Box<dyn Store>> {
    stores
        .get_mut(name)
        .ok_or_else(|| Failure::Error(format!("store {name:?} is not open")))
}
