//! Runs of an agent with a toolset, and helpers for child processes.

use std::{path::Path, sync::Arc, time::Duration};

use retain_core::{Event, FunctionCall, Json, JsonMap};
use retain_mcp::{McpToolset, StdioServer};
use retain_runtime::{LlmAgent, LlmRequest, Runner, ScriptedModel, ToolSource, Toolset};
use retain_stores::InMemorySessionService;

use crate::server::FOLDER;

/// A timeout that no passing test reaches.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Returns the test server as a child process.
pub(crate) fn child_process(folder: &Path) -> StdioServer {
    let executable = std::env::current_exe().unwrap();
    StdioServer::new(executable.to_str().unwrap())
        .with_args(["--exact", "server::serve_as_a_child_process", "--nocapture"])
        .with_env(FOLDER, folder.to_str().unwrap())
        .with_timeout(LONG)
}

pub(crate) fn call(tool: &str, args: &str) -> FunctionCall {
    let args = Json::parse(args).unwrap();
    FunctionCall {
        name: Some(tool.to_owned()),
        args: args.as_object().cloned(),
        ..FunctionCall::default()
    }
}

/// The requests and events of one run.
pub(crate) struct AgentRun {
    pub(crate) requests: Vec<Arc<LlmRequest>>,
    pub(crate) events: Vec<Event>,
}

impl AgentRun {
    /// Runs an agent whose model calls the tool and then answers `Done.`.
    pub(crate) async fn calling_tool(set: &Arc<McpToolset>, tool: &str, args: &str) -> AgentRun {
        let model = ScriptedModel::new("m").reply(call(tool, args));
        AgentRun::with_model(set, model.otherwise(|_| "Done.")).await
    }

    pub(crate) async fn with_model(set: &Arc<McpToolset>, model: ScriptedModel) -> AgentRun {
        let model = Arc::new(model);
        let set: Arc<dyn Toolset> = Arc::clone(set) as _;
        let agent = LlmAgent::builder("a")
            .model(Arc::clone(&model))
            .tool(ToolSource::from(set));
        let runner = Runner::builder()
            .app_name("app")
            .agent(agent.build().unwrap())
            .session_service(Arc::new(InMemorySessionService::new()))
            .auto_create_session(true)
            .build()
            .unwrap();
        let run = runner.run("user", None, "Hi").await.unwrap();
        let events = run.collect_events().await.unwrap();
        AgentRun {
            requests: model.requests(),
            events,
        }
    }

    /// Returns the response of the tool that was called first.
    pub(crate) fn response(&self) -> JsonMap {
        let responses = self.events.iter().flat_map(Event::function_responses);
        let mut responses = responses.filter_map(|it| it.response.clone());
        let first = responses.next();
        first.unwrap_or_else(|| panic!("no tool answered: {:?}", self.events))
    }

    /// Returns the text of the tool's response.
    pub(crate) fn text(&self) -> String {
        let response = Json::from(self.response());
        let text = response["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{response:?}")).to_owned()
    }

    /// Returns the error that the model receives for a failed call.
    pub(crate) fn error(&self) -> String {
        let response = self.response();
        let error = response.get("error").and_then(Json::as_str);
        error.unwrap_or_else(|| panic!("{response:?}")).to_owned()
    }

    /// Returns the names of the tools in the first request.
    pub(crate) fn tools(&self) -> Vec<String> {
        let declared = self.requests[0].config.tools.iter().flatten();
        let declared = declared.flat_map(|tool| tool.function_declarations.iter().flatten());
        declared.filter_map(|it| it.name.clone()).collect()
    }
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

pub(crate) async fn wait_until_ended(pid: &str) {
    let ended = async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(LONG, ended).await;
    assert!(ended.is_ok(), "process {pid} has not ended");
}

/// Waits until a child process has no entry in `/proc` any more. Until then, one of its threads
/// might still read input.
pub(crate) async fn wait_until_reaped(pid: &str) {
    let process = Path::new("/proc").join(pid);
    let reaped = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reaped = tokio::time::timeout(LONG, reaped).await;
    assert!(reaped.is_ok(), "process {pid} has not ended");
}
