//! Shared helpers: services, runners, and a short form of a session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retain_core::{
    Event, FunctionCall, GetSessionConfig, Json, RunOptions, Session, SessionService,
    StoreSessionService,
};
use retain_runtime::{Agent, RunConfig, RunRequest, Runner, RunnerBuilder};
use retain_stores::{InMemorySessionService, InMemoryStore, SqliteSessionService};
use retain_testkit::{
    TestClock,
    wrapper::{StoreInterceptor, WrappedStore},
};

pub(crate) const APP: &str = "app";
pub(crate) const USER: &str = "ada";
pub(crate) const SESSION: &str = "s1";

/// A session service of each kind.
pub(crate) async fn services() -> Vec<(&'static str, Arc<dyn SessionService>)> {
    let sqlite = SqliteSessionService::connect("sqlite::memory:").await;
    vec![
        ("in memory", Arc::new(InMemorySessionService::new())),
        ("sqlite", Arc::new(sqlite.expect("SQLite in memory opens"))),
    ]
}

/// A runner with a deterministic clock.
pub(crate) fn runner(sessions: &Arc<dyn SessionService>, agent: impl Agent) -> RunnerBuilder {
    Runner::builder()
        .app_name(APP)
        .agent(agent)
        .session_service(Arc::clone(sessions))
        .auto_create_session(true)
        .clock(Arc::new(TestClock::default()))
}

/// A request that does not wait for the session.
pub(crate) fn at_once(message: &str) -> RunRequest {
    let options = RunOptions::default().with_wait(Duration::ZERO);
    RunRequest::new(message).with_config(RunConfig::default().with_run_options(options))
}

/// The clock by which leases expire, and the number of their renewals.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseClock {
    clock: TestClock,
    renewals: Arc<AtomicUsize>,
}

impl StoreInterceptor for LeaseClock {
    fn after_renew(&self) {
        self.renewals.fetch_add(1, Ordering::SeqCst);
    }
}

impl LeaseClock {
    const TTL: Duration = Duration::from_millis(300);

    /// A session service whose leases expire by this clock.
    pub(crate) fn sessions(&self) -> Arc<dyn SessionService> {
        let store = InMemoryStore::with_clock(Arc::new(self.clock.clone()));
        let service = StoreSessionService::over(WrappedStore::with(store, self.clone()));
        Arc::new(service.with_run_ttl(Self::TTL))
    }

    /// Advances the clock to twice the TTL, in steps that each wait until the lease is renewed.
    pub(crate) async fn outlive_ttl(&self) {
        for _ in 0..3 {
            self.clock.tick(Self::TTL * 2 / 3);
            // One renewal may have read the clock before this step.
            let wanted = self.renewals.load(Ordering::SeqCst) + 2;
            while self.renewals.load(Ordering::SeqCst) < wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Read the stored session.
pub(crate) async fn stored(sessions: &Arc<dyn SessionService>) -> Session {
    let config = GetSessionConfig::default();
    let read = sessions.get_session(APP, USER, SESSION, config).await;
    read.expect("the session can be read")
        .expect("the session is there")
}

/// Return each event as `author: what it says or does`.
pub(crate) fn story(events: impl IntoIterator<Item = impl AsRef<Event>>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| line(event.as_ref()))
        .collect()
}

fn line(event: &Event) -> String {
    let mut said = Vec::new();
    for part in event
        .content()
        .map(|content| content.parts())
        .unwrap_or_default()
    {
        if let Some(text) = &part.text {
            said.push(text.clone());
        }
        if let Some(call) = &part.function_call {
            let args = call.args.clone().unwrap_or_default();
            said.push(format!(
                "{}({})",
                call.name.as_deref().unwrap_or("?"),
                Json::from(args)
            ));
        }
        if let Some(response) = &part.function_response {
            let answer = response.response.clone().unwrap_or_default();
            said.push(format!(
                "{} -> {}",
                response.name.as_deref().unwrap_or("?"),
                Json::from(answer)
            ));
        }
    }
    if let Some(state) = &event.actions.agent_state {
        said.push(format!("at {}", Json::from(state.clone())));
    }
    if event.actions.end_of_agent == Some(true) {
        said.push("done".to_owned());
    }
    if let Some(code) = &event.response.error_code {
        said.push(format!("[{code}]"));
    }
    format!("{}: {}", event.author, said.join(" + "))
}

/// Return the events of a session for `story`.
pub(crate) fn events_of(session: &Session) -> Vec<Arc<Event>> {
    (0..session.events.len())
        .filter_map(|at| session.events.get_shared(at))
        .collect()
}

/// A call of `name` with arguments as JSON.
pub(crate) fn call(name: &str, args: &str) -> FunctionCall {
    FunctionCall::new(name, Json::parse(args).expect("the arguments are JSON"))
}
