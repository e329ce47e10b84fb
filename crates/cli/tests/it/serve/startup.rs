//! The server prints commands that work, loads the agents of a folder and logs no message content.

use std::{io::Write as _, process::Command};

use super::process::{Answer, Server, run_request, serve};
use crate::skip;

#[test]
fn printed_commands_run_in_a_shell() {
    let folder = retain_testkit::scratch::folder();
    let server = Server::with(folder.path(), &[]);
    let printed = server.announced.join("\n");
    assert!(printed.contains(".retain/retain.db"), "{printed}");
    assert!(printed.contains("offline"), "{printed}");
    let lines = server.announced.iter().map(|line| line.trim());
    let lines: Vec<&str> = lines.filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 2, "{printed}");
    if Command::new("curl").arg("--version").output().is_err() {
        return skip("printed_commands_run_in_a_shell", "curl is not installed");
    }
    let run_in_shell = |line: &str| {
        let ran = Command::new("sh").args(["-c", line]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(
        run_in_shell(lines[0]).contains("Noted"),
        "{}",
        run_in_shell(lines[0])
    );
    let answer = run_in_shell(lines[1]);
    assert!(answer.contains("You told me"), "{answer}");
    assert!(answer.contains("Earl Grey"), "{answer}");
}

#[test]
fn assistant_remembers_after_a_restart() {
    let folder = retain_testkit::scratch::folder();
    let server = Server::with(folder.path(), &[]);
    let answer = server.post(
        "/run",
        &run_request("monday", "My favorite tea is Earl Grey."),
    );
    assert_eq!(answer.status, 200, "{}", answer.text);
    // Stop immediately: shutdown must not lose what a run ingests.
    assert!(server.stop().status.success());
    let server = Server::with(folder.path(), &[]);
    let answer = server.post("/run", &run_request("friday", "What is my favorite tea?"));
    assert!(answer.text.contains("Earl Grey"), "{}", answer.text);
}

#[test]
fn agent_with_unknown_model_is_listed_and_fails_with_the_reason() {
    let folder = retain_testkit::scratch::folder();
    for (app, model) in [("known", "offline"), ("unknown", "martian-9-ultra")] {
        let agents = folder.path().join("agents").join(app);
        std::fs::create_dir_all(&agents).unwrap();
        let yaml = format!("name: {app}\nmodel: {model}\ninstruction: Answer.\n");
        std::fs::write(agents.join("root_agent.yaml"), yaml).unwrap();
    }
    let arguments = [
        "agents",
        "--auto_create_session",
        "--session_service_uri",
        "memory://",
    ];
    let server = Server::with(folder.path(), &arguments);
    assert!(
        server.announced.join("\n").contains("known, unknown"),
        "{:?}",
        server.announced
    );
    assert!(
        server
            .get("/list-apps")
            .text
            .ends_with(r#"["known","unknown"]"#)
    );
    let message_to = |app: &str| run_request("s", "Hello.").replace("assistant", app);
    assert_eq!(server.post("/run", &message_to("known")).status, 200);
    let refused = server.post("/run", &message_to("unknown"));
    assert_eq!(refused.status, 500, "{}", refused.text);
    let log = server.stop().stderr;
    assert!(log.contains("martian-9-ultra"), "{log}");
    assert!(!folder.path().join(".retain").exists());
}

#[test]
fn loopback_address_is_recognized_in_any_spelling() {
    let folder = retain_testkit::scratch::folder();
    for host in ["127.0.0.1", "127.1", "localhost"] {
        let server = Server::with(folder.path(), &["--host", host]);
        let status = |name: &str| {
            let mut socket = server.connect();
            let asked =
                format!("GET /list-apps HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
            socket.write_all(asked.as_bytes()).unwrap();
            Answer::read(&mut socket).status
        };
        // A foreign host name that resolves to this machine.
        assert_eq!(status("evil.example"), 403, "{host}");
        assert_eq!(status(&format!("{host}:8000")), 200, "{host}");
        assert_eq!(status("127.0.0.1"), 200, "{host}");
    }
}

#[test]
fn log_contains_requests_but_no_message_content() {
    let folder = retain_testkit::scratch::folder();
    let arguments = ["--log_format", "json", "--log_level", "DEBUG"];
    let server = Server::with(folder.path(), &arguments);
    let id = "X-Request-Id: from-the-client\r\n";
    let body = run_request("private-session", "Earl Grey is my secret.");
    let answer = server.ask("POST", "/run", id, &body);
    assert_eq!(answer.status, 200);
    assert!(
        answer.text.contains("x-request-id: from-the-client\r\n"),
        "{}",
        answer.text
    );
    let log = server.stop().stderr;
    for word in ["Earl Grey", "private-session"] {
        assert!(!log.contains(word), "{word}: {log}");
    }
    // Compare whole words, because a random id may contain `ada`.
    let mut words = log.split(|c: char| !c.is_ascii_alphanumeric());
    assert!(words.all(|word| word != "ada"), "{log}");
    let lines: Vec<serde_json::Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ours = lines
        .iter()
        .find(|line| line["span"]["id"] == "from-the-client");
    let ours = ours.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(ours["route"], "/run");
    assert_eq!(ours["status"], 200);
}

#[test]
fn each_service_stores_data_at_its_configured_uri() {
    let folder = retain_testkit::scratch::folder();
    let files = folder.path().join("files");
    let artifacts = format!("file://{}", files.display());
    let arguments = [
        "--session-service-uri",
        "sqlite:///sessions.db",
        "--memory-service-uri",
        "sqlite:///memory.db",
        "--artifact-service-uri",
        &artifacts,
    ];
    let server = Server::with(folder.path(), &arguments);
    let answer = server.post("/run", &run_request("s1", "My favorite tea is Earl Grey."));
    assert_eq!(answer.status, 200);
    let path = "/api/v1/apps/assistant/users/ada/sessions/s1/artifacts";
    let saved = server.post(path, r#"{"filename":"a.txt","artifact":{"text":"hello"}}"#);
    assert!(saved.status < 300, "{}", saved.text);
    assert!(server.stop().status.success());
    let count = |file: &str, table: &str| {
        let connection = rusqlite::Connection::open(folder.path().join(file)).unwrap();
        let sql = format!("SELECT count(*) FROM {table}");
        connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(count("sessions.db", "memories"), 0);
    assert!(count("sessions.db", "events") >= 2);
    assert!(count("memory.db", "memories") >= 1);
    assert_eq!(count("sessions.db", "artifacts"), 0);
    assert!(std::fs::read_dir(&files).unwrap().next().is_some());

    let mut unknown = serve(folder.path(), &["--session-service-uri", "mysql://x"]);
    let refused = unknown.output().unwrap();
    assert!(!refused.status.success());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("memory://"), "{message}");
}
