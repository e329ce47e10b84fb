//! Shared helpers: services, runners, a clock for leases, and a short form of events.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use retain_core::{
    AppendOutcome, Batch, Event, FunctionCall, GetSessionConfig, Json, RunOptions, Session,
    SessionService, StoreSessionService, TransferStore,
};
use retain_runtime::{Agent, RunConfig, RunRequest, Runner, RunnerBuilder};
use retain_stores::{
    InMemorySessionService, InMemoryStore, SqliteOptions, SqliteSessionService, SqliteStore,
};
use retain_testkit::{
    TestClock,
    wrapper::{StoreInterceptor, WrappedStore},
};
use tokio::{sync::watch, time::timeout};

pub(crate) const APP: &str = "app";
pub(crate) const USER: &str = "ada";
pub(crate) const SESSION: &str = "s1";

/// A timeout that a passing test does not reach, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a session service of each kind.
pub(crate) async fn services() -> Vec<(&'static str, Arc<dyn SessionService>)> {
    let sqlite = SqliteSessionService::connect("sqlite::memory:").await;
    vec![
        ("in memory", Arc::new(InMemorySessionService::new())),
        ("sqlite", Arc::new(sqlite.expect("SQLite opens"))),
    ]
}

/// Creates the builder of a runner that uses a test clock and creates missing sessions.
pub(crate) fn runner(sessions: &Arc<dyn SessionService>, agent: impl Agent) -> RunnerBuilder {
    Runner::builder()
        .app_name(APP)
        .agent(agent)
        .session_service(Arc::clone(sessions))
        .auto_create_session(true)
        .clock(Arc::new(TestClock::default()))
}

/// Creates a request that fails if the session is busy, instead of waiting.
pub(crate) fn at_once(message: &str) -> RunRequest {
    let options = RunOptions::default().with_wait(Duration::ZERO);
    RunRequest::new(message).with_config(RunConfig::default().with_run_options(options))
}

/// The clock by which the stores' leases expire. Counts renewals and refusals of leases.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseClock {
    clock: TestClock,
    renewals: watch::Sender<usize>,
    refusals: watch::Sender<usize>,
}

impl StoreInterceptor for LeaseClock {
    fn after_append(&self, _: &Batch, written: AppendOutcome) -> AppendOutcome {
        if matches!(written, AppendOutcome::Busy { .. }) {
            self.refusals.send_modify(|count| *count += 1);
        }
        written
    }

    fn after_renew(&self) {
        self.renewals.send_modify(|count| *count += 1);
    }
}

impl LeaseClock {
    /// The lifetime of a lease. Runs renew their leases three times per TTL of real time.
    const TTL: Duration = Duration::from_millis(300);

    /// Creates a session service in memory.
    pub(crate) fn in_memory(&self) -> Arc<dyn SessionService> {
        self.wrap(InMemoryStore::with_clock(Arc::new(self.clock.clone())))
    }

    /// Creates a session service on SQLite.
    pub(crate) async fn sqlite(&self, options: SqliteOptions) -> Arc<dyn SessionService> {
        let store = SqliteStore::open(self.options(options)).await;
        self.wrap(store.expect("SQLite opens"))
    }

    /// Sets this clock in the options of a SQLite store.
    pub(crate) fn options(&self, options: SqliteOptions) -> SqliteOptions {
        options.with_clock(Arc::new(self.test_clock()))
    }

    /// Returns the clock alone.
    pub(crate) fn test_clock(&self) -> TestClock {
        self.clock.clone()
    }

    /// Creates a session service of each kind.
    pub(crate) async fn services(&self) -> Vec<(&'static str, Arc<dyn SessionService>)> {
        let sqlite = self.sqlite(SqliteOptions::in_memory()).await;
        vec![("in memory", self.in_memory()), ("sqlite", sqlite)]
    }

    /// A session service on `store`, whose clock is this one.
    pub(crate) fn wrap<S: TransferStore>(&self, store: S) -> Arc<dyn SessionService> {
        let service = StoreSessionService::over(WrappedStore::with(store, self.clone()));
        Arc::new(service.with_run_ttl(Self::TTL))
    }

    /// Advances the clock by the TTL: leases that are not renewed expire.
    pub(crate) fn pass_ttl(&self) {
        self.clock.tick(Self::TTL);
    }

    /// Advances the clock by twice the TTL, in steps that each wait for two renewals. Renewed
    /// leases do not expire.
    pub(crate) async fn outlive_ttl(&self) {
        for _ in 0..3 {
            self.clock.tick(Self::TTL * 2 / 3);
            // One renewal may have read the clock before this step.
            let wanted = *self.renewals.borrow() + 2;
            let mut renewals = self.renewals.subscribe();
            let renewed = renewals.wait_for(|count| *count >= wanted);
            let renewed = timeout(PATIENCE, renewed).await;
            let renewed = renewed.expect("the leases are renewed");
            drop(renewed.expect("this clock holds the sender"));
        }
    }

    /// Polls a run that waits for a lease until a store has refused the lease.
    pub(crate) async fn poll_until_refused<T: fmt::Debug>(&self, run: impl Future<Output = T>) {
        let before = *self.refusals.borrow();
        let mut refusals = self.refusals.subscribe();
        let refused = timeout(PATIENCE, refusals.wait_for(|count| *count > before));
        tokio::select! {
            biased;
            run = pin!(run) => panic!("expected a run that waits for a lease, found {run:?}"),
            refused = refused => {
                let refused = refused.expect("the store refuses the lease");
                drop(refused.expect("this clock holds the sender"));
            }
        }
    }
}

/// Reads the stored session.
pub(crate) async fn stored(sessions: &Arc<dyn SessionService>) -> Session {
    let config = GetSessionConfig::default();
    let read = sessions.get_session(APP, USER, SESSION, config).await;
    read.expect("a readable session").expect("a session")
}

/// Returns each event as `AUTHOR: CONTENT`: its texts, calls, responses, checkpoint and error.
pub(crate) fn story(events: impl IntoIterator<Item = impl AsRef<Event>>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| line(event.as_ref()))
        .collect()
}

fn line(event: &Event) -> String {
    let mut content = Vec::new();
    for part in event
        .content()
        .map(|content| content.parts())
        .unwrap_or_default()
    {
        if let Some(text) = &part.text {
            content.push(text.clone());
        }
        if let Some(call) = &part.function_call {
            let args = call.args.clone().unwrap_or_default();
            content.push(format!(
                "{}({})",
                call.name.as_deref().unwrap_or("?"),
                Json::from(args)
            ));
        }
        if let Some(response) = &part.function_response {
            let answer = response.response.clone().unwrap_or_default();
            content.push(format!(
                "{} -> {}",
                response.name.as_deref().unwrap_or("?"),
                Json::from(answer)
            ));
        }
    }
    if let Some(state) = &event.actions.agent_state {
        content.push(format!("at {}", Json::from(state.clone())));
    }
    if event.actions.end_of_agent == Some(true) {
        content.push("done".to_owned());
    }
    if let Some(code) = &event.response.error_code {
        content.push(format!("[{code}]"));
    }
    format!("{}: {}", event.author, content.join(" + "))
}

/// Returns a session's events for `story`.
pub(crate) fn events_of(session: &Session) -> Vec<Arc<Event>> {
    (0..session.events.len())
        .filter_map(|at| session.events.get_shared(at))
        .collect()
}

/// Creates a call of `name` with arguments as JSON.
pub(crate) fn call(name: &str, args: &str) -> FunctionCall {
    FunctionCall::new(name, Json::parse(args).expect("the arguments are JSON"))
}
