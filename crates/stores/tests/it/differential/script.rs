//! Scripts: random sequences of session operations with every id and time fixed in advance.
//!
//! The generator tracks which sessions and events exist, and which copies of sessions are stale. It
//! does not predict answers.

use std::collections::HashMap;

use retain_core::{Json, JsonMap};

/// Start time of scripts, in microseconds since 1970.
const START_US: i64 = 1_700_000_000_000_000;

/// SplitMix64: the same seed gives the same script.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn json(&mut self, choices: &[&str]) -> Json {
        parse(choices[self.below(choices.len())])
    }
}

/// Input of a probe that one side may reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// An id, name or key with a NUL character.
    Nul,
    /// An id or key that is longer than Retain accepts.
    Long,
    /// An app or user without a name.
    Empty,
    /// A field inside `actions` that ADK does not know.
    UnknownAction,
    /// The id of an existing session, trimmed.
    Trimmed,
}

/// One operation. `target` is the creation number of a session, `slot` the number of a held copy.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create {
        app: String,
        user: String,
        id: Option<String>,
        state: Option<JsonMap>,
        name: Option<usize>,
        slot: Option<usize>,
    },
    Get {
        target: usize,
        recent: Option<usize>,
        after: Option<f64>,
        slot: Option<usize>,
    },
    /// Read the session `target` by its trimmed id. `None`: read by an id that Retain rejects.
    GetById {
        app: String,
        user: String,
        id: String,
        target: Option<usize>,
    },
    List {
        app: String,
        user: Option<String>,
    },
    Delete {
        target: usize,
    },
    UserState {
        app: String,
        user: String,
    },
    /// Append through a held copy. `stale` is true if the session was written after the copy was
    /// read.
    Append {
        slot: usize,
        event: Json,
        stale: bool,
    },
    /// Append an event whose id is already in the log. `same` is true if its body is the same too.
    Repeat {
        target: usize,
        event: Json,
        same: bool,
    },
    Rewind {
        target: usize,
        before: String,
    },
    /// Create a session, append to it, delete it.
    Probe {
        kind: Probe,
        app: String,
        user: String,
        id: Option<String>,
        event: Option<Json>,
    },
}

/// An operation and the time of the clock during it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) now_us: i64,
    pub(crate) op: Op,
}

/// Operations that run in sequence.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    JsonMap::from(fields).into()
}

fn text_json(value: &Option<String>) -> Json {
    value.as_deref().map_or(Json::Null, Json::from)
}

fn number_json(value: Option<usize>) -> Json {
    value.map_or(Json::Null, |number| Json::from(number as i64))
}

impl Step {
    /// Converts the operation to the form that the ADK oracle reads.
    pub(crate) fn to_json(&self) -> Json {
        let mut json = self.op.to_json();
        if let Some(fields) = json.as_object_mut() {
            fields.insert("now", self.now_us);
        }
        json
    }
}

impl Op {
    fn to_json(&self) -> Json {
        match self {
            Op::Create {
                app,
                user,
                id,
                state,
                name,
                slot,
            } => object([
                ("op", "create".into()),
                ("app", app.as_str().into()),
                ("user", user.as_str().into()),
                ("id", text_json(id)),
                ("state", state.clone().map_or(Json::Null, Json::from)),
                ("as", number_json(*name)),
                ("slot", number_json(*slot)),
            ]),
            Op::Get {
                target,
                recent,
                after,
                slot,
            } => object([
                ("op", "get".into()),
                ("of", number_json(Some(*target))),
                ("recent", number_json(*recent)),
                ("after", after.map_or(Json::Null, Json::from)),
                ("slot", number_json(*slot)),
            ]),
            Op::GetById { app, user, id, .. } => object([
                ("op", "look".into()),
                ("app", app.as_str().into()),
                ("user", user.as_str().into()),
                ("id", id.as_str().into()),
            ]),
            Op::List { app, user } => object([
                ("op", "list".into()),
                ("app", app.as_str().into()),
                ("user", text_json(user)),
            ]),
            Op::Delete { target } => {
                object([("op", "delete".into()), ("of", number_json(Some(*target)))])
            }
            Op::UserState { app, user } => object([
                ("op", "user_state".into()),
                ("app", app.as_str().into()),
                ("user", user.as_str().into()),
            ]),
            Op::Append { slot, event, stale } => object([
                ("op", "append".into()),
                ("slot", number_json(Some(*slot))),
                ("event", event.clone()),
                ("stale", (*stale).into()),
            ]),
            Op::Repeat { target, event, .. } => object([
                ("op", "repeat".into()),
                ("of", number_json(Some(*target))),
                ("event", event.clone()),
            ]),
            Op::Rewind { target, before } => object([
                ("op", "rewind".into()),
                ("of", number_json(Some(*target))),
                ("before", before.as_str().into()),
            ]),
            Op::Probe {
                app,
                user,
                id,
                event,
                ..
            } => object([
                ("op", "probe".into()),
                ("app", app.as_str().into()),
                ("user", user.as_str().into()),
                ("id", text_json(id)),
                ("event", event.clone().unwrap_or_default()),
            ]),
        }
    }
}

