//! A run, an ingest or a save that is in flight while its user is erased brings nothing back, in every
//! order of their steps.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;
use retain::{
    Content, Event, LlmAgent, Runner, SessionLog, SessionService,
    artifact::{ArtifactError, ArtifactKey, ArtifactService},
    memory::{MemoryError, MemoryService, StoreMemoryService},
    model::Part,
    session::{Eraser, Session, SessionOrigin},
    store::{
        ArtifactStore, FileArtifactStore, InMemoryArtifactStore, InMemoryMemoryStore,
        InMemoryStore, MemoryStore, PostgresStore, SqliteStore, StoreArtifactService,
        StoreSessionService,
    },
    testing::ScriptedModel,
    tool::{FunctionTool, ToolContext, ToolError},
};
use retain_testkit::{
    postgres::{TestDatabase, is_there},
    wrapper::{StoreInterceptor, WrappedStore},
};
use tokio::sync::Semaphore;

const APP: &str = "app";
const USER: &str = "ada";

/// Stops one call of the session store after it has its answer, until the gate opens.
#[derive(Debug)]
struct Gate {
    is_armed: AtomicBool,
    reached: Semaphore,
    open: Semaphore,
}

impl Gate {
    fn new() -> Gate {
        Gate {
            is_armed: AtomicBool::new(false),
            reached: Semaphore::new(0),
            open: Semaphore::new(0),
        }
    }

    /// Stops the next call.
    fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    async fn wait_until_reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    async fn pass(&self) {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            self.reached.add_permits(1);
            self.open.acquire().await.unwrap().forget();
        }
    }
}

#[derive(Debug, Clone)]
struct StopsAtGate(Arc<Gate>);

impl StoreInterceptor for StopsAtGate {
    fn before_answer(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.pass())
    }
}

/// Services with a gate in the session store.
struct Fixture {
    name: &'static str,
    gate: Arc<Gate>,
    log: Arc<dyn SessionLog>,
    sessions: Arc<dyn SessionService>,
    memory: Arc<dyn MemoryService>,
    memory_store: Arc<dyn MemoryStore>,
    artifacts: Arc<dyn ArtifactService>,
    artifact_store: Arc<dyn ArtifactStore>,
    _folder: tempfile::TempDir,
    _database: Option<TestDatabase>,
}

impl Fixture {
    fn new(
        name: &'static str,
        memory: impl MemoryStore,
        artifacts: impl ArtifactStore,
        folder: tempfile::TempDir,
        database: Option<TestDatabase>,
    ) -> Fixture {
        let gate = Arc::new(Gate::new());
        // The sessions are always in memory: the rule is about the other stores.
        let store = WrappedStore::with(InMemoryStore::default(), StopsAtGate(gate.clone()));
        let sessions = Arc::new(StoreSessionService::over(store));
        let memory = StoreMemoryService::over(memory);
        let artifacts = StoreArtifactService::over(artifacts);
        Fixture {
            name,
            gate,
            log: sessions.clone(),
            sessions,
            memory_store: memory.shared_store(),
            memory: Arc::new(memory),
            artifact_store: artifacts.shared_store(),
            artifacts: Arc::new(artifacts),
            _folder: folder,
            _database: database,
        }
    }

    /// One fixture for each kind of store.
    async fn all() -> Vec<Fixture> {
        let scratch = retain_testkit::scratch::folder;
        let in_memory = InMemoryMemoryStore::default();
        let mut all = vec![Fixture::new(
            "in memory",
            in_memory,
            InMemoryArtifactStore::default(),
            scratch(),
            None,
        )];
        let folder = scratch();
        let uri = format!("sqlite:///{}", folder.path().join("m.db").display());
        let options = retain::session::SqliteOptions::from_uri(&uri).unwrap();
        let sqlite = SqliteStore::open(options).await.unwrap();
        all.push(Fixture::new(
            "sqlite",
            sqlite.memory(),
            sqlite.artifacts(),
            folder,
            None,
        ));
        let folder = scratch();
        let files = FileArtifactStore::open(folder.path()).unwrap();
        let in_memory = InMemoryMemoryStore::default();
        all.push(Fixture::new("folder", in_memory, files, folder, None));
        if is_there() {
            let database = TestDatabase::new().await;
            let options = retain::session::PostgresOptions::from_uri(&database.uri()).unwrap();
            let store = PostgresStore::open(options).await.unwrap();
            let (memory, artifacts) = (store.memory(), store.artifacts());
            all.push(Fixture::new(
                "postgres",
                memory,
                artifacts,
                scratch(),
                Some(database),
            ));
        }
        all
    }

    async fn session(&self) -> Session {
        let created = self.sessions.create_session(APP, USER, None, Some("s1"));
        let mut session = created.await.unwrap();
        let event = Event::user_text("I live in Paris.");
        self.sessions
            .append_event(&mut session, event)
            .await
            .unwrap();
        session
    }

    fn origin(&self, session: &Session) -> SessionOrigin {
        SessionOrigin::new(&self.log, session).unwrap()
    }

