//! MCP child processes start on first use, stop when `retain serve` stops, and receive none of its
//! secrets.

use std::{path::Path, process::Command};

use super::process::{Server, run_request, serve};
use crate::skip;

/// A server that uses only Python's standard library.
const SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../mcp/tests/it/real/odd_server.py"
);

/// Writes the configuration of an agent whose MCP server writes its process id and its environment
/// to files.
fn write_agent(folder: &Path) {
    let agent = folder.join("agents/clerk");
    std::fs::create_dir_all(&agent).unwrap();
    let script = format!("echo $$ > pid; env > environment; exec python3 '{SERVER}'");
    let yaml = format!(
        "name: clerk\nmodel: offline\ninstruction: Answer.\ntools:\n  - name: McpToolset\n    args:\n      \
         stdio_connection_params:\n        timeout: 60\n        server_params:\n          command: sh\n          \
         args: [-c, {script:?}]\n          cwd: {folder:?}\n          env: {{MINE: canary-given}}\n"
    );
    std::fs::write(agent.join("root_agent.yaml"), yaml).unwrap();
}

fn command(folder: &Path) -> Command {
    let arguments = [
        "agents",
        "--auto_create_session",
        "--session_service_uri",
        "memory://",
    ];
    let mut command = serve(folder, &arguments);
    command
        .env_remove("ADK_ALLOW_CONFIG_STDIO_MCP_SERVERS")
        .env("OPENAI_API_KEY", "canary-key");
    command
}

fn message_to_clerk(text: &str) -> String {
    run_request("s", text).replace("assistant", "clerk")
}

#[test]
fn mcp_child_process_starts_on_first_use_and_stops_with_the_server() {
    let name = "mcp_child_process_starts_on_first_use_and_stops_with_the_server";
    if Command::new("python3").arg("--version").output().is_err() {
        return skip(name, "python3 is not installed");
    }
    let folder = retain_testkit::scratch::folder();
    write_agent(folder.path());
    let server = Server::start(command(folder.path()));
    let pid = folder.path().join("pid");
    assert!(!pid.exists());
    let answer = server.post("/run", &message_to_clerk("Hello."));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let pid = std::fs::read_to_string(pid).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists());
    let environment = std::fs::read_to_string(folder.path().join("environment")).unwrap();
    assert!(environment.contains("MINE=canary-given"));
    assert!(!environment.contains("canary-key"));
    let ended = server.stop();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!process.exists(), "{}", ended.stderr);
    let log = ended.stderr;
    for word in ["canary", "Answers plain", "odd"] {
        assert!(!log.contains(word), "{word} is in the log: {log}");
    }
}

#[test]
fn mcp_child_process_is_refused_when_the_variable_disables_it() {
    let folder = retain_testkit::scratch::folder();
    write_agent(folder.path());
    let mut command = command(folder.path());
    command.env("ADK_ALLOW_CONFIG_STDIO_MCP_SERVERS", "0");
    let server = Server::start(command);
    let answer = server.post("/run", &message_to_clerk("Hello."));
    assert_eq!(answer.status, 500, "{}", answer.text);
    assert!(!folder.path().join("pid").exists());
    let log = server.stop().stderr;
    assert!(log.contains("starts a program"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}
