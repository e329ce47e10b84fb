//! Options override the environment, then the file, then the documented defaults; invalid settings
//! are rejected.

use super::process::{Server, run_request, serve};

#[test]
fn options_override_the_environment_which_overrides_the_file() {
    let folder = retain_testkit::scratch::folder();
    let file = "host = \"127.0.0.3\"\nsession-service-uri = \"memory://\"\n";
    std::fs::write(folder.path().join("retain.toml"), file).unwrap();
    std::fs::write(folder.path().join("other.toml"), "host = \"127.0.0.4\"\n").unwrap();
    let host_of = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = serve(folder.path(), arguments);
        command.envs(environment.iter().copied());
        let server = Server::start(command);
        server.address.split(':').next().unwrap().to_owned()
    };
    let host = ("RETAIN_HOST", "127.0.0.2");
    assert_eq!(host_of(&["--host", "127.0.0.1"], &[host]), "127.0.0.1");
    assert_eq!(host_of(&[], &[host]), "127.0.0.2");
    assert_eq!(host_of(&[], &[]), "127.0.0.3");
    assert_eq!(host_of(&["--config", "other.toml"], &[]), "127.0.0.4");
    assert_eq!(
        host_of(&[], &[("RETAIN_CONFIG", "other.toml")]),
        "127.0.0.4"
    );
    std::fs::remove_file(folder.path().join("retain.toml")).unwrap();
    let volatile = ("RETAIN_SESSION_SERVICE_URI", "memory://");
    assert_eq!(host_of(&[], &[volatile]), "127.0.0.1");
}

