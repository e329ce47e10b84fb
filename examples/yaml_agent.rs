//! Agents from files: ADK's YAML, with a tool and a callback of one's own, and what is told about a
//! mistake.
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

    // In development: was a file changed since?
    assert!(!agents.reload("travel")?.changed);
    a_mistake_is_told()
}

/// What the files may name, beside what ADK and Retain bring along.
fn registry() -> ConfigRegistry {
    ConfigRegistry::new()
        .tool_from_args("travel.tools.opening_hours", |args| {
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
        .agent_callback("travel.callbacks.count_visits", |ctx| async move {
            ctx.state().update("user:visits", |visits| {
                *visits = (visits.as_i64().unwrap_or(0) + 1).into();
            });
            Ok(None)
        })
}

/// An agent's name, and those of the agents below it.
fn names(agent: &dyn Agent) -> Vec<String> {
    let below = agent.sub_agents().iter();
    let below = below.flat_map(|agent| names(agent.as_ref()));
    std::iter::once(agent.name().to_owned())
        .chain(below)
        .collect()
}

/// File, line, key, and what was expected.
fn a_mistake_is_told() -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("root_agent.yaml");
    let yaml = "name: clerk\nmodel: offline\ninstruction: Help.\ntools:\n  - name: load_memry\n";
    std::fs::write(&file, yaml)?;
    let Err(error) = AgentConfig::load(&file, &ConfigRegistry::new()) else {
        return Err("an unknown tool was accepted".into());
    };
    let told = format!(
        "line {:?}: {}: {}",
        error.line(),
        error.key(),
        error.problem()
    );
    println!("error:  {told}");
    assert_eq!(
        told,
        "line Some(5): tools[0].name: no tool is built in or registered as \"load_memry\"; did you \
         mean `load_memory`?"
    );
    Ok(())
}
