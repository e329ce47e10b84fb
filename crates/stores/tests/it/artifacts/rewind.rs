//! Rewinds of random histories restore the same files and versions as in ADK, with every pair of
//! Retain's session and artifact services.
//!
//! A failure prints the seed of its history: `RETAIN_SEED=7 RETAIN_SCRIPTS=1` runs it alone.

use std::{any::Any, sync::Arc};

use retain_core::{ArtifactService, Event, Json, JsonMap, Rewind, SessionKey, SessionLog};
use retain_stores::{
    FileArtifactService, FileArtifactStore, InMemoryArtifactService, InMemorySessionService,
    SqliteArtifactService, SqliteSessionService,
};
use retain_testkit::{
    oracle::{is_long, setting},
    random::Random,
};

use super::parity::{Adk, execute};

const SEED: u64 = 1_116;
const HISTORIES: u64 = 12;
const STEPS: usize = 30;

const FILES: [&str; 5] = ["a.txt", "b", "c/d.bin", "user:u", "z"];

const PARTS: [&str; 4] = [
    r#"{"text":"hello"}"#,
    r#"{"inlineData":{"data":"AAEC_w==","mimeType":"image/png","displayName":"P"}}"#,
    r#"{"inlineData":{"data":"aGk=","mimeType":"text/plain"}}"#,
    // ADK treats this part as a missing file.
    r#"{"inlineData":{"data":"","mimeType":"application/octet-stream"}}"#,
];

/// A session service and an artifact service of Retain.
struct ServicePair {
    name: &'static str,
    sessions: Arc<dyn SessionLog>,
    artifacts: Arc<dyn ArtifactService>,
    /// Keeps their database alive.
    _guard: Option<Box<dyn Any + Send + Sync>>,
}

impl ServicePair {
    async fn execute(&self, op: &Json) -> Json {
        let key = SessionKey::new("app", "ada", "s1");
        let invocation = op["invocation"].as_str().unwrap_or_default();
        match op["op"].as_str().unwrap() {
            "event" => {
                let mut event = Event {
                    author: "agent".into(),
                    invocation_id: invocation.into(),
                    ..Event::default()
                };
                event.actions.artifact_delta = op["delta"].as_object().unwrap().clone();
                self.sessions.append(&key, event.into()).await.unwrap();
                Json::from(JsonMap::from([("ok", Json::Null)]))
            }
            "rewind" => {
                let rewind = Rewind::before(invocation).with_artifacts(Arc::clone(&self.artifacts));
                let rewound = self.sessions.rewind_with(&key, rewind).await;
                let answer = match rewound {
                    Ok(rewound) => ("ok", delta_json(&rewound.events[0].1)),
                    Err(error) => ("error", error.to_string().into()),
                };
                Json::from(JsonMap::from([answer]))
            }
            _ => execute(&*self.artifacts, op, "").await,
        }
    }
}

/// Returns the artifact delta of an event as an ordered list.
fn delta_json(event: &Event) -> Json {
    let delta = event.actions.artifact_delta.iter();
    let pairs = delta.map(|(name, version)| Json::from(vec![name.into(), version.clone()]));
    Json::from(pairs.collect::<Vec<Json>>())
}

/// Opens every pair of session and artifact service. The artifacts are in folders if `folder` is
/// given, otherwise in memory or in the session database.
async fn open_pairs(folder: Option<&std::path::Path>) -> Vec<ServicePair> {
    let mut pairs = Vec::new();
    for number in 0..if folder.is_some() { 2 } else { 4 } {
        let database = SqliteSessionService::connect("sqlite::memory:")
            .await
            .unwrap();
        let artifacts: Arc<dyn ArtifactService> = match folder {
            Some(folder) => {
                let root = folder.join(number.to_string());
                Arc::new(FileArtifactService::over(
                    FileArtifactStore::open(root).unwrap(),
                ))
            }
            None if number < 2 => Arc::new(InMemoryArtifactService::new()),
            None => Arc::new(SqliteArtifactService::over(database.store().artifacts())),
        };
        let (name, sessions): (_, Arc<dyn SessionLog>) = match number % 2 {
            0 => ("in memory", Arc::new(InMemorySessionService::new())),
            _ => ("sqlite", Arc::new(database)),
        };
        pairs.push(ServicePair {
            name,
            sessions,
            artifacts,
            _guard: None,
        });
    }
    #[cfg(feature = "postgres")]
    if folder.is_none() && retain_testkit::postgres::is_there() {
        pairs.push(open_postgres_pair().await);
    }
    for pair in &pairs {
        let created = pair.sessions.create_session("app", "ada", None, Some("s1"));
        created.await.unwrap();
    }
    pairs
}

#[cfg(feature = "postgres")]
async fn open_postgres_pair() -> ServicePair {
    use retain_stores::{PostgresArtifactService, PostgresSessionService};

    let database = retain_testkit::postgres::TestDatabase::new().await;
    let sessions = PostgresSessionService::connect(&database.uri()).await;
    let sessions = sessions.unwrap();
    let artifacts = PostgresArtifactService::over(sessions.store().artifacts());
    ServicePair {
        name: "postgres",
        sessions: Arc::new(sessions),
        artifacts: Arc::new(artifacts),
        _guard: Some(Box::new(database)),
    }
}

