//! An agent from a YAML configuration, with a model that makes the given calls.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use retain_core::{Event, FunctionCall, Json};
use retain_mcp::ChildProcesses;
use retain_runtime::{AgentConfig, ConfigRegistry, Model, Runner, ScriptedModel, ScriptedReply};
use retain_stores::InMemorySessionService;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct CallResults {
    /// The declarations that were sent to the model.
    pub(crate) declared: Vec<Json>,
    /// The stored tool results, in the order of the calls.
    pub(crate) answers: Vec<Json>,
}

/// A runner with a toolset. The server runs until this value is closed or dropped.
#[derive(Debug)]
pub(crate) struct Caller {
    runner: Runner,
    model: Arc<ScriptedModel>,
    calls: Calls,
}

type Calls = Arc<Mutex<VecDeque<FunctionCall>>>;

impl Caller {
    /// Creates a runner with the toolset of these arguments.
    pub(crate) fn new(args: &str) -> Caller {
        let calls = Calls::default();
        let pending = Arc::clone(&calls);
        let model =
            ScriptedModel::new("m").otherwise(move |_| match pending.lock().unwrap().pop_front() {
                Some(call) => ScriptedReply::from(call),
                None => ScriptedReply::from("Done."),
            });
        let model = Arc::new(model);
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("root_agent.yaml");
        let yaml = format!(
            "name: a\nmodel: m\ninstruction: Help.\ntools: [{{name: McpToolset, args: {args}}}]\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let registry = retain_mcp::register(ConfigRegistry::new(), ChildProcesses::Allowed);
        let chosen = Arc::clone(&model);
        let registry =
            registry.with_model_resolver(move |_, _| Ok(Arc::clone(&chosen) as Arc<dyn Model>));
        let agent = AgentConfig::load(&file, &registry).unwrap();
        let runner = Runner::builder()
            .app_name("app")
            .agent(agent)
            .session_service(Arc::new(InMemorySessionService::new()))
            .auto_create_session(true);
        Caller {
            runner: runner.build().unwrap(),
            model,
            calls,
        }
    }

    /// Makes these calls one after the other, in one run.
    pub(crate) async fn run(&self, calls: &[(&str, &str)]) -> CallResults {
        let calls = calls.iter().map(function_call);
        self.calls.lock().unwrap().extend(calls);
        let run = self.runner.run("user", None, "Go.").await.unwrap();
        let events = run.collect_events().await.unwrap();
        let responses = events.iter().flat_map(Event::function_responses);
        let answers = responses
            .filter_map(|it| it.response.clone())
            .map(Json::from);
        let requests = self.model.requests();
        let tools = requests[0].config.tools.iter().flatten();
        let declared = tools.flat_map(|tool| tool.function_declarations.iter().flatten());
        let declared = declared.map(|it| Json::parse(&it.to_json().unwrap()).unwrap());
        CallResults {
            declared: declared.collect(),
            answers: answers.collect(),
        }
    }

    /// Closes the runner and its server.
    pub(crate) async fn close(self) {
        self.runner.close().await.unwrap();
    }
}

fn function_call((tool, args): &(&str, &str)) -> FunctionCall {
    FunctionCall {
        name: Some((*tool).to_owned()),
        args: Json::parse(args).unwrap().as_object().cloned(),
        ..FunctionCall::default()
    }
}
