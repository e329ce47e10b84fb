//! The reference server: it gives every kind of answer, is killed and restarted, is slow, and ends
//! with the runner.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::real::{
    agent::Caller,
    differential::{compare, google_results},
    everything, is_installed,
};

const CALLS: [(&str, &str); 10] = [
    ("echo", r#"{"message":"grüß dich"}"#),
    ("get-sum", r#"{"a":1,"b":2.5}"#),
    ("get-sum", r#"{"a":1}"#),
    ("get-tiny-image", "{}"),
    ("get-structured-content", r#"{"location":"Chicago"}"#),
    ("get-structured-content", r#"{"location":"Atlantis"}"#),
    (
        "get-annotated-message",
        r#"{"messageType":"success","includeImage":true}"#,
    ),
    (
        "get-annotated-message",
        r#"{"messageType":"error","includeImage":false}"#,
    ),
    ("get-resource-links", r#"{"count":3}"#),
    ("get-resource-reference", r#"{"resourceType":"Nothing"}"#),
];

fn stdio(timeout: f64) -> String {
    let file = everything();
    format!(
        r#"{{"server_params":{{"command":"node","args":[{file:?},"stdio"]}},"timeout":{timeout:?}}}"#
    )
}

/// The server over HTTP; it ends with the test.
struct OverHttp {
    port: u16,
    child: Child,
}

impl OverHttp {
    /// Start on any port. A port that is free now may be in use when the server binds it.
    async fn on_free_port() -> OverHttp {
        loop {
            let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            if let Some(server) = OverHttp::start(port).await {
                return server;
            }
        }
    }

    /// Start on the port of a server that has ended.
    async fn on_port(port: u16) -> OverHttp {
        OverHttp::start(port).await.expect("the port is free")
    }

    /// `None` if another process has the port.
    async fn start(port: u16) -> Option<OverHttp> {
        let child = Command::new("node")
            .args([&everything(), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = OverHttp { port, child };
        let stderr = server.child.stderr.take().unwrap();
        let (says, mut said) = tokio::sync::mpsc::unbounded_channel();
        // Read to the end, even without a receiver; otherwise the server would block.
        std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            lines.for_each(|line| drop(says.send(line)));
        });
        let listens = async {
            while let Some(line) = said.recv().await {
                if line.contains("listening on port") {
                    return true;
                }
            }
            false
        };
        let listens = tokio::time::timeout(Duration::from_secs(60), listens).await;
        // The server prints this even if the port is in use, followed at once by the error.
        let more = tokio::time::timeout(Duration::from_millis(500), said.recv()).await;
        (listens.unwrap() && more.is_err()).then_some(server)
    }

    fn params(&self) -> String {
        let port = self.port;
        format!(r#"{{"url":"http://127.0.0.1:{port}/mcp","timeout":60}}"#)
    }
}

impl Drop for OverHttp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An argument that the server ignores and that identifies its process.
const MARK: &str = "to-be-killed";

/// The child processes of this process that have the mark.
fn child_processes() -> Vec<String> {
    let ours = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|it| it.file_name().into_string().ok());
    let is_marked = |id: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let is_ours = after_name.split(' ').nth(1) == Some(&ours) && !after_name.starts_with('Z');
        is_ours && line.contains(MARK)
    };
    ids.filter(is_marked).collect()
}

#[tokio::test]
async fn results_over_stdio_match_adk() {
    if !is_installed("results_over_stdio_match_adk") {
        return;
    }
    let params = stdio(60.0);
    let caller = Caller::new(&format!(r#"{{"stdio_connection_params":{params}}}"#));
    let ours = caller.run(&CALLS).await;
    caller.close().await;
    let googles = google_results(&format!(r#""stdio":{params}"#), &CALLS);
    compare("everything over stdio", &CALLS, &ours, &googles);
}

#[tokio::test]
async fn results_over_http_match_adk() {
    if !is_installed("results_over_http_match_adk") {
        return;
    }
    let server = OverHttp::on_free_port().await;
    let params = server.params();
    let args = format!(r#"{{"streamable_http_connection_params":{params}}}"#);
    let caller = Caller::new(&args);
    let ours = caller.run(&CALLS).await;
    caller.close().await;
    let googles = google_results(&format!(r#""http":{params}"#), &CALLS);
    compare("everything over HTTP", &CALLS, &ours, &googles);
}

const ECHO: (&str, &str) = ("echo", r#"{"message":"hi"}"#);

/// Call `echo` and check its answer.
async fn assert_echo(caller: &Caller) {
    let told = caller.run(&[ECHO]).await;
    let answers = told.answers;
    assert_eq!(answers[0]["content"][0]["text"], "Echo: hi", "{answers:?}");
}

#[tokio::test]
async fn killed_child_process_is_restarted_and_close_leaves_none() {
    if !is_installed("killed_child_process_is_restarted_and_close_leaves_none") {
        return;
    }
    // Mark the server, so that servers of other tests are not killed.
    let file = everything();
    let args = format!(
        r#"{{"stdio_connection_params":{{"server_params":{{"command":"node","args":[{file:?},"stdio",
            "{MARK}"]}},"timeout":60}},"tool_list_cache_ttl_seconds":600}}"#
    );
    let caller = Caller::new(&args);
    assert_echo(&caller).await;
    let [killed] = &child_processes()[..] else {
        panic!("one server was expected");
    };
    let kill = Command::new("kill").args(["-9", killed]).status();
    assert!(kill.unwrap().success());
    // Wait until the process is gone: until then it may read a call, which would not be retried.
    let process = Path::new("/proc").join(killed);
    let gone = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .unwrap();
    // The tool list is cached: the call itself detects that the server is gone.
    assert_echo(&caller).await;
    let alive = child_processes();
    assert!(alive.len() == 1 && alive[0] != *killed, "{alive:?}");
    caller.close().await;
    assert_eq!(child_processes(), Vec::<String>::new());
}

#[tokio::test]
async fn slow_call_times_out_and_the_server_stays_usable() {
    if !is_installed("slow_call_times_out_and_the_server_stays_usable") {
        return;
    }
    const SLOW: &str = "trigger-long-running-operation";
    let params = stdio(15.0);
    let args = format!(r#"{{"stdio_connection_params":{params},"tool_filter":["echo","{SLOW}"]}}"#);
    let caller = Caller::new(&args);
    let slow = (SLOW, r#"{"duration":600,"steps":2}"#);
    let connection = format!(r#""stdio":{params}"#);
    // Both toolsets wait for the same timeout, so run them concurrently.
    let googles = tokio::task::spawn_blocking(move || google_results(&connection, &[slow]));
    let told = caller.run(&[slow, ECHO]).await;
    assert_eq!(told.declared.len(), 2);
    let late = "MCP tool execution failed: Request 'tools/call' timed out";
    assert_eq!(told.answers[0]["error"], late);
    assert_eq!(told.answers[1]["content"][0]["text"], "Echo: hi");
    caller.close().await;
    let googles = googles.await.unwrap();
    assert_eq!(googles.answers[0]["error"], late);
}

#[tokio::test]
async fn toolset_reconnects_after_the_http_server_is_killed_and_restarted() {
    if !is_installed("toolset_reconnects_after_the_http_server_is_killed_and_restarted") {
        return;
    }
    let server = OverHttp::on_free_port().await;
    let port = server.port;
    let args = format!(
        r#"{{"streamable_http_connection_params":{},"tool_list_cache_ttl_seconds":600}}"#,
        server.params()
    );
    let caller = Caller::new(&args);
    assert_echo(&caller).await;
    drop(server);
    let gone = caller.run(&[ECHO]).await;
    let error = gone.answers[0]["error"].as_str().unwrap();
    let lead = "Unexpected error during MCP tool execution: Failed to create MCP session";
    assert!(error.starts_with(lead), "{error}");
    let server = OverHttp::on_port(port).await;
    assert_echo(&caller).await;
    // A restarted server has lost its sessions, which it reports with status 400 and its own error.
    drop(server);
    let _server = OverHttp::on_port(port).await;
    assert_echo(&caller).await;
    caller.close().await;
}