    async fn erase(&self) {
        let eraser = Eraser::new(
            self.log.clone(),
            self.memory.clone(),
            self.artifacts.clone(),
        );
        let report = eraser.erase_user(APP, USER).await.unwrap();
        assert!(report.is_complete(), "{}: {report:?}", self.name);
    }

    async fn assert_nothing_is_left(&self) {
        let scopes = self.memory_store.scopes(None, 10).await.unwrap();
        assert_eq!(scopes, [], "{}", self.name);
        let artifacts = self.artifact_store.addresses(None, 10).await.unwrap();
        assert_eq!(artifacts, [], "{}", self.name);
        let sessions = self.sessions.list_sessions(APP, None).await.unwrap();
        assert_eq!(sessions.sessions, [], "{}", self.name);
    }
}

/// The write of a session that is raced with the erase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Ingest,
    Save,
}

impl Write {
    async fn run(self, fixture: &Fixture, session: &Session) -> Result<(), String> {
        let origin = fixture.origin(session);
        match self {
            Write::Ingest => {
                let memory = fixture.memory.for_session(origin).unwrap();
                match memory.add_session_to_memory(session).await {
                    Err(error @ MemoryError::SessionGone { .. }) => Err(error.to_string()),
                    added => {
                        added.unwrap();
                        Ok(())
                    }
                }
            }
            Write::Save => {
                let artifacts = fixture.artifacts.for_session(origin).unwrap();
                let key = ArtifactKey::in_session(&session.key(), "a.txt");
                let saved = artifacts.save_artifact(&key, Part::text("Paris"), None);
                match saved.await {
                    Err(error @ ArtifactError::SessionGone { .. }) => Err(error.to_string()),
                    saved => saved.map(|_| ()).map_err(|error| panic!("{error}")),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn write_of_a_session_brings_nothing_back_in_any_order() {
    for write in [Write::Ingest, Write::Save] {
        for fixture in Fixture::all().await {
            // The write comes first: the erase deletes it.
            let session = fixture.session().await;
            write.run(&fixture, &session).await.unwrap();
            fixture.erase().await;
            fixture.assert_nothing_is_left().await;
            // The erase comes first: the write is refused.
            let session = fixture.session().await;
            fixture.erase().await;
            write.run(&fixture, &session).await.unwrap_err();
            fixture.assert_nothing_is_left().await;
            // The erase comes between the check of the session and the write.
            let session = fixture.session().await;
            fixture.gate.arm();
            let erase = async {
                fixture.gate.wait_until_reached().await;
                fixture.erase().await;
                fixture.gate.open.add_permits(1);
            };
            let (written, ()) = futures_util::join!(write.run(&fixture, &session), erase);
            written.unwrap_err();
            fixture.assert_nothing_is_left().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_of_another_user_does_not_refuse_a_write() {
    for write in [Write::Ingest, Write::Save] {
        for fixture in Fixture::all().await {
            let session = fixture.session().await;
            fixture.gate.arm();
            let erase = async {
                fixture.gate.wait_until_reached().await;
                fixture.memory.erase_user(APP, "grace").await.unwrap();
                fixture.artifacts.erase_user(APP, "grace").await.unwrap();
                fixture.gate.open.add_permits(1);
            };
            let (written, ()) = futures_util::join!(write.run(&fixture, &session), erase);
            written.unwrap();
        }
    }
}

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct NoArguments {}

/// A tool stops at the gate and then writes everything that a tool can write.
#[tokio::test(flavor = "multi_thread")]
async fn run_in_flight_brings_nothing_back() {
    for fixture in Fixture::all().await {
        let gate = Arc::new(Gate::new());
        gate.arm();
        let at_gate = gate.clone();
        let tool = FunctionTool::new(
            "write",
            "Writes.",
            move |ctx: ToolContext, _: NoArguments| {
                let gate = at_gate.clone();
                async move {
                    gate.pass().await;
                    let note = || Part::text("Paris");
                    let saved = [
                        ctx.save_artifact("a.txt", note(), None).await.is_ok(),
                        ctx.save_artifact("user:a.txt", note(), None).await.is_ok(),
                        ctx.add_session_to_memory().await.is_ok(),
                    ];
                    Ok::<_, ToolError>(serde_json::json!({ "saved": saved }))
                }
            },
        );
        let call = r#"{"role":"model","parts":[{"functionCall":{"name":"write","args":{}}}]}"#;
        let model = ScriptedModel::new("scripted")
            .reply(Content::from_json(call).unwrap())
            .reply("Done.");
        let agent = LlmAgent::builder("agent").model(model).tool(tool);
        let runner = Runner::builder()
            .app_name(APP)
            .agent(agent.build().unwrap())
            .session_service(fixture.sessions.clone())
            .memory_service(fixture.memory.clone())
            .artifact_service(fixture.artifacts.clone())
            .ingest_after_turns(true)
            .build()
            .unwrap();
        fixture.session().await;
        let run = runner.run(USER, Some("s1"), "Write it.").await.unwrap();
        let erase = async {
            gate.wait_until_reached().await;
            fixture.erase().await;
            gate.open.add_permits(1);
        };
        let (answer, ()) = futures_util::join!(run.answer(), erase);
        answer.unwrap_err();
        runner.flush_memory().await;
        fixture.assert_nothing_is_left().await;
    }
}
