//! Random scripts: growing sessions, single events and deletions, with searches in between.

use retain_core::{Blob, Content, Event, FunctionCall, Json, JsonMap, LlmResponse, Part, Session};
use retain_testkit::random::Random;

use crate::parity::texts::Vocabulary;

/// Names of apps, users and sessions that a service could confuse.
const NAMES: &[&str] = &[
    "a",
    "A",
    "a/b",
    "",
    "a:b",
    "..",
    "' OR 1=1 --",
    "ä",
    "a\u{308}",
    "\0",
];
const SESSIONS: &[&str] = &["s", "S", "s/1", "", "__unknown_session_id__", "会話"];

pub(crate) enum Op {
    AddSession(Session),
    AddEvents {
        app: String,
        user: String,
        session: Option<String>,
        events: Vec<Event>,
    },
    Delete {
        app: String,
        user: String,
        id: Option<String>,
    },
    Search {
        app: String,
        user: String,
        query: String,
    },
}

pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) ops: Vec<Op>,
}

/// Generates the operations of a script; later operations reuse values of earlier ones.
struct Generator {
    random: Random,
    vocabulary: Vocabulary,
    names: Vec<(String, String)>,
    sessions: Vec<Session>,
    texts: Vec<String>,
    ids: Vec<String>,
}

impl Script {
    pub(crate) fn generate(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let vocabulary = Vocabulary::random(&mut random);
        let mut name = || random.pick(NAMES).to_owned();
        let names = (0..2).map(|_| (name(), name())).collect();
        let mut generator = Generator {
            random,
            vocabulary,
            names,
            sessions: Vec::new(),
            texts: Vec::new(),
            ids: Vec::new(),
        };
        let ops = (0..45).map(|_| generator.op()).collect();
        Script { seed, ops }
    }
}

impl Generator {
    fn op(&mut self) -> Op {
        let (app, user) = self.random.pick(&self.names);
        match self.random.below(100) {
            0..20 => Op::AddSession(self.session(&app, &user)),
            20..32 => {
                let session = self.random.pick(SESSIONS).to_owned();
                let session = self.random.chance(70).then_some(session);
                let count = self.random.below(6);
                let events = (0..count).map(|_| self.event()).collect();
                Op::AddEvents {
                    app,
                    user,
                    session,
                    events,
                }
            }
            32..40 => {
                let id = match self.random.below(10) {
                    0 => None,
                    1 => Some(String::new()),
                    2 => Some("unknown".to_owned()),
                    _ => self.known_id(),
                };
                Op::Delete { app, user, id }
            }
            _ => {
                let query = self.vocabulary.query(&self.texts, &mut self.random);
                Op::Search { app, user, query }
            }
        }
    }

    /// Returns a new session, or a changed version of an earlier one.
    fn session(&mut self, app: &str, user: &str) -> Session {
        let index = self.random.below(1 + self.sessions.len() as u64) as usize;
        let mut session = match self.sessions.get(index) {
            Some(session) => session.clone(),
            None => Session::new(app, user, self.random.pick(SESSIONS)),
        };
        if self.random.chance(10) {
            session.events.truncate(session.events.len() / 2);
        }
        for _ in 0..self.random.below(8) {
            let position = session.events.len() as u64 + 1;
            session.events.push(position, self.event());
        }
        self.sessions.push(session.clone());
        session
    }

    fn known_id(&mut self) -> Option<String> {
        (!self.ids.is_empty()).then(|| self.random.pick(&self.ids))
    }

    fn event(&mut self) -> Event {
        let repeated = self.random.chance(10).then(|| self.known_id()).flatten();
        let id = repeated.unwrap_or_else(|| format!("e{}", self.ids.len()));
        self.ids.push(id.clone());
        let response = LlmResponse {
            content: self.content(),
            ..LlmResponse::default()
        };
        Event {
            id,
            timestamp: self.time(),
            ..Event::new(self.random.pick(&["user", "agent", "", "ä\"\n"]), response)
        }
    }

    fn content(&mut self) -> Option<Content> {
        let role = self.random.pick(&[None, Some("user"), Some("model")]);
        let parts = match self.random.below(20) {
            0 => return None,
            1 => None,
            2 => Some(Vec::new()),
            _ => Some((0..1 + self.random.below(3)).map(|_| self.part()).collect()),
        };
        Some(Content {
            parts,
            role: role.map(str::to_owned),
            ..Content::default()
        })
    }

    fn part(&mut self) -> Part {
        let text = self.vocabulary.text(&mut self.random);
        self.texts.push(text.clone());
        match self.random.below(12) {
            0 => Part::default(),
            1 => FunctionCall::new("look_up", JsonMap::from([("q", Json::from(text))])).into(),
            2 => Part {
                inline_data: Some(Blob {
                    data: Some(text.into_bytes().into()),
                    mime_type: Some("text/plain".into()),
                    ..Blob::default()
                }),
                ..Part::default()
            },
            3 => Part {
                thought: Some(true),
                ..Part::text(text)
            },
            _ => Part::text(text),
        }
    }

    /// Returns a time that needs all digits of a float, sometimes at a limit of the calendar.
    fn time(&mut self) -> f64 {
        match self.random.below(12) {
            0 => self
                .random
                .pick(&[0.000_002_5, -0.5, 253_402_300_799.0, 951_782_399.999_999_9]),
            1 => -(self.random.below(62_000_000_000) as f64) - 0.25,
            2 => 1.0 + self.random.below(253_000_000_000) as f64,
            _ => 1.7e9 + self.random.below(1 << 52) as f64 / (1u64 << 32) as f64,
        }
    }
}

impl Op {
    pub(crate) fn to_json(&self) -> Json {
        let op = |name: &str, app: &str, user: &str| {
            JsonMap::from([("op", name), ("app", app), ("user", user)])
        };
        let mut json = match self {
            Op::AddSession(session) => op("add_session", &session.app_name, &session.user_id),
            Op::AddEvents { app, user, .. } => op("add_events", app, user),
            Op::Delete { app, user, .. } => op("delete", app, user),
            Op::Search { app, user, .. } => op("search", app, user),
        };
        match self {
            Op::AddSession(session) => {
                json.insert("id", session.id.as_str());
                json.insert("events", events_json(session.events.iter()));
            }
            Op::AddEvents {
                session, events, ..
            } => {
                json.insert("session", session.clone());
                json.insert("events", events_json(events.iter()));
            }
            Op::Delete { id, .. } => {
                json.insert("id", id.clone());
            }
            Op::Search { query, .. } => {
                json.insert("query", query.as_str());
            }
        }
        json.into()
    }
}

fn events_json<'a>(events: impl Iterator<Item = &'a Event>) -> Json {
    let json = |event: &Event| {
        let text = event.to_json().expect("an event can be written");
        Json::parse(&text).expect("a written event can be read")
    };
    events.map(json).collect::<Vec<Json>>().into()
}
