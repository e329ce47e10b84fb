//! The timed work, which is the same for every service: appends of one and of many writers, reads
//! and lists.

use bench_common::{Deadline, Done, Failure, Meter, Res, Store, Writers};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// One session service. Every event increments a counter in the state.
pub trait Service: Clone + Send + Sync + 'static {
    /// The state of a session that appends need.
    type Live: Send + 'static;
    /// Creates a session whose counter is 0.
    fn create(&self, id: &str) -> impl Future<Output = Res<()>> + Send;
    /// Loads a session for appending.
    fn live(&self, id: &str) -> impl Future<Output = Res<Self::Live>> + Send;
    /// Appends one event.
    fn append(&self, live: &mut Self::Live) -> impl Future<Output = Res<()>> + Send;
    /// Reads a session; returns the number of events and the counter.
    fn read(&self, id: &str, newest: Option<u64>) -> impl Future<Output = Res<(u64, u64)>> + Send;
    /// Lists the user's sessions; returns their number.
    fn list(&self) -> impl Future<Output = Res<u64>> + Send;
}

/// A store of the protocol on any service.
pub struct ServiceStore<S: Service> {
    runtime: Arc<Runtime>,
    service: S,
    live: HashMap<String, S::Live>,
}

impl<S: Service> ServiceStore<S> {
    pub fn new(runtime: Arc<Runtime>, service: S) -> Self {
        ServiceStore {
            runtime,
            service,
            live: HashMap::new(),
        }
    }

    /// Runs an operation repeatedly and measures it.
    fn repeat<F: Future<Output = Res<u64>>>(
        &self,
        times: u64,
        meter: &mut Meter,
        work: impl Fn() -> F,
    ) -> Res<Done> {
        self.runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            for _ in 0..times {
                done.events = Some(work().await?);
                done.ops += 1;
                if deadline.passed() {
                    break;
                }
            }
            meter.stop();
            Ok(done)
        })
    }
}

impl<S: Service> Store for ServiceStore<S> {
    fn load(&mut self, sessions: &[String], events: u64) -> Res<()> {
        let service = &self.service;
        self.runtime.block_on(async {
            for id in sessions {
                service.create(id).await?;
                if events == 0 {
                    continue;
                }
                let mut live = service.live(id).await?;
                for _ in 0..events {
                    service.append(&mut live).await?;
                }
            }
            Ok(())
        })
    }

    fn append(&mut self, sessions: &[String], count: u64, meter: &mut Meter) -> Res<Done> {
        let Self {
            runtime,
            service,
            live,
        } = self;
        runtime.block_on(async {
            for id in sessions {
                if !live.contains_key(id) {
                    live.insert(id.clone(), service.live(id).await?);
                }
            }
            let mut done = Done::default();
            let deadline = meter.start();
            'all: for id in sessions {
                let session = live.get_mut(id).expect("inserted above");
                for _ in 0..count {
                    service.append(session).await?;
                    done.ops += 1;
                    if deadline.passed() {
                        break 'all;
                    }
                }
            }
            meter.stop();
            Ok(done)
        })
    }

    fn read(
        &mut self,
        session: &str,
        newest: Option<u64>,
        repeat: u64,
        meter: &mut Meter,
    ) -> Res<Done> {
        let service = &self.service;
        self.repeat(repeat, meter, || async move {
            Ok(service.read(session, newest).await?.0)
        })
    }

    fn list(&mut self, repeat: u64, meter: &mut Meter) -> Res<Done> {
        self.repeat(repeat, meter, || self.service.list())
    }

    fn writers(&mut self, plan: &Writers, meter: &mut Meter) -> Res<Done> {
        let service = &self.service;
        self.runtime.block_on(async {
            for id in plan.sessions() {
                service.create(&id).await?;
            }
            let mut handles = Vec::new();
            for w in 0..plan.writers {
                handles.push(service.live(&plan.session(w)).await?);
            }
            let mut tasks = JoinSet::new();
            let deadline = meter.start();
            for live in handles {
                tasks.spawn(writer(service.clone(), live, plan.each, deadline));
            }
            let mut done = Done {
                attempted: Some(0),
                ..Done::default()
            };
            while let Some(part) = tasks.join_next().await {
                let part = part?;
                done.ops += part.ops;
                done.attempted = done.attempted.zip(part.attempted).map(|(a, b)| a + b);
                done.errors += part.errors;
                done.first_error = done.first_error.or(part.first_error);
            }
            meter.stop();
            let (mut kept, mut sum) = (0, 0);
            for id in plan.sessions() {
                let (events, counter) = service.read(&id, None).await?;
                kept += events;
                sum += counter;
            }
            done.kept = Some(kept);
            done.counter = Some(sum);
            Ok(done)
        })
    }
}

/// Runs one writer, which keeps its session loaded.
async fn writer<S: Service>(service: S, mut live: S::Live, each: u64, deadline: Deadline) -> Done {
    let mut done = Done::default();
    for n in 1..=each {
        done.attempted = Some(n);
        match service.append(&mut live).await {
            Ok(()) => done.ops += 1,
            Err(Failure::Error(why) | Failure::Unsupported(why)) => {
                done.errors += 1;
                done.first_error.get_or_insert(why);
            }
        }
        if deadline.passed() {
            break;
        }
    }
    done
}
