//! `retain serve`: reads settings, opens services, loads apps, sets up guards and listens.

mod address;
mod adk_options;
mod announce;
mod exports;
mod heap;
mod logs;
#[cfg_attr(not(feature = "mcp"), path = "no_mcp.rs")]
mod mcp;
mod memory_limit;
mod models;
mod open_files;
mod quotas;
mod settings;
mod signals;

use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use retain::server::{
    Apps, Conformance, Dev, Guards, Keys, Origins, Runs, Server, Services, serve_guarded,
};
use retain::{
    LlmAgent,
    agent::ConfigRegistry,
    runner::telemetry::Telemetry,
    store::SystemClock,
    tool::{load_memory_tool, preload_memory_tool},
};

use crate::{
    commands::{MemoryOptions, OpenMode, ServiceSet},
    output::is_closed_pipe,
};

use address::Address;
use announce::Announcement;
use exports::TelemetryExport;
use models::ServerModels;
pub(crate) use settings::uris_in_file;
use settings::{PartialSettings, Settings};

/// The app that is served without a folder of agents.
const BUILT_IN_APP: &str = "assistant";

/// Serve agents over HTTP.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Settings file; its keys are the long options [default: retain.toml, if it exists]
    #[arg(long, env = "RETAIN_CONFIG", value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    #[command(flatten)]
    options: PartialSettings,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let settings = Settings::resolve(self.options, self.config.as_deref())?;
        heap::return_freed_memory();
        let exports = TelemetryExport::from_env()?;
        let dev = settings.ui_dir.as_ref();
        let dev = dev.map(|dir| Dev::new().with_ui_dir(dir));
        logs::start(&settings, dev.as_ref(), &exports)?;
        exports.warn();
        open_files::raise_limit();
        let address = Address::resolve(&settings.host, settings.port).await?;
        if settings.conformance && !address.is_loopback() {
            anyhow::bail!(
                "cannot use --conformance with --host {:?}: clients choose the files that it reads, and \
                 other machines can reach this address; use --host 127.0.0.1",
                settings.host
            );
        }
        let models = models::build(&settings)?;
        let budget = memory_limit::budget(settings.memory_limit);
        let memory = MemoryOptions {
            embedder: models.embedder.clone(),
            budget: budget.clone(),
        };
        let services = ServiceSet::open(&settings.uris, OpenMode::Create, &memory).await?;
        let has_key = settings.api_key.is_some() || services.has_key(&SystemClock).await?;
        let guards = build_guards(&settings, &services, &address, has_key).await?;
        let mut guards = guards.with_byte_budget(budget.clone());
        guards.trace_context = exports.trace_context();
        let guards = Arc::new(guards);
        let apps = build_apps(&settings, &services.services, &models, dev)?;
        let apps = apps.with_byte_budget(&budget);
        let listener = address.listen().await?;
        let stop = signals::stop()?;
        let announcement = Announcement {
            settings: &settings,
            services: &services,
            apps: &apps.names()?,
            model: &models.built_in,
            needs_key: guards.keys.are_required(),
            has_key,
            address: listener.local_addr()?,
        };
        match announcement.print() {
            // The server keeps running if a script reads the address and closes the pipe.
            Err(error) if is_closed_pipe(&error) => {}
            printed => printed?,
        }
        let server = Server::new(services.services, apps);
        let server = Arc::new(server.with_sweep_interval(settings.sweep_interval));
        let served = serve_guarded(server, listener, guards, stop).await;
        // Send the spans of the last runs, even after a failure.
        exports.shutdown().await;
        Ok(served?)
    }
}

/// Builds the apps from the folder of agents. Without a folder, builds the built-in app.
fn build_apps(
    settings: &Settings,
    services: &Services,
    models: &ServerModels,
    dev: Option<Dev>,
) -> anyhow::Result<Apps> {
    let runs = Runs::with_limits(settings.max_runs_per_user, settings.max_runs);
    let mut apps = Apps::new(services.clone())
        .with_runs(runs)
        .with_auto_create_session(settings.auto_create_session)
        .with_resumable(settings.resumable)
        .with_reload_agents(settings.reload_agents);
    if let Some(calls) = settings.max_llm_calls {
        apps = apps.with_max_llm_calls(calls.limit);
    }
    if let Some(app) = &settings.default_app {
        apps = apps.with_default_app(app);
    }
    if let Some(dev) = dev {
        apps = apps.with_dev(dev);
    }
    if let Some(content_in_spans) = settings.capture_message_content {
        apps = apps.with_telemetry(Telemetry::default().with_content_in_spans(content_in_spans));
    }
    let mut registry = mcp::register(ConfigRegistry::new().with_models(models.registry.clone()));
    if settings.conformance {
        let conformance = Conformance::default();
        registry = conformance.registry(registry, models.registry.clone());
        apps = apps.with_plugin(conformance.plugin());
    }
    if let Some(dir) = &settings.agents_dir {
        let apps = apps.with_ingest_after_turns(settings.ingest_after_turns);
        return Ok(apps.with_agents_at(dir, registry)?);
    }
    let agent = LlmAgent::builder(BUILT_IN_APP)
        .description("Remembers what it is told, across sessions.")
        .instruction("You are a helpful assistant. Use what you remember of the user.")
        .models(models.registry.clone())
        .model(models.built_in.name.as_str())
        .tool(load_memory_tool())
        .tool(preload_memory_tool(5))
        .build()?;
    Ok(apps
        .with_ingest_after_turns(true)
        .with_auto_create_session(true)
        .with_agent(BUILT_IN_APP, agent))
}

/// Builds the checks of API keys, origins and limits. Fails if other machines can reach the address
/// and no valid API key exists (`has_key`).
async fn build_guards(
    settings: &Settings,
    services: &ServiceSet,
    address: &Address,
    has_key: bool,
) -> anyhow::Result<Guards> {
    if !has_key && !address.is_loopback() {
        anyhow::bail!(
            "cannot listen on {}: other machines can reach this address, and no valid API key \
             exists; create one with\n  retain keys create --store {} --name first --scopes admin\n\
             or set RETAIN_API_KEY, or use --host 127.0.0.1, which requires no key",
            settings.host,
            services.keys_uri(),
        );
    }
    // Once a key has been created, the server requires one, even after the last one has expired.
    let requires_key = has_key || services.keys.had_any().await?;
    let keys = Keys::new(
        Arc::clone(&services.keys),
        settings.api_key.clone(),
        requires_key,
    );
    let origins = Origins::new(address.is_loopback(), &settings.allow_origins);
    let origins = origins.context("invalid --allow-origins")?;
    Ok(Guards::default()
        .with_origins(origins.with_host(&settings.host))
        .with_keys(
            keys.with_rate_limit(settings.limits.requests_per_key)
                .with_rejection_limit(settings.limits.wrong_keys_per_peer),
        )
        .with_limits(settings.limits))
}
