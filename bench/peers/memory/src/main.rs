//! Long-term memory: Retain, SQLite FTS5 and plain BM25 in one process, so that all three use the
//! same rows, questions and SQLite library. The process serves the commands of the suite `memory`,
//! which `bench/README.md` describes.

mod bm25;
mod corpus;
mod fts5;
mod retain;

use bench_common::{Failure, Meter, Res, USER, serve};
use corpus::{Corpus, Kind, TURNS};
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

const SEED: u64 = 20_260_101;
/// Number of memories that a search of the speed part requests.
const LIMIT: usize = 20;

/// A session. All its turns have the same time.
#[derive(Deserialize)]
pub struct Session {
    pub id: String,
    /// Seconds since 1970.
    pub time: f64,
    pub turns: Vec<Turn>,
}

#[derive(Deserialize)]
pub struct Turn {
    pub id: String,
    pub author: String,
    pub text: String,
}

pub struct Question<'a> {
    pub text: &'a str,
    /// The time of the question, in seconds since 1970; now if `None`.
    pub time: Option<f64>,
    pub limit: usize,
}

/// A memory under measurement.
pub trait Memory {
    /// Ingests a session, durably if the memory is durable.
    fn remember(&mut self, user: &str, session: &Session) -> Res<()>;
    /// Returns the ids of the matching turns, best first, after reading the turns.
    fn ask(&mut self, user: &str, question: &Question<'_>) -> Res<Vec<String>>;
    /// Drops everything that is only in memory, as a restart does. Afterwards an ingest waits for
    /// the disk only if `is_durable`, so that bulk loading is fast.
    fn reopen(&mut self, is_durable: bool) -> Res<()>;
    /// Returns the journal mode and synchronous level, read back from SQLite.
    fn settings(&self) -> Res<String>;
    /// Returns the size on disk in bytes, after a checkpoint.
    fn bytes(&mut self) -> Res<u64>;
}

#[derive(Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
enum Command {
    Open {
        store: String,
        dir: PathBuf,
        variant: String,
    },
    Remember {
        store: String,
        user: String,
        sessions: Vec<Session>,
    },
    Ask {
        store: String,
        user: String,
        time: f64,
        questions: Vec<String>,
        limit: usize,
    },
    Ingest {
        store: String,
        from: u64,
        sessions: u64,
    },
    Load {
        store: String,
        from: u64,
        sessions: u64,
    },
    Cold {
        store: String,
        sessions: u64,
        number: u64,
    },
    Search {
        store: String,
        kind: Kind,
        sessions: u64,
        from: u64,
        count: u64,
    },
    Bytes {
        store: String,
    },
    Close {
        store: String,
    },
    Quit,
}

struct Peer {
    runtime: Arc<Runtime>,
    corpus: Corpus,
    stores: HashMap<String, Box<dyn Memory>>,
}

impl Peer {
    fn answer(&mut self, command: Command) -> Res<Value> {
        match command {
            Command::Open {
                store,
                dir,
                variant,
            } => self.open(store, &dir, &variant),
            Command::Remember {
                store,
                user,
                sessions,
            } => {
                let memory = self.find(&store)?;
                for session in &sessions {
                    memory.remember(&user, session)?;
                }
                Ok(json!({ "ok": true }))
            }
            Command::Ask {
                store,
                user,
                time,
                questions,
                limit,
            } => {
                let memory = self.find(&store)?;
                let time = Some(time);
                let ask = |text: &String| memory.ask(&user, &Question { text, time, limit });
                let found: Res<Vec<Vec<String>>> = questions.iter().map(ask).collect();
                Ok(json!({ "found": found? }))
            }
            Command::Ingest {
                store,
                from,
                sessions,
            } => self.ingest(&store, from, sessions),
            Command::Load {
                store,
                from,
                sessions,
            } => {
                self.find(&store)?.reopen(false)?;
                let loaded = self.ingest(&store, from, sessions);
                self.find(&store)?.reopen(true)?;
                loaded
            }
            Command::Cold {
                store,
                sessions,
                number,
            } => self.cold(&store, sessions, number),
            Command::Search {
                store,
                kind,
                sessions,
                from,
                count,
            } => self.search(&store, kind, sessions, from..from + count),
            Command::Bytes { store } => Ok(json!({ "bytes": self.find(&store)?.bytes()? })),
            Command::Close { store } => {
                self.stores.remove(&store);
                Ok(json!({ "ok": true }))
            }
            Command::Quit => Ok(Value::Null),
        }
    }