/// The address of a session: app, user, id.
type Address = (String, String, String);

/// A session that the script created.
#[derive(Debug)]
struct ScriptSession {
    address: Address,
    alive: bool,
    /// The appended events, with id and time.
    events: Vec<Json>,
}

/// A held copy of a session.
#[derive(Debug)]
struct Slot {
    address: Address,
    /// Number of writes that the copy includes.
    writes: u64,
    /// Number of deletions of the session at the time of the read.
    deletions: u64,
}

/// Generates one script.
#[derive(Debug)]
struct Generator {
    random: Random,
    app: String,
    now_us: i64,
    sessions: Vec<ScriptSession>,
    slots: Vec<Slot>,
    /// Number of creations, writes and deletions at an address.
    writes: HashMap<Address, u64>,
    /// Number of deletions at an address.
    deletions: HashMap<Address, u64>,
    blank_ids: Vec<&'static str>,
    events: usize,
    last_timestamp: f64,
    /// Whether to create few sessions with long logs instead of many with short ones.
    is_focused: bool,
}

const USERS: [&str; 3] = ["ada", "bob", "ünï😀"];

const KEYS: [&str; 20] = [
    "a",
    "b",
    "cart",
    "naïve",
    "😀",
    "x y",
    "a.b",
    "q\"uote",
    "back\\slash",
    "foo:bar",
    "APP:a",
    "",
    "app:a",
    "app:é",
    "app:",
    "user:a",
    "user:b",
    "user:\"q\"",
    "temp:t",
    "temp:",
];

/// Values as JSON texts, so that numbers are sent as written here. A NUL and the extreme floats
/// occur only in lists, because ADK's SQLite service corrupts them when it merges states.
const VALUES: [&str; 35] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-7",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "123456789012345678901234567890",
    "-0",
    "1.0",
    "1.50",
    "-0.0",
    "0.1",
    "0.30000000000000004",
    "0.1000000000000000055511151231257827",
    "1e5",
    "1E+16",
    "2.5e-7",
    "[1.7976931348623157e308, 5e-324]",
    "\"\"",
    "\"text\"",
    "\"naïve 😀 e\\u0301\"",
    "\"\\\"quoted\\\" \\\\ \\n\\t\\u2028\"",
    "[\"before\\u0000after\"]",
    "\"null\"",
    "[]",
    "[1, null, [2.0, {\"k\": null}]]",
    "{}",
    "{\"k\": null}",
    "{\"z\": 1, \"a\": {\"b\": [true]}}",
    "{\"k\": {\"deep\": {\"er\": null, \"n\": 1.0}}, \"l\": []}",
    "{\"\": \"\", \"é\": \"ü\"}",
];

const PARTS: [&str; 8] = [
    r#"{"text": "hello"}"#,
    r#"{"text": ""}"#,
    r#"{"text": "naïve 😀\n"}"#,
    r#"{"thought": true, "text": "hm"}"#,
    r#"{"functionCall": {"id": "c1", "args": {"z": 1, "a": null, "f": 1.0}, "name": "f"}}"#,
    r#"{"functionResponse": {"id": "c1", "name": "f", "response": {"result": [1, {"k": null}]}}}"#,
    r#"{"inlineData": {"data": "AP_-", "mimeType": "image/png"}}"#,
    r#"{"executableCode": {"code": "print(1)", "language": "PYTHON"}}"#,
];

