//! Valid configurations: the requests and the events of the agents that they describe.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use retain_core::{Content, Event, FunctionCall, Json, JsonMap, SessionService};
use retain_runtime::{
    Agent, AgentsDir, BeforeModel, BeforeTool, ConfigRegistry, Example, ExampleProvider,
    FunctionTool, LlmAgent, Model, Runner, ScriptedModel, ToolOutput,
};
use retain_stores::{InMemoryArtifactService, InMemorySessionService};

use crate::config::support::{folder, load, registry};

/// Returns an agent and its sub-agents as `name(sub, sub)`.
fn outline(agent: &dyn Agent) -> String {
    let below = agent.sub_agents().iter();
    let below: Vec<String> = below.map(|agent| outline(agent.as_ref())).collect();
    match below.is_empty() {
        true => agent.name().to_owned(),
        false => format!("{}({})", agent.name(), below.join(", ")),
    }
}

/// Runs one turn and returns its events.
async fn run_turn(agent: Arc<dyn Agent>) -> Vec<Event> {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("app")
        .agent(agent)
        .session_service(sessions)
        .artifact_service(Arc::new(InMemoryArtifactService::new()))
        .auto_create_session(true)
        .build()
        .expect("a runner");
    let run = runner.run("ada", Some("s1"), "Hello").await;
    let events = run.expect("a started run").collect_events().await;
    events.expect("a successful run")
}

/// Creates a model that always gives the same answer.
fn model_with_answer(text: &'static str) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new("scripted").otherwise(move |_| text))
}

/// Creates a registry that resolves every model name to this model.
fn registry_with(model: &Arc<ScriptedModel>) -> ConfigRegistry {
    let model: Arc<dyn Model> = Arc::clone(model) as _;
    ConfigRegistry::new().with_model_resolver(move |_, _| Ok(Arc::clone(&model)))
}

#[test]
fn every_recorded_agent_loads() {
    let root =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../replay/testdata/conformance/agents");
    let agents = AgentsDir::open(root, registry()).unwrap();
    let apps = agents.apps().unwrap();
    assert_eq!(apps.len(), 39);
    let failed = apps.iter().filter_map(|app| agents.load(app).err());
    let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let outline_of = |app: &str| outline(agents.load(app).unwrap().as_ref());
    assert_eq!(outline_of("refine"), "refine(writer, critic, polisher)");
    assert_eq!(
        outline_of("survey"),
        "survey(fanout(north, south, east), merger)"
    );
    assert_eq!(outline_of("chief"), "chief(head(doer, helper), scout)");
}

