//! Servers as child processes: started, killed, restarted, and never left running.

use std::{path::Path, sync::Arc, time::Duration};

use retain_mcp::{McpToolset, StdioServer};
use retain_runtime::Toolset as _;

use crate::{
    server::{noted, notes},
    support::{LONG, Turn, child_process, is_alive, wait_until_ended, wait_until_reaped},
};

fn toolset(folder: &Path) -> Arc<McpToolset> {
    Arc::new(McpToolset::new(child_process(folder)))
}

/// The process id of the last server.
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

fn servers(folder: &Path) -> usize {
    let notes = notes(folder);
    notes.iter().filter(|note| note.starts_with("pid ")).count()
}

#[tokio::test]
async fn server_process_ends_with_its_toolset() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let text = Turn::calling(&set, "echo", r#"{"text":"hello"}"#)
        .await
        .text();
    assert_eq!(text, "hello");
    let started = Turn::calling(&set, "child", "{}").await.text();
    let server = pid(folder.path());
    assert_eq!(servers(folder.path()), 1);
    assert!(is_alive(&server) && is_alive(&started));
    set.close().await;
    // Closing also ends the processes that the server started.
    assert!(!is_alive(&server));
    wait_until_ended(&started).await;
    assert!(notes(folder.path()).contains(&"ended by itself".to_owned()));
    // A closed toolset can be used again.
    let text = Turn::calling(&set, "echo", r#"{"text":"again"}"#)
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
    let started = runtime.block_on(async { Turn::calling(&set, "child", "{}").await.text() });
    let server = pid(folder.path());
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        wait_until_ended(&server).await;
        wait_until_ended(&started).await;
    });
}

/// The variable that makes this process exit at once. Its value is the folder for the process's
/// notes.
const ENDS_AT_ONCE: &str = "RETAIN_MCP_TEST_ENDS_AT_ONCE";

/// Not a test: a program that exits without closing its toolsets.
#[tokio::test]
async fn exit_without_closing() {
    let Some(folder) = std::env::var_os(ENDS_AT_ONCE) else {
        return;
    };
    let folder = Path::new(&folder);
    let set = toolset(folder);
    let started = Turn::calling(&set, "child", "{}").await.text();
    std::fs::write(folder.join("started"), started).unwrap();
    retain_mcp::exit_at_once(130);
}

#[tokio::test]
async fn exit_at_once_leaves_no_child_process() {
    let folder = retain_testkit::scratch::folder();
    let program = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stdio::exit_without_closing", "--nocapture"])
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
        let turn = Turn::calling(&set, "echo", r#"{"text":"hello"}"#).await;
        assert_eq!(turn.text(), "hello", "round {round}");
        assert_eq!(servers(folder.path()), round);
        let server = pid(folder.path());
        kill(&server);
        wait_until_reaped(&server).await;
    }
    let calls = notes(folder.path());
    let calls = calls.iter().filter(|note| *note == "call echo").count();
    assert_eq!(calls, 5);
}

/// A child process of the server keeps the output open after the server dies.
#[tokio::test]
async fn killed_server_is_detected_while_its_output_stays_open() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let started = Turn::calling(&set, "child", "{}").await.text();
    let server = pid(folder.path());
    kill(&server);
    let turn = Turn::calling(&set, "echo", r#"{"text":"hello"}"#);
    let turn = tokio::time::timeout(LONG / 2, turn).await;
    assert_eq!(turn.expect("a server that answers").text(), "hello");
    assert_eq!(servers(folder.path()), 2);
    // No process of the first server is left.
    wait_until_ended(&started).await;
}

/// A server that initializes, lists one tool, closes its input and stays alive. The second server
/// of a folder works normally.
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
async fn unsent_call_is_retried_once() {
    let folder = retain_testkit::scratch::folder();
    let itself = std::env::current_exe().unwrap();
    let server = StdioServer::new("sh")
        .with_args(["-c", DEAF, itself.to_str().unwrap()])
        .with_env(crate::server::FOLDER, folder.path().to_str().unwrap())
        .with_cwd(folder.path())
        .with_timeout(LONG);
    let set = Arc::new(McpToolset::new(server));
    let turn = Turn::calling(&set, "echo", r#"{"text":"heard"}"#).await;
    assert_eq!(turn.text(), "heard");
    assert_eq!(turn.tools(), ["echo"]);
    let notes = notes(folder.path());
    let calls = notes.iter().filter(|note| *note == "call echo").count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn sent_call_is_not_retried() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let turn = Turn::calling(&set, "die", "{}").await;
    let expected = "Unexpected error during MCP tool execution: Connection closed";
    assert_eq!(turn.error(), expected);
    let deaths = notes(folder.path());
    let deaths = deaths.iter().filter(|note| *note == "call die").count();
    assert_eq!(deaths, 1);
    // The next call starts a new server.
    let turn = Turn::calling(&set, "echo", r#"{"text":"still here"}"#).await;
    assert_eq!(turn.text(), "still here");
    assert_eq!(servers(folder.path()), 2);
}

#[tokio::test]
async fn slow_call_times_out_and_is_cancelled() {
    let folder = retain_testkit::scratch::folder();
    let server = child_process(folder.path()).with_call_timeout(Duration::from_secs(2));
    let set = Arc::new(McpToolset::new(server));
    let turn = Turn::calling(&set, "hang", "{}").await;
    let expected = "MCP tool execution failed: Request 'tools/call' timed out";
    assert_eq!(turn.error(), expected);
    noted(folder.path(), "cancelled").await;
    // The session still works.
    let turn = Turn::calling(&set, "echo", r#"{"text":"x"}"#).await;
    assert_eq!(turn.text(), "x");
    assert_eq!(servers(folder.path()), 1);
}

#[tokio::test]
async fn call_of_a_dropped_caller_is_cancelled() {
    let folder = retain_testkit::scratch::folder();
    let set = toolset(folder.path());
    let turn = Turn::calling(&set, "hang", "{}");
    tokio::select! {
        _ = turn => panic!("it hangs"),
        () = noted(folder.path(), "call hang") => {}
    }
    noted(folder.path(), "cancelled").await;
    let turn = Turn::calling(&set, "echo", r#"{"text":"x"}"#).await;
    assert_eq!(turn.text(), "x");
    assert_eq!(servers(folder.path()), 1);
}

#[tokio::test]
async fn server_process_inherits_few_environment_variables() {
    let folder = retain_testkit::scratch::folder();
    let server = child_process(folder.path()).with_env("OF_ITS_OWN", "1");
    let set = Arc::new(McpToolset::new(server));
    let turn = Turn::calling(&set, "environment", "{}").await;
    let inherited = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
    let given = ["OF_ITS_OWN", crate::server::FOLDER];
    for name in turn.text().split(' ') {
        let is_expected = inherited.contains(&name) || given.contains(&name);
        assert!(is_expected, "{name} is in its environment");
    }
    assert!(turn.text().contains("OF_ITS_OWN"));
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
        let turn = tokio::time::timeout(LONG, Turn::of(&set, model))
            .await
            .unwrap();
        assert_eq!(turn.tools(), Vec::<String>::new(), "{server:?}");
        let last = turn.events.last().unwrap().response.content.clone();
        assert_eq!(last.unwrap().text_concat(), "Done.", "{server:?}");
    }
}