const MORE_FIELDS: [(&str, &str); 12] = [
    ("modelVersion", "\"m-1\""),
    ("partial", "false"),
    ("turnComplete", "true"),
    ("finishReason", "\"STOP\""),
    ("errorCode", "\"BAD\""),
    ("errorMessage", "\"bad\""),
    ("customMetadata", "{\"k\": null, \"n\": [1, 2.0]}"),
    (
        "usageMetadata",
        "{\"promptTokenCount\": 3, \"totalTokenCount\": 5}",
    ),
    ("longRunningToolIds", "[\"b\", \"a\"]"),
    ("branch", "\"root.child\""),
    ("output", "{\"k\": 1}"),
    ("nodeInfo", "{\"path\": \"wf/n@1\"}"),
];

fn parse(text: &str) -> Json {
    Json::parse(text).expect("the generator writes JSON")
}

impl Script {
    /// Returns a script that appends through an outdated copy: its session was deleted and
    /// recreated. Retain and ADK differ after that, so random scripts do not contain it.
    pub(crate) fn recreated_session() -> Script {
        let app = "recreated".to_owned();
        let create = |number| Op::Create {
            app: app.clone(),
            user: "ada".to_owned(),
            id: Some("s".to_owned()),
            state: None,
            name: Some(number),
            slot: Some(number),
        };
        let append = |id: &str, stale| Op::Append {
            slot: 0,
            event: object([
                ("author", "user".into()),
                ("id", id.into()),
                ("timestamp", 1_700_000_000.5.into()),
                (
                    "actions",
                    object([("stateDelta", object([("k", id.into())]))]),
                ),
            ]),
            stale,
        };
        let ops = [
            create(0),
            append("first", false),
            Op::Delete { target: 0 },
            create(1),
            append("second", true),
        ];
        let steps = ops.into_iter().map(|op| Step {
            now_us: START_US,
            op,
        });
        Script {
            seed: 0,
            steps: steps.collect(),
        }
    }

    /// Generates the script of a seed. Scripts of different seeds share no app.
    pub(crate) fn generate(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let mut generator = Generator {
            is_focused: random.chance(50),
            random,
            app: format!("app{seed}"),
            now_us: START_US,
            sessions: Vec::new(),
            slots: Vec::new(),
            writes: HashMap::new(),
            deletions: HashMap::new(),
            blank_ids: vec!["", "  ", "\t"],
            events: 0,
            last_timestamp: START_US as f64 / 1e6,
        };
        let mut steps = Vec::new();
        let len = 12 + generator.random.below(24);
        while steps.len() < len {
            generator.now_us += *generator.random.pick(&[1, 250_000, 1_000_000, 7_654_321]);
            let op = generator.generate_op();
            let now_us = generator.now_us;
            steps.push(Step { now_us, op });
        }
        Script { seed, steps }
    }
}

impl Generator {
    fn generate_op(&mut self) -> Op {
        if self.sessions.is_empty() {
            return self.create();
        }
        match self.random.below(100) {
            0..9 if self.is_focused => self.append(),
            0..12 => self.create(),
            12..26 => self.get(),
            26..68 => self.append(),
            68..75 => self.rewind(),
            75..81 => self.repeat(),
            81..86 => self.list(),
            86..89 => self.user_state(),
            89..92 => self.delete(),
            92..95 => self.get_by_id(),
            _ => self.probe(),
        }
    }

    fn pick_user(&mut self) -> String {
        (*self.random.pick(&USERS)).to_owned()
    }

    fn count_write(&mut self, address: &Address) -> u64 {
        let writes = self.writes.entry(address.clone()).or_default();
        *writes += 1;
        *writes
    }

    fn hold(&mut self, address: Address, writes: u64) {
        let deletions = self.deletions.get(&address).copied().unwrap_or_default();
        self.slots.push(Slot {
            address,
            writes,
            deletions,
        });
    }