#[tokio::test]
async fn configured_settings_instructions_and_schema_are_sent_to_the_model() {
    let folder = folder(&[(
        "root_agent.yaml",
        r#"
agent_class: google.adk.agents.llm_agent.LlmAgent
name: locator
description: Locates.
model: any
static_instruction:
  parts: [{text: "Never changes: {braces}."}]
instruction: Where is it?
include_contents: none
output_key: position
output_schema: {name: google.genai.types.LatLng}
generate_content_config: {temperature: 0.25, topK: 20, stop_sequences: [END], top_p: 1e-1, seed: '7'}
"#,
    )]);
    let model = model_with_answer(r#"{"latitude": 1.5, "longitude": null}"#);
    let events = run_turn(load(&folder, &registry_with(&model)).unwrap()).await;
    let position = &events[0].actions.state_delta["position"];
    assert_eq!(position.to_string(), r#"{"latitude":1.5}"#);
    let request = &model.requests()[0];
    assert_eq!(request.config.temperature, Some(0.25));
    assert_eq!(request.config.top_k, Some(20.0));
    assert_eq!(request.config.top_p, Some(0.1));
    assert_eq!(request.config.seed, Some(7));
    assert_eq!(
        request.config.stop_sequences.as_deref(),
        Some(&["END".to_owned()][..])
    );
    assert!(request.config.response_schema.is_some());
    let system = request.config.system_instruction.clone().unwrap();
    assert!(system.starts_with("Never changes: {braces}."), "{system}");
}

#[tokio::test]
async fn tools_resolve_by_every_name_adk_accepts() {
    let folder = folder(&[(
        "root_agent.yaml",
        "
name: worker
model: any
instruction: Work.
tools:
  - name: load_memory
  - name: load_artifacts
  - name: google.adk.tools.exit_loop
  - name: google.adk.tools.get_user_choice_tool.get_user_choice_tool
  - {name: request_input, args: {}}
  - name: shop.tools.order_status
  - name: shop.tools.make
    args: {prefix: new, sizes: [1, 2]}
",
    )]);
    let args = Arc::new(Mutex::new(JsonMap::new()));
    let tool_args = Arc::clone(&args);
    let plain =
        |name: &str| FunctionTool::untyped(name, "", None, |_, _| async { Ok(ToolOutput::none()) });
    let model = model_with_answer("Done.");
    let registry = registry_with(&model)
        .with_tool("shop.tools.order_status", plain("order_status"))
        .with_tool_from_args("shop.tools.make", move |args| {
            *tool_args.lock().unwrap() = args;
            Ok(plain("made").into())
        });
    run_turn(load(&folder, &registry).unwrap()).await;
    let requests = model.requests();
    let names: Vec<&str> = requests[0].tools.names().collect();
    assert_eq!(
        names,
        [
            "load_memory",
            "load_artifacts",
            "exit_loop",
            "get_user_choice",
            "adk_request_input",
            "order_status",
            "made"
        ]
    );
    let args = Json::from(args.lock().unwrap().clone());
    assert_eq!(args.to_string(), r#"{"prefix":"new","sizes":[1,2]}"#);
}

#[derive(Debug)]
struct EchoExamples;

impl ExampleProvider for EchoExamples {
    fn examples(&self, query: &str) -> Vec<Example> {
        vec![Example {
            input: Content::user(query),
            output: vec![Content::model("Fits.")],
        }]
    }
}

#[tokio::test]
async fn configured_examples_come_from_the_file_or_a_provider() {
    let agent = |examples: &str| {
        let head = "name: a\nmodel: any\ninstruction: x\ntools:\n";
        let tool = "  - name: google.adk.tools.example_tool.ExampleTool\n    args:\n";
        format!("{head}{tool}      examples: {examples}\n")
    };
    let listed = "[{input: {parts: [{text: hi}]}, output: [{role: model, parts: [{text: HI}]}]}]";
    for (examples, expected) in [
        (listed, "[user]\nhi\n[model]\nHI\n"),
        ("my.fitting", "Fits."),
    ] {
        let folder = folder(&[("root_agent.yaml", &agent(examples))]);
        let model = model_with_answer("Done.");
        let registry = registry_with(&model).with_examples("my.fitting", Arc::new(EchoExamples));
        run_turn(load(&folder, &registry).unwrap()).await;
        let system = model.requests()[0].config.system_instruction.clone();
        let system = system.unwrap();
        assert!(system.contains(expected), "{system}");
    }
}

#[tokio::test]
async fn configured_callbacks_of_every_kind_run_in_order() {
    let folder = folder(&[(
        "root_agent.yaml",
        "
name: a
model: any
instruction: x
tools: [{name: load_memory}]
before_agent_callbacks: [{name: my.agent}, {name: my.other}]
after_agent_callbacks: [{name: my.agent}]
before_model_callbacks: [{name: my.before_model}]
after_model_callbacks: [{name: my.after_model}]
before_tool_callbacks: [{name: my.before_tool}]
after_tool_callbacks: [{name: my.after_tool}]
",
    )]);
    let called = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let called = Arc::clone(&called);
        move || called.lock().unwrap().push(name)
    };
    let (agent, other) = (note("agent"), note("other"));
    let (before_model, after_model) = (note("before_model"), note("after_model"));
    let (before_tool, after_tool) = (note("before_tool"), note("after_tool"));
    let model = ScriptedModel::new("scripted")
        .reply(FunctionCall::new(
            "load_memory",
            Json::parse(r#"{"query":"x"}"#).unwrap(),
        ))
        .reply("Done.");
    let registry = registry_with(&Arc::new(model))
        .with_agent_callback("my.agent", move |_| {
            agent();
            async { Ok(None) }
        })
        .with_agent_callback("my.other", move |_| {
            other();
            async { Ok(None) }
        })
        .with_before_model("my.before_model", move |_, request| {
            before_model();
            async { Ok(BeforeModel::from(request)) }
        })
        .with_after_model("my.after_model", move |_, _| {
            after_model();
            async { Ok(None) }
        })
        .with_before_tool("my.before_tool", move |_, _| {
            before_tool();
            async { Ok(BeforeTool::Answer("remembered".into())) }
        })
        .with_after_tool("my.after_tool", move |_, _| {
            after_tool();
            async { Ok(None) }
        });
    run_turn(load(&folder, &registry).unwrap()).await;
    let model = ["before_model", "after_model"];
    let tool = ["before_tool", "after_tool"];
    let expected = [&["agent", "other"][..], &model, &tool, &model, &["agent"]].concat();
    assert_eq!(*called.lock().unwrap(), expected);
}

#[tokio::test]
async fn configured_sub_agents_run_according_to_the_agent_class() {
    let below = |name: &str| format!("name: {name}\nmodel: any\ninstruction: x\n");
    let folder = folder(&[
        (
            "root_agent.yaml",
            "
agent_class: google.adk.agents.SequentialAgent
name: root
before_agent_callbacks: [{name: my.note}]
sub_agents:
  - config_path: parts/again.yaml
  - code: my.agents.last
",
        ),
        (
            "parts/again.yaml",
            "agent_class: LoopAgent\nname: again\nmax_iterations: '2'\n\
             sub_agents: [{config_path: one.yaml}, {config_path: both.yaml}]\n",
        ),
        (
            "parts/both.yaml",
            "agent_class: ParallelAgent\nname: both\nsub_agents: [{config_path: two.yaml}]\n",
        ),
        ("parts/one.yaml", &below("one")),
        ("parts/two.yaml", &below("two")),
    ]);
    let model = model_with_answer("Done.");
    let last = LlmAgent::builder("last")
        .model(model_with_answer("Bye."))
        .build()
        .unwrap();
    let registry = registry_with(&model)
        .with_agent("my.agents.last", last)
        .with_agent_callback("my.note", |ctx| async move {
            ctx.state().set("noted", ctx.agent_name());
            Ok(None)
        });
    let agent = load(&folder, &registry).unwrap();
    assert_eq!(outline(agent.as_ref()), "root(again(one, both(two)), last)");
    let events = run_turn(agent).await;
    assert_eq!(events[0].actions.state_delta["noted"], "root");
    let spoken = events.iter().filter(|event| event.content().is_some());
    let authors: Vec<&str> = spoken.map(|event| event.author.as_str()).collect();
    assert_eq!(authors, ["one", "two", "one", "two", "last"]);
}

#[tokio::test]
async fn configured_model_comes_from_the_registry_or_the_parent() {
    let folder = folder(&[
        (
            "root_agent.yaml",
            "name: top\nmodel_code: {name: my.models.big}\ninstruction: x\n\
             disallow_transfer_to_parent: true\nsub_agents: [{config_path: below.yaml}]\n",
        ),
        (
            "below.yaml",
            "name: below\nmodel: ''\ninstruction: y\ndescription: Deep.\n",
        ),
    ]);
    let call = FunctionCall::new(
        "transfer_to_agent",
        Json::parse(r#"{"agent_name":"below"}"#).unwrap(),
    );
    let model = Arc::new(ScriptedModel::new("big").reply(call).reply("Deep down."));
    let registry = ConfigRegistry::new().with_model_code("my.models.big", Arc::clone(&model));
    let events = run_turn(load(&folder, &registry).unwrap()).await;
    assert_eq!(events.last().unwrap().author, "below");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn agent_tool_loads_from_its_file() {
    let root = |more: &str| {
        format!(
            "name: manager\nmodel: any\ninstruction: x\ntools:\n  - name: AgentTool\n    args:\n\
             \x20     agent: {{config_path: translator.yaml}}\n{more}"
        )
    };
    let cases = [("", 3), ("      skip_summarization: true\n", 2)];
    for (more, requests) in cases {
        let folder = folder(&[
            ("root_agent.yaml", &root(more)),
            (
                "translator.yaml",
                "name: translator\nmodel: any\ninstruction: y\n",
            ),
        ]);
        let call = Json::parse(r#"{"request":"Hello"}"#).unwrap();
        let model = ScriptedModel::new("scripted")
            .reply(FunctionCall::new("translator", call))
            .reply("Bonjour")
            .reply("They say Bonjour.");
        let model = Arc::new(model);
        let agent = load(&folder, &registry_with(&model)).unwrap();
        assert_eq!(outline(agent.as_ref()), "manager");
        run_turn(agent).await;
        assert_eq!(model.requests().len(), requests, "{more}");
    }
}

#[tokio::test]
async fn anchors_and_merge_keys_are_resolved() {
    let folder = folder(&[(
        "root_agent.yaml",
        "
name: &name clerk
description: *name
instruction: |
  Be brief.
model: scripted
generate_content_config:
  <<: {temperature: 0.5, seed: 1}
  seed: 2
",
    )]);
    let model = model_with_answer("Done.");
    let agent = load(&folder, &registry_with(&model)).unwrap();
    assert_eq!(agent.description(), "clerk");
    run_turn(agent).await;
    let settings = &model.requests()[0].config;
    assert_eq!((settings.temperature, settings.seed), (Some(0.5), Some(2)));
}