/// A random history that runs on ADK and on all pairs.
struct History<'a> {
    seed: u64,
    service: String,
    adk: &'a mut Adk,
    pairs: Vec<ServicePair>,
    random: Random,
    invocation: u64,
    /// Number of files that rewinds restored, and of files that rewinds removed.
    restored: u64,
    removed: u64,
}

impl History<'_> {
    /// Executes the operation on ADK and on every pair; fails unless the answers are equal.
    async fn execute_everywhere(&mut self, op: &Json) -> Json {
        let theirs = self.adk.execute(&self.service, op);
        for pair in &self.pairs {
            let answer = pair.execute(op).await;
            let same = match (answer.get("ok"), theirs.get("ok")) {
                (None, None) => true,
                (ours, theirs) => ours == theirs,
            };
            assert!(
                same,
                "RETAIN_SEED={} RETAIN_SCRIPTS=1, {} over {:?}\n{op}\nours   {answer}\ntheirs {theirs}",
                self.seed, pair.name, pair.artifacts
            );
        }
        theirs.get("ok").cloned().unwrap_or_default()
    }

    fn operation(&self, name: &str, more: Vec<(&str, Json)>) -> Json {
        let mut fields = JsonMap::from([("op", name), ("app", "app"), ("user", "ada")]);
        fields.insert("session", "s1");
        for (name, value) in more {
            fields.insert(name, value);
        }
        Json::from(fields)
    }

    async fn step(&mut self) {
        let invocation = format!("i{}", self.invocation);
        match self.random.below(100) {
            0..55 => self.save(&invocation).await,
            55..75 => self.invocation += 1,
            75..80 => {
                let file = self.random.pick(&FILES);
                let op = self.operation("delete", vec![("file", file.into())]);
                self.execute_everywhere(&op).await;
            }
            _ => {
                // Sometimes the invocation does not exist.
                let before = self.random.below(self.invocation + 2);
                self.rewind(&format!("i{before}")).await;
                self.invocation += 1;
            }
        }
    }

    /// Saves up to three files, and usually appends an event that records them.
    async fn save(&mut self, invocation: &str) {
        let mut delta = JsonMap::new();
        for _ in 0..1 + self.random.below(3) {
            let file = self.random.pick(&FILES);
            let part = Json::parse(self.random.pick(&PARTS)).unwrap();
            let more = vec![("file", file.into()), ("part", part), ("notes", Json::Null)];
            let version = self.execute_everywhere(&self.operation("save", more)).await;
            delta.insert(file, version);
        }
        if !self.random.chance(8) {
            let more = vec![("invocation", invocation.into()), ("delta", delta.into())];
            self.execute_everywhere(&self.operation("event", more))
                .await;
        }
    }

    /// Rewinds and compares every version of every file.
    async fn rewind(&mut self, before: &str) {
        let op = self.operation("rewind", vec![("invocation", before.into())]);
        let restored = self.execute_everywhere(&op).await;
        self.execute_everywhere(&self.operation("list", Vec::new()))
            .await;
        for file in FILES {
            let named =
                |more: Vec<(&'static str, Json)>| [vec![("file", file.into())], more].concat();
            let versions = self
                .execute_everywhere(&self.operation("versions", named(Vec::new())))
                .await;
            let versions = versions.as_array().unwrap_or_default().to_vec();
            for version in versions.into_iter().chain([Json::Null]) {
                let op = self.operation("load", named(vec![("version", version.clone())]));
                let loaded = self.execute_everywhere(&op).await;
                let mut restored = restored.as_array().unwrap_or_default().iter();
                if version.is_null() && restored.any(|pair| pair[0] == file) {
                    if loaded.is_null() {
                        self.removed += 1;
                    } else {
                        self.restored += 1;
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rewind_restores_files_as_in_adk() {
    let Some(mut adk) = Adk::start("rewinding artifacts, parity") else {
        return;
    };
    let count = if is_long() { HISTORIES * 10 } else { HISTORIES };
    let count = setting("RETAIN_SCRIPTS").unwrap_or(count);
    let first = setting("RETAIN_SEED").unwrap_or(SEED);
    let (mut restored, mut removed) = (0, 0);
    for seed in first..first + count {
        for in_folder in [false, true] {
            let folder = retain_testkit::scratch::folder();
            let theirs = folder.path().join("adk");
            let mut history = History {
                seed,
                service: if in_folder {
                    format!("file:{}", theirs.display())
                } else {
                    format!("memory:{seed}")
                },
                adk: &mut adk,
                pairs: open_pairs(in_folder.then_some(folder.path())).await,
                random: Random::new(seed),
                invocation: 0,
                restored: 0,
                removed: 0,
            };
            for _ in 0..STEPS {
                history.step().await;
            }
            restored += history.restored;
            removed += history.removed;
        }
    }
    println!("{count} histories from seed {first}: {restored} restored, {removed} removed");
    if setting("RETAIN_SCRIPTS").is_none() {
        assert!(restored.min(removed) > 50, "{restored} {removed}");
    }
    adk.stop();
}