    fn pick_alive(&mut self) -> Option<usize> {
        let alive = |(number, session): (usize, &ScriptSession)| session.alive.then_some(number);
        let alive: Vec<usize> = self.sessions.iter().enumerate().filter_map(alive).collect();
        if alive.is_empty() {
            return None;
        }
        Some(*self.random.pick(&alive))
    }

    /// Picks a session, usually one that exists.
    fn pick_session(&mut self) -> usize {
        let any = self.random.below(self.sessions.len());
        if self.random.chance(90) {
            self.pick_alive().unwrap_or(any)
        } else {
            any
        }
    }

    fn create(&mut self) -> Op {
        let number = self.sessions.len();
        let mut user = self.pick_user();
        let id = match self.random.below(100) {
            0..10 => None,
            10..20 if !self.blank_ids.is_empty() => {
                let blank = self.random.below(self.blank_ids.len());
                Some(self.blank_ids.swap_remove(blank).to_owned())
            }
            20..30 => Some(format!(" pad{number} ")),
            30..45 if number > 0 => {
                // The id of an existing or deleted session.
                let (_, owner, id) = self.random.pick(&self.sessions).address.clone();
                user = owner;
                Some(id.replace("made", "remade"))
            }
            45..55 => Some(format!("sé😀{number}")),
            _ => Some(format!("s{number}")),
        };
        let state = self.random.chance(70).then(|| self.pick_delta(4));
        let app = self.app.clone();
        // An id that the service generates is unknown here, so use a unique placeholder.
        let blank = id.as_deref().is_none_or(|id| id.trim().is_empty());
        let address_id = match (&id, blank) {
            (Some(id), false) => id.clone(),
            _ => format!("made {number}"),
        };
        let address = (app.clone(), user.clone(), address_id);
        let exists = |session: &ScriptSession| session.alive && session.address == address;
        if self.sessions.iter().any(exists) {
            return Op::Create {
                app,
                user,
                id,
                state,
                name: None,
                slot: None,
            };
        }
        let writes = self.count_write(&address);
        self.sessions.push(ScriptSession {
            address: address.clone(),
            alive: true,
            events: Vec::new(),
        });
        self.hold(address, writes);
        Op::Create {
            app,
            user,
            id,
            state,
            name: Some(number),
            slot: Some(self.slots.len() - 1),
        }
    }

    fn get(&mut self) -> Op {
        let target = self.pick_session();
        let mut recent = None;
        let mut after = None;
        if self.random.chance(60) {
            recent = self.random.chance(60).then(|| self.random.below(5));
            after = self.random.chance(70).then(|| self.pick_time(target));
        }
        let holds_copy = self.sessions[target].alive && self.random.chance(60);
        let slot = holds_copy.then(|| {
            let address = self.sessions[target].address.clone();
            let writes = self.writes.get(&address).copied().unwrap_or_default();
            self.hold(address, writes);
            self.slots.len() - 1
        });
        Op::Get {
            target,
            recent,
            after,
            slot,
        }
    }

    /// Picks the time of an event, or a time near it.
    fn pick_time(&mut self, target: usize) -> f64 {
        let times = self.sessions[target].events.iter();
        let mut times: Vec<f64> = times
            .filter_map(|event| event["timestamp"].as_f64())
            .collect();
        times.push(self.last_timestamp);
        *self.random.pick(&times) + *self.random.pick(&[0.0, 0.0, 0.0, 0.5, -0.5])
    }

    fn list(&mut self) -> Op {
        let user = self.random.chance(60).then(|| self.pick_user());
        let app = self.app.clone();
        Op::List { app, user }
    }

    fn user_state(&mut self) -> Op {
        let (app, user) = (self.app.clone(), self.pick_user());
        Op::UserState { app, user }
    }

    fn delete(&mut self) -> Op {
        let target = self.pick_session();
        let address = self.sessions[target].address.clone();
        self.count_write(&address);
        *self.deletions.entry(address.clone()).or_default() += 1;
        // The same address may occur several times, once per creation.
        for session in &mut self.sessions {
            if session.address == address {
                session.alive = false;
                session.events.clear();
            }
        }
        Op::Delete { target }
    }

