//! Servers as child processes: the toolset starts them, restarts them after they die, and always
//! ends them.

use std::{path::Path, sync::Arc, time::Duration};

use retain_mcp::{McpToolset, StdioServer};
use retain_runtime::Toolset as _;

use crate::{
    server::{notes, wait_for_note},
    support::{AgentRun, LONG, child_process, is_alive, wait_until_ended, wait_until_reaped},
};

fn toolset(folder: &Path) -> Arc<McpToolset> {
    Arc::new(McpToolset::new(child_process(folder)))
}

/// Returns the process id of the server that was started last.
fn pid(folder: &Path) -> String {
    let notes = notes(folder);
    let mut pids = notes.iter().filter_map(|note| note.strip_prefix("pid "));
    pids.next_back().unwrap().to_owned()
}

fn kill(pid: &str) {
    let killed = std::process::Command::new("kill")
        .args(["-9", pid])
        .status();
    assert!(killed.unwrap().success());
}

fn server_count(folder: &Path) -> usize {
    let notes = notes(folder);
    notes.iter().filter(|note| note.starts_with("pid ")).count()
}

#[tokio::test]
async fn server_process_ends_with_its_toolset() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let text = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#)
        .await
        .text();
    assert_eq!(text, "hello");
    let started = AgentRun::calling_tool(&set, "child", "{}").await.text();
    let server = pid(folder.path());
    assert_eq!(server_count(folder.path()), 1);
    assert!(is_alive(&server) && is_alive(&started));
    set.close().await;
    // Closing also ends the processes that the server started.
    assert!(!is_alive(&server));
    wait_until_ended(&started).await;
    assert!(notes(folder.path()).contains(&"ended by itself".to_owned()));
    // A closed toolset can be used again.
    let text = AgentRun::calling_tool(&set, "echo", r#"{"text":"again"}"#)
        .await
        .text();
    assert_eq!(text, "again");
    let server = pid(folder.path());
    assert!(is_alive(&server));
    drop(set);
    wait_until_ended(&server).await;
}

#[test]
fn server_process_ends_when_the_runtime_is_dropped() {
    let folder = retain_testkit::scratch::folder();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let set = toolset(folder.path());
    let started =
        runtime.block_on(async { AgentRun::calling_tool(&set, "child", "{}").await.text() });
    let server = pid(folder.path());
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        wait_until_ended(&server).await;
        wait_until_ended(&started).await;
    });
}

/// The environment variable with the server's folder, for the test that runs as a child process. If
/// it is unset, that test does nothing.
const ENDS_AT_ONCE: &str = "RETAIN_MCP_TEST_ENDS_AT_ONCE";

/// Not a test: `exit_at_once_leaves_no_child_process` runs it as a program that exits without
/// closing its toolsets.
#[tokio::test]
async fn child_process_exits_without_closing_toolsets() {
    let Some(folder) = std::env::var_os(ENDS_AT_ONCE) else {
        return;
    };
    let folder = Path::new(&folder);
    let set = toolset(folder);
    let started = AgentRun::calling_tool(&set, "child", "{}").await.text();
    std::fs::write(folder.join("started"), started).unwrap();
    retain_mcp::exit_at_once(130);
}

#[tokio::test]
async fn exit_at_once_leaves_no_child_process() {
    let folder = retain_testkit::scratch::folder();
    let program = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "stdio::child_process_exits_without_closing_toolsets",
            "--nocapture",
        ])
        .env(ENDS_AT_ONCE, folder.path())
        .output()
        .unwrap();
    assert_eq!(program.status.code(), Some(130), "{program:?}");
    let started = std::fs::read_to_string(folder.path().join("started")).unwrap();
    wait_until_ended(&started).await;
    wait_until_ended(&pid(folder.path())).await;
}

#[tokio::test]
async fn killed_server_is_restarted_for_the_next_call() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    for round in 1..=5 {
        let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
        assert_eq!(run.text(), "hello", "round {round}");
        assert_eq!(server_count(folder.path()), round);
        let server = pid(folder.path());
        kill(&server);
        wait_until_reaped(&server).await;
    }
    let calls = notes(folder.path());
    let calls = calls.iter().filter(|note| *note == "call echo").count();
    assert_eq!(calls, 5);
}

/// A child process of the server keeps the server's output open after the server dies.
#[tokio::test]
async fn killed_server_is_detected_while_its_output_stays_open() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let started = AgentRun::calling_tool(&set, "child", "{}").await.text();
    let server = pid(folder.path());
    kill(&server);
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#);
    let run = tokio::time::timeout(LONG / 2, run).await;
    assert_eq!(run.expect("a server that answers").text(), "hello");
    assert_eq!(server_count(folder.path()), 2);
    // The process that the first server started has ended too.
    wait_until_ended(&started).await;
}