#[test]
fn empty_variable_counts_as_unset() {
    let folder = retain_testkit::scratch::folder();
    let mut command = serve(folder.path(), &[]);
    for name in [
        "ADK_DEFAULT_APP_NAME",
        "RETAIN_AGENTS_DIR",
        "RETAIN_ALLOW_ORIGINS",
        "RETAIN_API_KEY",
        "RETAIN_CONFIG",
        "RETAIN_CONFORMANCE",
        "RETAIN_HOST",
        "RETAIN_LOG_FORMAT",
        "RETAIN_MAX_LLM_CALLS",
        "RETAIN_MAX_RUNS",
        "RETAIN_SESSION_SERVICE_URI",
        "RETAIN_SHUTDOWN_GRACE",
        "RETAIN_UI_DIR",
    ] {
        command.env(name, "");
    }
    let server = Server::start(command);
    assert!(
        server.address.starts_with("127.0.0.1:"),
        "{}",
        server.address
    );
    assert!(folder.path().join(".retain/retain.db").exists());
    let unnamed = run_request("s1", "Hello.").replace(r#""appName":"assistant","#, "");
    let answer = server.post("/run", &unnamed);
    assert_eq!(answer.status, 400, "{}", answer.text);
    assert!(
        answer.text.contains("ADK_DEFAULT_APP_NAME is not set"),
        "{}",
        answer.text
    );
}

fn error_of(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let folder = retain_testkit::scratch::folder();
    let mut command = serve(folder.path(), arguments);
    let ended = command.envs(environment.iter().copied()).output().unwrap();
    assert!(!ended.status.success(), "{arguments:?}");
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), "");
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn run_fails_when_it_exceeds_the_limit_of_model_calls() {
    let folder = retain_testkit::scratch::folder();
    let agents = folder.path().join("agents/twice");
    std::fs::create_dir_all(&agents).unwrap();
    let twice = "agent_class: SequentialAgent\nname: twice\nsub_agents:\n\
                 - config_path: first.yaml\n- config_path: second.yaml\n";
    std::fs::write(agents.join("root_agent.yaml"), twice).unwrap();
    for name in ["first", "second"] {
        let yaml = format!("name: {name}\nmodel: offline\ninstruction: Answer.\n");
        std::fs::write(agents.join(format!("{name}.yaml")), yaml).unwrap();
    }
    let message = run_request("s", "Hello.").replace("assistant", "twice");
    let answer_with = |limit: &[&str], path: &str| {
        let always = ["agents", "--auto_create_session", "--session_service_uri"];
        let line = [&always[..], &["memory://"], limit].concat();
        Server::with(folder.path(), &line).post(path, &message)
    };
    // As in ADK: a positive number is the limit, 0 or less disables it.
    for limit in [
        &[][..],
        &["--max-llm-calls", "2"],
        &["--max_llm_calls", "-1"],
    ] {
        let answer = answer_with(limit, "/run");
        assert_eq!(answer.status, 200, "{limit:?} {}", answer.text);
    }
    let one = ["--max_llm_calls", "1"];
    let ended = answer_with(&one, "/run");
    assert_eq!(ended.status, 500, "{}", ended.text);
    let streamed = answer_with(&one, "/run_sse");
    assert_eq!(streamed.status, 200, "{}", streamed.text);
    let (first, last) = streamed.text.rsplit_once("data: ").unwrap();
    assert!(first.contains(r#""author":"first""#), "{}", streamed.text);
    assert!(last.contains("LlmCallsLimitExceededError"), "{last}");
}

#[test]
fn server_accepts_the_options_of_adk() {
    let folder = retain_testkit::scratch::folder();
    for line in [
        "--with_ui --use_local_storage --reload --max_llm_calls 20 -v",
        "--no_use_local_storage --no-reload --log_level INFO --allow_origins https://a.example",
    ] {
        let line: Vec<&str> = line.split(' ').collect();
        let server = Server::with(folder.path(), &line);
        assert_eq!(server.get("/list-apps").status, 200, "{line:?}");
    }
}

#[test]
fn unsupported_adk_options_are_refused_with_an_alternative() {
    let message = error_of(&["--a2a", "--trigger_sources", "pubsub", "--with_ui"], &[]);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 2, "{message}");
    assert!(lines[0].starts_with("error: --a2a "), "{message}");
    assert!(lines[1].starts_with("--trigger_sources "), "{message}");
}

#[test]
fn non_loopback_address_requires_a_key() {
    for host in ["0.0.0.0", "::"] {
        let message = error_of(&["--host", host], &[]);
        assert!(message.contains("retain keys create"), "{message}");
        assert!(message.contains("RETAIN_API_KEY"), "{message}");
    }
    let folder = retain_testkit::scratch::folder();
    let mut command = serve(folder.path(), &["--host", "0.0.0.0"]);
    command.env("RETAIN_API_KEY", "a-key-of-sixteen-or-more");
    let server = Server::start(command);
    assert_eq!(server.get("/list-apps").status, 401);
    let key = "X-Api-Key: a-key-of-sixteen-or-more\r\n";
    assert_eq!(server.ask("GET", "/list-apps", key, "").status, 200);
}

#[test]
fn conformance_mode_is_refused_on_a_non_loopback_address() {
    let key = ("RETAIN_API_KEY", "a-key-of-sixteen-or-more");
    let message = error_of(&["--host", "0.0.0.0", "--conformance"], &[key]);
    assert!(message.contains("--conformance"), "{message}");
}

#[test]
fn only_configured_origins_are_allowed() {
    let folder = retain_testkit::scratch::folder();
    let origins = [
        "--allow_origins",
        "https://a.example",
        "--allow_origins",
        "regex:https://b.*",
    ];
    let server = Server::with(folder.path(), &origins);
    let from = |origin: &str| {
        let header = format!("Origin: {origin}\r\n");
        server.ask("GET", "/list-apps", &header, "")
    };
    assert_eq!(from("https://a.example").status, 200);
    assert!(
        from("https://b2")
            .text
            .contains("access-control-allow-origin: https://b2\r\n")
    );
    let refused = from("https://evil.example");
    assert_eq!(refused.status, 403);
    assert!(
        refused.text.ends_with("Forbidden: origin not allowed"),
        "{}",
        refused.text
    );
    let asked = "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n";
    let preflight = server.ask("OPTIONS", "/run", asked, "");
    assert_eq!(preflight.status, 200, "{}", preflight.text);
    let rebound = server.connect_as("evil.example");
    assert!(
        rebound.text.ends_with("Forbidden: host not allowed"),
        "{}",
        rebound.text
    );
}

impl Server {
    /// Sends a request with another host name for this machine.
    fn connect_as(&self, host: &str) -> super::process::Answer {
        use std::io::Write as _;
        let mut socket = self.connect();
        let request =
            format!("GET /list-apps HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        super::process::Answer::read(&mut socket)
    }
}