    fn get_by_id(&mut self) -> Op {
        if self.random.chance(40) {
            let choices = [String::new(), "a\0b".to_owned(), "k".repeat(513)];
            let id = self.random.pick(&choices).clone();
            let (app, user) = (self.app.clone(), "missing".to_owned());
            let target = None;
            return Op::GetById {
                app,
                user,
                id,
                target,
            };
        }
        match self.pick_padded() {
            Some(target) => {
                let (app, user, id) = self.sessions[target].address.clone();
                let (id, target) = (id.trim().to_owned(), Some(target));
                Op::GetById {
                    app,
                    user,
                    id,
                    target,
                }
            }
            None => self.get(),
        }
    }

    /// Picks a session with spaces around its id.
    fn pick_padded(&mut self) -> Option<usize> {
        let padded =
            |session: &ScriptSession| session.alive && session.address.2.starts_with(" pad");
        let numbers: Vec<usize> = (0..self.sessions.len())
            .filter(|&number| padded(&self.sessions[number]))
            .collect();
        if numbers.is_empty() {
            return None;
        }
        Some(*self.random.pick(&numbers))
    }

    fn append(&mut self) -> Op {
        let slot = if self.random.chance(60) {
            self.slots.len() - 1
        } else {
            self.random.below(self.slots.len())
        };
        let address = self.slots[slot].address.clone();
        let is_alive = |session: &ScriptSession| session.alive && session.address == address;
        let deletions = self.deletions.get(&address).copied().unwrap_or_default();
        if self.slots[slot].deletions != deletions && self.sessions.iter().any(is_alive) {
            // The copy belongs to an earlier session with this id: see `Script::recreated_session`.
            return self.get();
        }
        let event = self.generate_event();
        let stale = self.slots[slot].writes != self.writes[&address];
        if event["partial"] != true {
            let session = self
                .sessions
                .iter_mut()
                .find(|session| session.alive && session.address == address);
            if let Some(session) = session {
                if event.get("id").is_some() && event.get("timestamp").is_some() {
                    session.events.push(event.clone());
                }
                self.slots[slot].writes = self.count_write(&address);
            }
        }
        Op::Append { slot, event, stale }
    }

    fn repeat(&mut self) -> Op {
        let target = self.pick_session();
        let session = &self.sessions[target];
        if session.events.is_empty() {
            return self.append();
        }
        let mut event = self.random.pick(&session.events).clone();
        let same = self.random.chance(60);
        if !same {
            let author = format!("not {}", event["author"].as_str().unwrap_or_default());
            let fields = event.as_object_mut().expect("an event is an object");
            fields.insert("author", author.as_str());
        }
        Op::Repeat {
            target,
            event,
            same,
        }
    }

    fn rewind(&mut self) -> Op {
        let target = self.pick_session();
        let address = self.sessions[target].address.clone();
        self.count_write(&address);
        let before = self.pick_invocation();
        Op::Rewind { target, before }
    }

    fn probe(&mut self) -> Op {
        let (app, user) = (self.app.clone(), "probe".to_owned());
        let id = Some("probe".to_owned());
        let probe = |kind, app, user, id, event| Op::Probe {
            kind,
            app,
            user,
            id,
            event,
        };
        let event = |field: &str, value: Json| {
            let mut event = JsonMap::from([("author", "user")]);
            event.insert("timestamp", 1_700_000_000.5);
            event.insert(field, value);
            Some(Json::from(event))
        };
        let with_key = |key: &str| {
            let delta = Json::from(JsonMap::from([(key, 1)]));
            event("actions", object([("stateDelta", delta)]))
        };
        let (nul, long) = ("a\0b", "k".repeat(2000));
        match self.random.below(12) {
            0 => probe(Probe::Nul, app, user, Some(nul.into()), None),
            1 => probe(Probe::Nul, app, nul.into(), id, None),
            2 => probe(Probe::Nul, app, user, id, event("id", nul.into())),
            3 => probe(Probe::Nul, app, user, id, with_key(nul)),
            4 => probe(Probe::Long, app, user, Some(long), None),
            5 => probe(
                Probe::Long,
                app,
                user,
                id,
                event("id", long.as_str().into()),
            ),
            6 => probe(Probe::Long, app, user, id, with_key(&long)),
            7 => probe(Probe::Empty, app, String::new(), id, None),
            8 => probe(Probe::Empty, String::new(), user, id, None),
            9 => {
                let actions = object([("fromTheFuture", true.into())]);
                probe(
                    Probe::UnknownAction,
                    app,
                    user,
                    id,
                    event("actions", actions),
                )
            }
            _ => match self.pick_padded() {
                Some(target) => {
                    let (app, user, id) = self.sessions[target].address.clone();
                    let id = Some(id.trim().to_owned());
                    probe(Probe::Trimmed, app, user, id, None)
                }
                None => self.get(),
            },
        }
    }