/// A server that closes its input after listing its tools, so that a call cannot be written. The
/// second server in the same folder works normally.
const DEAF: &str = r#"
if [ -e second ]; then exec "$0" --exact server::serve_as_a_child_process --nocapture; fi
touch second
answer() {
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"
}
read -r line
answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
read -r line
read -r line
exec 0<&-
answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
sleep 600
"#;

#[tokio::test]
async fn undelivered_call_is_retried_once() {
    let folder = retain_testkit::scratch::folder();
    let executable = std::env::current_exe().unwrap();
    let server = StdioServer::new("sh")
        .with_args(["-c", DEAF, executable.to_str().unwrap()])
        .with_env(crate::server::FOLDER, folder.path().to_str().unwrap())
        .with_cwd(folder.path())
        .with_timeout(LONG);
    let set = Arc::new(McpToolset::new(server));
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"delivered"}"#).await;
    assert_eq!(run.text(), "delivered");
    assert_eq!(run.tools(), ["echo"]);
    let notes = notes(folder.path());
    let calls = notes.iter().filter(|note| *note == "call echo").count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn delivered_call_is_not_retried() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let run = AgentRun::calling_tool(&set, "die", "{}").await;
    let expected = "Unexpected error during MCP tool execution: Connection closed";
    assert_eq!(run.error(), expected);
    let deaths = notes(folder.path());
    let deaths = deaths.iter().filter(|note| *note == "call die").count();
    assert_eq!(deaths, 1);
    // The next call starts a new server.
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"still here"}"#).await;
    assert_eq!(run.text(), "still here");
    assert_eq!(server_count(folder.path()), 2);
}

#[tokio::test]
async fn slow_call_times_out_and_is_cancelled() {
    let folder = retain_testkit::scratch::folder();
    let server = child_process(folder.path()).with_call_timeout(Duration::from_secs(2));
    let set = Arc::new(McpToolset::new(server));
    let run = AgentRun::calling_tool(&set, "hang", "{}").await;
    let expected = "MCP tool execution failed: Request 'tools/call' timed out";
    assert_eq!(run.error(), expected);
    wait_for_note(folder.path(), "cancelled").await;
    // The session still works.
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    assert_eq!(run.text(), "x");
    assert_eq!(server_count(folder.path()), 1);
}

#[tokio::test]
async fn call_is_cancelled_when_its_run_is_dropped() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let run = AgentRun::calling_tool(&set, "hang", "{}");
    tokio::select! {
        _ = run => panic!("the call must not return"),
        () = wait_for_note(folder.path(), "call hang") => {}
    }
    wait_for_note(folder.path(), "cancelled").await;
    let run = AgentRun::calling_tool(&set, "echo", r#"{"text":"x"}"#).await;
    assert_eq!(run.text(), "x");
    assert_eq!(server_count(folder.path()), 1);
}

#[tokio::test]
async fn server_process_inherits_few_environment_variables() {
    let folder = retain_testkit::scratch::folder();
    let server = child_process(folder.path()).with_env("OWN_VARIABLE", "1");
    let set = Arc::new(McpToolset::new(server));
    let run = AgentRun::calling_tool(&set, "environment", "{}").await;
    let inherited = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
    let given = ["OWN_VARIABLE", crate::server::FOLDER];
    for name in run.text().split(' ') {
        let is_expected = inherited.contains(&name) || given.contains(&name);
        assert!(is_expected, "the environment contains {name}");
    }
    assert!(run.text().contains("OWN_VARIABLE"));
}

#[tokio::test]
async fn agent_runs_without_tools_of_an_unreachable_server() {
    for server in [
        StdioServer::new("retain-no-such-program"),
        StdioServer::new("false"),
        StdioServer::new("sleep")
            .with_args(["600"])
            .with_timeout(Duration::from_millis(100)),
        StdioServer::new("cat").with_cwd("/no/such/folder"),
    ] {
        let set = Arc::new(McpToolset::new(server.clone()));
        let model = retain_runtime::ScriptedModel::new("m").otherwise(|_| "Done.");
        let run = tokio::time::timeout(LONG, AgentRun::with_model(&set, model))
            .await
            .unwrap();
        assert_eq!(run.tools(), Vec::<String>::new(), "{server:?}");
        let last = run.events.last().unwrap().response.content.clone();
        assert_eq!(last.unwrap().text_concat(), "Done.", "{server:?}");
    }
}