    fn open(&mut self, store: String, dir: &Path, variant: &str) -> Res<Value> {
        let memory: Box<dyn Memory> = match variant {
            "retain" => Box::new(retain::Retain::open(self.runtime.clone(), dir)?),
            "fts5" => Box::new(fts5::Fts5::open(dir)?),
            "bm25" => Box::new(bm25::Bm25::new()),
            _ => return Err(Failure::Unsupported(format!("unknown variant {variant:?}"))),
        };
        let durability = memory.settings()?;
        self.stores.insert(store, memory);
        let version = format!("SQLite {}", rusqlite::version());
        Ok(json!({ "ok": true, "version": version, "durability": durability }))
    }

    fn find(&mut self, name: &str) -> Res<&mut Box<dyn Memory>> {
        let found = self.stores.get_mut(name);
        found.ok_or_else(|| Failure::Error(format!("store {name:?} is not open")))
    }

    /// Ingests sessions of the corpus, one durable call each.
    fn ingest(&mut self, store: &str, from: u64, sessions: u64) -> Res<Value> {
        let corpus = (from..from + sessions).map(|number| self.corpus.session(number));
        let corpus: Vec<Session> = corpus.collect();
        let texts = corpus.iter().flat_map(|session| &session.turns);
        let text_bytes: usize = texts.map(|turn| turn.text.len()).sum();
        let memory = self.find(store)?;
        let mut meter = Meter::new(None);
        meter.start();
        for session in &corpus {
            memory.remember(USER, session)?;
        }
        meter.stop();
        let mut answer = json!({ "ops": sessions * TURNS, "text_bytes": text_bytes });
        meter.write_to(&mut answer)?;
        Ok(answer)
    }

    /// Opens the file again and times the first search.
    fn cold(&mut self, store: &str, sessions: u64, number: u64) -> Res<Value> {
        let (_, question) = self.corpus.question(Kind::Spoken, sessions, number);
        let memory = self.find(store)?;
        let mut meter = Meter::new(None);
        meter.start();
        memory.reopen(true)?;
        let found = memory.ask(USER, &question_now(&question))?;
        meter.stop();
        let mut answer = json!({ "ops": 1, "found": found.len() });
        meter.write_to(&mut answer)?;
        Ok(answer)
    }

    /// Runs questions one after the other and times each.
    fn search(
        &mut self,
        store: &str,
        kind: Kind,
        sessions: u64,
        numbers: std::ops::Range<u64>,
    ) -> Res<Value> {
        let questions = numbers.map(|number| self.corpus.question(kind, sessions, number));
        let questions: Vec<(String, String)> = questions.collect();
        let memory = self.find(store)?;
        // Run one search outside the timing, because the other memory has used the caches in the
        // meantime.
        memory.ask(USER, &question_now(&questions[0].1))?;
        let mut times = Vec::with_capacity(questions.len());
        let mut hits = 0;
        for (turn, question) in &questions {
            let begun = Instant::now();
            let found = memory.ask(USER, &question_now(question))?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
            hits += u64::from(found.contains(turn));
        }
        Ok(json!({ "us": times, "hits": hits }))
    }
}

fn question_now(text: &str) -> Question<'_> {
    Question {
        text,
        time: None,
        limit: LIMIT,
    }
}

fn settings_of(connection: &Connection) -> Res<String> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    let sync: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    Ok(format!("journal={mode} synchronous={sync}"))
}

/// Returns the total size of all files in a folder, in bytes.
fn bytes_in(folder: &Path) -> Res<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        // The index of the WAL is shared memory, not stored data.
        if !file.path().to_string_lossy().ends_with("-shm") {
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}

fn main() {
    serve(|| {
        let mut peer = Runtime::new().map(|runtime| Peer {
            runtime: Arc::new(runtime),
            corpus: Corpus::new(SEED),
            stores: HashMap::new(),
        });
        move |command| match (&mut peer, command) {
            (_, Command::Quit) => None,
            (Ok(peer), command) => Some(peer.answer(command)),
            (Err(error), _) => Some(Err(Failure::Error(error.to_string()))),
        }
    });
}
