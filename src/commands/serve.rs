//! `retain serve`: composes services and apps, and listens.

use std::sync::Arc;

use clap::Args;
use retain::{
    AgentsDir, ConfigRegistry, LlmAgent, OfflineModel, SqliteMemoryService, SqliteSessionService,
    load_memory_tool, preload_memory_tool,
};
use retain_server::{Apps, Server, Services, serve};
use tokio::net::TcpListener;

/// Serve agents over HTTP.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A folder of agents: each folder in it with a root_agent.yaml is an app.
    agents_dir: Option<std::path::PathBuf>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on.
    #[arg(long, default_value_t = 8000)]
    port: u16,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        std::fs::create_dir_all(".retain")?;
        let sessions = SqliteSessionService::connect("sqlite:///.retain/retain.db").await?;
        let memory = Arc::new(SqliteMemoryService::over(sessions.store().memory()));
        let artifacts = Arc::new(retain::SqliteArtifactService::over(
            sessions.store().artifacts(),
        ));
        let services = Services {
            sessions: Arc::new(sessions),
            memory: memory.clone(),
            long_term_memory: Some(memory),
            artifacts,
        };
        let mut apps = Apps::new(services.clone()).ingest_after_turns(true);
        apps = match self.agents_dir {
            Some(dir) => apps.dir(AgentsDir::open(dir, ConfigRegistry::new())?),
            None => {
                let agent = LlmAgent::builder("assistant")
                    .model(OfflineModel::new())
                    .tool(load_memory_tool())
                    .tool(preload_memory_tool(5))
                    .build()?;
                apps.agent("assistant", Arc::new(agent))
            }
        };
        let listener = TcpListener::bind((self.host.as_str(), self.port)).await?;
        println!("Retain listens on http://{}", listener.local_addr()?);
        let server = Arc::new(Server { services, apps });
        serve(server, listener, async {
            // Without a handler for the signal there is nothing to wait for.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
        Ok(())
    }
}
