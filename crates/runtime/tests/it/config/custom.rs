//! Agents whose classes the program registers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use retain_core::Event;
use retain_runtime::{
    Agent, AgentCallbacks, ConfigRegistry, CustomAgentConfig, InvocationContext, RunError, Runner,
};
use retain_stores::InMemorySessionService;

use crate::config::support::{error_text, folder, load, registry};

/// A custom agent that emits its greeting.
#[derive(Debug)]
struct Greeter {
    config: CustomAgentConfig,
    settings: GreeterSettings,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GreeterSettings {
    greeting: String,
    #[serde(default)]
    times: usize,
}

#[async_trait]
impl Agent for Greeter {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn description(&self) -> &str {
        &self.config.description
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &self.config.sub_agents
    }

    fn callbacks(&self) -> Option<&AgentCallbacks> {
        Some(&self.config.callbacks)
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        let words = self.settings.greeting.repeat(self.settings.times);
        ctx.emit(Event::model_text(self.name(), words)).await?;
        Ok(())
    }
}

/// Creates a registry with the agent class `shop.agents.Greeter`.
fn greeter_registry() -> ConfigRegistry {
    registry().with_agent_class("shop.agents.Greeter", |config| {
        let settings: GreeterSettings = config.parse()?;
        if settings.times > 10 {
            return Err("greets too often".into());
        }
        Ok(Arc::new(Greeter { config, settings }))
    })
}

const GREETER: &str = "\
agent_class: shop.agents.Greeter
name: door
description: Greets.
greeting: 'Hi! '
times: 2
sub_agents:
  - config_path: below.yaml
before_agent_callbacks:
  - name: shop.noted
";

#[tokio::test]
async fn registered_class_builds_the_agent_of_its_file() {
    let below = "agent_class: shop.agents.Greeter\nname: below\ngreeting: Ho\n";
    let folder = folder(&[("root_agent.yaml", GREETER), ("below.yaml", below)]);
    let noted = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&noted);
    let registry = greeter_registry().with_agent_callback("shop.noted", move |ctx| {
        seen.lock().unwrap().push(ctx.agent_name().to_owned());
        async { Ok(None) }
    });
    let agent = load(&folder, &registry).unwrap();
    assert_eq!((agent.name(), agent.description()), ("door", "Greets."));
    assert_eq!(agent.sub_agents()[0].name(), "below");
    let runner = Runner::builder()
        .app_name("shop")
        .agent(agent)
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()
        .unwrap();
    let run = runner.run("ada", Some("s1"), "Hello").await.unwrap();
    assert_eq!(run.answer().await.unwrap(), "Hi! Hi! ");
    assert_eq!(*noted.lock().unwrap(), ["door"]);
}

#[test]
fn custom_agent_error_names_its_file() {
    let class = "agent_class: shop.agents.Greeter\nname: door\n";
    let cases = [
        (
            "greetin: Hi\n",
            "root_agent.yaml:1: unknown field `greetin`, expected `greeting` or `times`",
        ),
        (
            "greeting: Hi\ntimes: 11\n",
            "root_agent.yaml:1: greets too often",
        ),
        (
            "greeting: Hi\nsub_agents: below.yaml\n",
            "root_agent.yaml:4: sub_agents: expected a list, found the string \"below.yaml\"",
        ),
        (
            "greeting: Hi\nbefore_agent_callbacks: [{name: nothing}]\n",
            "root_agent.yaml:4: before_agent_callbacks[0].name: no agent callback is registered as \
             \"nothing\"; there are no registered names",
        ),
    ];
    for (rest, expected) in cases {
        let folder = folder(&[("root_agent.yaml", &format!("{class}{rest}"))]);
        let error = load(&folder, &greeter_registry()).unwrap_err();
        assert_eq!(error_text(&folder, &error), expected);
    }
    let nameless = "agent_class: shop.agents.Greeter\ngreeting: Hi\n";
    let folder = folder(&[("root_agent.yaml", nameless)]);
    let error = load(&folder, &greeter_registry()).unwrap_err();
    let expected = "root_agent.yaml:1: the key `name` of an agent is missing";
    assert_eq!(error_text(&folder, &error), expected);
}

#[test]
fn unregistered_class_error_suggests_the_nearest_name() {
    let yaml = "agent_class: shop.agents.Greter\nname: door\n";
    let folder = folder(&[("root_agent.yaml", yaml)]);
    let error = load(&folder, &greeter_registry()).unwrap_err();
    let expected = "root_agent.yaml:1: agent_class: \"shop.agents.Greter\" is not an agent class; did \
                    you mean `shop.agents.Greeter`?";
    assert_eq!(error_text(&folder, &error), expected);
}
