//! Tests with the reference server: every kind of tool result, a killed and restarted server, a
//! slow call, and closing the runner.

use std::{
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

/// The reference server over HTTP. It is killed when this value is dropped.
struct HttpReferenceServer {
    port: u16,
    child: Child,
}

impl HttpReferenceServer {
    /// Starts on any free port. Tries again if another process takes the port before the server
    /// binds it.
    async fn on_free_port() -> HttpReferenceServer {
        loop {
            let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            if let Some(server) = HttpReferenceServer::start(port).await {
                return server;
            }
        }
    }

    /// Starts on the port of a server that has ended.
    async fn on_port(port: u16) -> HttpReferenceServer {
        HttpReferenceServer::start(port)
            .await
            .expect("the port is free")
    }

    /// Starts on this port; `None` if another process uses it.
    async fn start(port: u16) -> Option<HttpReferenceServer> {
        let child = Command::new("node")
            .args([&everything(), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = HttpReferenceServer { port, child };
        // The server claims to listen even if the port is in use, so look for its socket.
        let listens = async {
            while !is_listening(server.child.id(), port) {
                if server.child.try_wait().unwrap().is_some() {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            true
        };
        let listens = tokio::time::timeout(Duration::from_secs(60), listens).await;
        listens.unwrap().then_some(server)
    }

    fn params(&self) -> String {
        let port = self.port;
        format!(r#"{{"url":"http://127.0.0.1:{port}/mcp","timeout":60}}"#)
    }
}

impl Drop for HttpReferenceServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this process listens on this port of the machine.
fn is_listening(process: u32, port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let tables = tables.map(Result::unwrap_or_default).concat();
    let sockets = tables.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        // The local address, the state (0A means that the socket listens) and the inode.
        let is_listener = columns.get(1)?.ends_with(&format!(":{port:04X}"));
        let is_listener = is_listener && *columns.get(3)? == "0A";
        is_listener.then(|| format!("socket:[{}]", columns.get(9).unwrap_or(&"")))
    });
    let sockets: Vec<String> = sockets.collect();
    let files = std::fs::read_dir(format!("/proc/{process}/fd"));
    let mut files = files.into_iter().flatten().flatten();
    files.any(|file| {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        sockets.iter().any(|socket| target == Path::new(socket))
    })
}

/// An argument that the server ignores. It identifies the process of the server.
const MARK: &str = "to-be-killed";

/// Returns the ids of this process's child processes that have the argument `MARK`.
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
    let server = HttpReferenceServer::on_free_port().await;
    let params = server.params();
    let args = format!(r#"{{"streamable_http_connection_params":{params}}}"#);
    let caller = Caller::new(&args);
    let ours = caller.run(&CALLS).await;
    caller.close().await;
    let googles = google_results(&format!(r#""http":{params}"#), &CALLS);
    compare("everything over HTTP", &CALLS, &ours, &googles);
}

const ECHO: (&str, &str) = ("echo", r#"{"message":"hi"}"#);

/// Calls `echo` and checks its answer.
async fn assert_echo(caller: &Caller) {
    let results = caller.run(&[ECHO]).await;
    let answers = results.answers;
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
        panic!("expected one server process");
    };
    let kill = Command::new("kill").args(["-9", killed]).status();
    assert!(kill.unwrap().success());
    // Wait until the process has ended. Until then it might read a call, and a delivered call is
    // not retried.
    let process = Path::new("/proc").join(killed);
    let ended = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended)
        .await
        .unwrap();
    // The tool list is cached, so the call itself detects that the server has ended.
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
    // Each toolset waits for the timeout, so run them concurrently.
    let googles = tokio::task::spawn_blocking(move || google_results(&connection, &[slow]));
    let results = caller.run(&[slow, ECHO]).await;
    assert_eq!(results.declared.len(), 2);
    let late = "MCP tool execution failed: Request 'tools/call' timed out";
    assert_eq!(results.answers[0]["error"], late);
    assert_eq!(results.answers[1]["content"][0]["text"], "Echo: hi");
    caller.close().await;
    let googles = googles.await.unwrap();
    assert_eq!(googles.answers[0]["error"], late);
}

#[tokio::test]
async fn toolset_reconnects_after_the_http_server_is_killed_and_restarted() {
    if !is_installed("toolset_reconnects_after_the_http_server_is_killed_and_restarted") {
        return;
    }
    let server = HttpReferenceServer::on_free_port().await;
    let port = server.port;
    let args = format!(
        r#"{{"streamable_http_connection_params":{},"tool_list_cache_ttl_seconds":600}}"#,
        server.params()
    );
    let caller = Caller::new(&args);
    assert_echo(&caller).await;
    drop(server);
    let results = caller.run(&[ECHO]).await;
    let error = results.answers[0]["error"].as_str().unwrap();
    let lead = "Unexpected error during MCP tool execution: Failed to create MCP session";
    assert!(error.starts_with(lead), "{error}");
    let server = HttpReferenceServer::on_port(port).await;
    assert_echo(&caller).await;
    // The restarted server does not know the session, and answers with status 400 and its own
    // error.
    drop(server);
    let _server = HttpReferenceServer::on_port(port).await;
    assert_echo(&caller).await;
    caller.close().await;
}
