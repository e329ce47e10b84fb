//! Agents from ADK's YAML files, with a custom tool and a custom callback, and the error for a
//! mistake in a file.
//!
//! Run it with `cargo run --example yaml_agent`.

use std::{path::Path, sync::Arc};

use retain::{
    Agent, FunctionTool, InMemorySessionService, Json, Runner,
    agent::{AgentConfig, AgentsDir, ConfigRegistry},
};

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yaml_agent");
    let agents = AgentsDir::open(folder, registry())?;
    println!("apps:   {}", agents.apps()?.join(", "));

    let travel = agents.load("travel")?;
    println!("agents: {}", names(travel.as_ref()).join(", "));
    assert_eq!(
        names(travel.as_ref()),
        ["travel_desk", "check_list", "papers"]
    );
    let runner = Runner::builder()
        .app_name("travel")
        .agent(Arc::clone(&travel))
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()?;
    let run = runner.run("ada", Some("s1"), "I fly to Oslo.").await?;
    println!("answer: {}", run.answer().await?);

    // In development, check whether a file has changed since the agent was loaded.
    assert!(!agents.reload("travel")?.changed);
    print_config_error()
}

/// Returns the tools and callbacks that files may name, in addition to those of ADK and Retain.
fn registry() -> ConfigRegistry {
    ConfigRegistry::new()
        .with_tool_from_args("travel.tools.opening_hours", |args| {
            let hour = |key: &str| args.get(key).and_then(Json::as_i64);
            let (Some(opens), Some(closes)) = (hour("opens"), hour("closes")) else {
                return Err("expected the hours `opens` and `closes`".into());
            };
            let tool = FunctionTool::new(
                "opening_hours",
                "Says when the desk is open.",
                move |_ctx, ()| async move { Ok(format!("From {opens} to {closes} o'clock.")) },
            );
            Ok(tool.into())
        })
        .with_agent_callback("travel.callbacks.count_visits", |ctx| async move {
            ctx.state().update("user:visits", |visits| {
                *visits = (visits.as_i64().unwrap_or(0) + 1).into();
            });
            Ok(None)
        })
}

/// Returns the name of an agent, followed by the names of its sub-agents.
fn names(agent: &dyn Agent) -> Vec<String> {
    let below = agent.sub_agents().iter();
    let below = below.flat_map(|agent| names(agent.as_ref()));
    std::iter::once(agent.name().to_owned())
        .chain(below)
        .collect()
}

/// Prints the line, the key and the problem of a mistake in a file.
fn print_config_error() -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("root_agent.yaml");
    let yaml = "name: clerk\nmodel: offline\ninstruction: Help.\ntools:\n  - name: load_memry\n";
    std::fs::write(&file, yaml)?;
    let Err(error) = AgentConfig::load(&file, &ConfigRegistry::new()) else {
        return Err("an unknown tool was accepted".into());
    };
    let message = format!(
        "line {:?}: {}: {}",
        error.line(),
        error.key(),
        error.problem()
    );
    println!("error:  {message}");
    assert_eq!(
        message,
        "line Some(5): tools[0].name: no tool is built in or registered as \"load_memry\"; did you \
         mean `load_memory`?"
    );
    Ok(())
}
