//! Retain's server for the suite `server`: the same routes, guards and services as `retain serve`,
//! with an agent whose model answers immediately. Usage: `bench-peer-server PORT SESSIONS [FILE]`.
//! It creates SESSIONS sessions to list, in the SQLite file or in memory.

use bench_common::{AGENT, ANSWER, INSTRUCTION};
use retain_core::{Content, LlmResponse, SessionLog, State};
use retain_memory::InMemoryMemoryService;
use retain_runtime::{LlmAgent, LlmRequest, Model, ModelStream};
use retain_server::{Apps, Server, Services, serve};
use retain_stores::{InMemoryArtifactService, InMemorySessionService, SqliteSessionService};
use std::sync::Arc;

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Debug)]
struct MockModel;

impl Model for MockModel {
    fn name(&self) -> &str {
        "mock"
    }

    fn generate(&self, _request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        let answer = LlmResponse::from_content(Content::model(ANSWER));
        Box::pin(futures_util::stream::iter([Ok(answer)]))
    }
}

#[tokio::main]
async fn main() -> Res<()> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().ok_or("missing argument PORT")?.parse()?;
    let listed: u64 = args.next().ok_or("missing argument SESSIONS")?.parse()?;
    let sessions: Arc<dyn SessionLog> = match args.next() {
        Some(file) => Arc::new(SqliteSessionService::connect(&format!("sqlite:///{file}")).await?),
        None => Arc::new(InMemorySessionService::new()),
    };
    fill(&sessions, listed).await?;
    let services = Services::new(
        sessions,
        Arc::new(InMemoryMemoryService::new()),
        Arc::new(InMemoryArtifactService::new()),
    );
    let agent = LlmAgent::builder(AGENT).model(MockModel);
    let agent = Arc::new(agent.instruction(INSTRUCTION).build()?);
    let apps = Apps::new(services.clone()).with_agent("mock", agent);
    let server = Arc::new(Server::new(services, apps));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    serve(server, listener, std::future::pending()).await?;
    Ok(())
}

/// Creates the sessions to list.
async fn fill(sessions: &Arc<dyn SessionLog>, count: u64) -> Res<()> {
    let mut tasks = Vec::new();
    for number in 0..count {
        let sessions = Arc::clone(sessions);
        tasks.push(tokio::spawn(async move {
            let state = State::from([("number", 1)]);
            let id = format!("s{number}");
            let created = sessions.create_session("mock", "many", Some(state), Some(&id));
            created.await.map(drop)
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}