    fn pick_invocation(&mut self) -> String {
        let choices = ["i1", "i2", "i3", "i4", "i5", "never"];
        (*self.random.pick(&choices)).to_owned()
    }

    fn pick_delta(&mut self, keys_max: usize) -> JsonMap {
        let mut delta = JsonMap::new();
        for _ in 0..self.random.below(keys_max + 1) {
            let key = *self.random.pick(&KEYS);
            let mut value = self.random.json(&VALUES);
            // ADK's SQLite service rounds integers above 64 bits under such keys, depending on the
            // version of SQLite. That is unintended, so it is not compared.
            let is_odd = key.contains(['"', '\\', '.']) || key.is_empty();
            if is_odd && value.as_f64().is_some_and(|float| float.abs() > 1e19) {
                value = 1.into();
            }
            delta.insert(key, value);
        }
        delta
    }

    fn generate_event(&mut self) -> Json {
        self.events += 1;
        let mut event = JsonMap::new();
        if self.random.chance(60) {
            let parts = (0..1 + self.random.below(3)).map(|_| self.random.json(&PARTS));
            let parts: Vec<Json> = parts.collect();
            event.insert(
                "content",
                object([("parts", parts.into()), ("role", "user".into())]),
            );
        }
        for (field, value) in MORE_FIELDS {
            if self.random.chance(8) {
                event.insert(field, parse(value));
            }
        }
        if self.random.chance(8) {
            event.insert("partial", true);
        }
        if self.random.chance(5) {
            event.insert("fromTheFuture", self.random.json(&VALUES));
        }
        if self.random.chance(90) {
            let invocation = self.pick_invocation();
            event.insert("invocationId", invocation.replace("never", "i1").as_str());
        }
        event.insert("author", *self.random.pick(&["user", "agent", "😀"]));
        if self.random.chance(85) {
            event.insert("actions", self.generate_actions());
        }
        if self.random.chance(90) {
            // Ids do not sort in order of arrival, so that the test detects a sort by id.
            let number = self.events;
            let letter = *self.random.pick(&["a", "m", "z"]);
            event.insert("id", format!("{letter}-{number}").as_str());
        }
        if let Some(timestamp) = self.pick_timestamp() {
            event.insert("timestamp", timestamp);
        }
        event.into()
    }

    fn generate_actions(&mut self) -> Json {
        let mut actions = JsonMap::new();
        if self.random.chance(90) {
            actions.insert("stateDelta", self.pick_delta(4));
        }
        if self.random.chance(10) {
            actions.insert("artifactDelta", object([("file", 2.into())]));
        }
        if self.random.chance(5) {
            actions.insert("transferToAgent", "other");
        }
        if self.random.chance(5) {
            actions.insert("escalate", true);
        }
        if self.random.chance(4) {
            // A rewind event that a client creates itself.
            actions.insert("rewindBeforeInvocationId", self.pick_invocation().as_str());
        }
        actions.into()
    }

    fn pick_timestamp(&mut self) -> Option<f64> {
        let now = self.now_us as f64 / 1e6;
        let timestamp = match self.random.below(100) {
            0..60 => now,
            60..72 => self.last_timestamp,
            72..84 => START_US as f64 / 1e6 + self.random.below(20) as f64 / 4.0,
            // A fraction finer than a microsecond.
            84..92 => now + 0.123_456_7,
            92..94 => 0.0,
            _ => return None,
        };
        if timestamp != 0.0 {
            self.last_timestamp = timestamp;
        }
        Some(timestamp)
    }
}
