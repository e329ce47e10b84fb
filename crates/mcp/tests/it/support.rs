//! Agents that call one tool, and what came of it.

use std::{path::Path, sync::Arc, time::Duration};

use retain_core::{Event, FunctionCall, Json, JsonMap};
use retain_mcp::{McpToolset, StdioServer};
use retain_runtime::{LlmAgent, LlmRequest, Runner, ScriptedModel, ToolSource, Toolset};
use retain_stores::InMemorySessionService;

use crate::server::FOLDER;

/// A time in which everything happens that happens at all.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The server of the tests as a child process of its own.
pub(crate) fn child_process(folder: &Path) -> StdioServer {
    let itself = std::env::current_exe().unwrap();
    StdioServer::new(itself.to_str().unwrap())
        .args(["--exact", "server::serve_as_a_child_process", "--nocapture"])
        .env(FOLDER, folder.to_str().unwrap())
        .timeout(LONG)
}

pub(crate) fn call(tool: &str, args: &str) -> FunctionCall {
    let args = Json::parse(args).unwrap();
    FunctionCall {
        name: Some(tool.to_owned()),
        args: args.as_object().cloned(),
        ..FunctionCall::default()
    }
}

/// What an agent did that was asked once.
pub(crate) struct Turn {
    pub(crate) requests: Vec<Arc<LlmRequest>>,
    pub(crate) events: Vec<Event>,
}

impl Turn {
    /// Runs an agent that calls the tool and then says that it is done.
    pub(crate) async fn calling(set: &Arc<McpToolset>, tool: &str, args: &str) -> Turn {
        let model = ScriptedModel::new("m").reply(call(tool, args));
        Turn::of(set, model.otherwise(|_| "Done.")).await
    }

    pub(crate) async fn of(set: &Arc<McpToolset>, model: ScriptedModel) -> Turn {
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
        Turn {
            requests: model.requests(),
            events,
        }
    }

    /// What the tool answered.
    pub(crate) fn response(&self) -> JsonMap {
        let responses = self.events.iter().flat_map(Event::function_responses);
        let mut responses = responses.filter_map(|it| it.response.clone());
        let first = responses.next();
        first.unwrap_or_else(|| panic!("no tool answered: {:?}", self.events))
    }

    /// The text that the tool answered.
    pub(crate) fn text(&self) -> String {
        let response = Json::from(self.response());
        let text = response["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{response:?}")).to_owned()
    }

    /// What the model was told of a call that failed.
    pub(crate) fn error(&self) -> String {
        let response = self.response();
        let error = response.get("error").and_then(Json::as_str);
        error.unwrap_or_else(|| panic!("{response:?}")).to_owned()
    }

    /// The names of the tools that the model was told of first.
    pub(crate) fn tools(&self) -> Vec<String> {
        let declared = self.requests[0].config.tools.iter().flatten();
        let declared = declared.flat_map(|tool| tool.function_declarations.iter().flatten());
        declared.filter_map(|it| it.name.clone()).collect()
    }
}

/// Whether there is a process of this id that is not only waited for.
pub(crate) fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

pub(crate) async fn ends(pid: &str) {
    let ended = async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(LONG, ended).await;
    assert!(ended.is_ok(), "process {pid} is still there");
}

/// Waits until a child process is gone, and not only dying: it may read as long as it has threads.
pub(crate) async fn gone(pid: &str) {
    let process = Path::new("/proc").join(pid);
    let gone = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let gone = tokio::time::timeout(LONG, gone).await;
    assert!(gone.is_ok(), "process {pid} is still there");
}
