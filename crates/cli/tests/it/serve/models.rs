//! The model is selected by API key, by name or in the settings file; errors name the cause.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
    thread::JoinHandle,
};

use super::process::{Server, run_request, serve};

/// All variables that could select another model.
const VARIABLES: [&str; 10] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "OPENAI_API_BASE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
];

/// Returns the command for a server without model API keys and without a selected model.
fn without_keys(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = serve(folder, arguments);
    for variable in VARIABLES.into_iter().chain(["RETAIN_MODEL"]) {
        command.env_remove(variable);
    }
    command
}

/// Starts a fake Claude that answers once. Returns its address and the request.
fn claude() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let request = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut sent = String::new();
        let mut buffer = [0; 4096];
        while !sent.ends_with('}') {
            let count = socket.read(&mut buffer).unwrap();
            sent.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        let body = r#"{"content":[{"type":"text","text":"Bonjour."}],"stop_reason":"end_turn"}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        socket.write_all(answer.as_bytes()).unwrap();
        sent
    });
    (address, request)
}

#[test]
fn offline_model_answers_without_an_api_key() {
    let folder = retain_testkit::scratch::folder();
    let server = Server::start(without_keys(folder.path(), &[]));
    let announced = server.announced.join("\n");
    assert!(announced.contains("model  offline"), "{announced}");
    let answer = server.post("/run", &run_request("s", "Hello."));
    assert!(answer.text.contains("offline model"), "{}", answer.text);
}

#[test]
fn api_key_in_the_environment_selects_the_model() {
    let folder = retain_testkit::scratch::folder();
    let (address, request) = claude();
    let mut command = without_keys(folder.path(), &["--log-level", "trace"]);
    command.env("ANTHROPIC_API_KEY", "sk-ant-secret-of-the-test");
    command.env("ANTHROPIC_BASE_URL", address);
    let server = Server::start(command);
    let announced = server.announced.join("\n");
    assert!(announced.contains("claude-"), "{announced}");
    assert!(announced.contains("ANTHROPIC_API_KEY"), "{announced}");
    let answer = server.post("/run", &run_request("s", "Hello."));
    assert!(answer.text.contains("Bonjour."), "{}", answer.text);
    let sent = request.join().unwrap();
    assert!(sent.contains("sk-ant-secret-of-the-test"), "{sent}");
    let log = server.stop().stderr;
    let output = format!("{announced} {} {log}", answer.text);
    assert!(!output.contains("secret-of-the-test"), "{output}");
}

#[test]
fn model_and_api_key_come_from_the_file_unless_an_option_names_a_model() {
    let folder = retain_testkit::scratch::folder();
    let (address, request) = claude();
    let file = format!(
        "model = \"claude-of-the-file\"\n[models.anthropic]\napi-key = \"sk-of-the-file\"\n\
         base_url = \"{address}\"\n[models.vertex]\nuse = false\n"
    );
    std::fs::write(folder.path().join("retain.toml"), file).unwrap();
    let server = Server::start(without_keys(folder.path(), &[]));
    let announced = server.announced.join("\n");
    assert!(
        announced.contains("model  claude-of-the-file"),
        "{announced}"
    );
    let answer = server.post("/run", &run_request("s", "Hello."));
    assert!(answer.text.contains("Bonjour."), "{}", answer.text);
    let sent = request.join().unwrap();
    let has = |text: &str| sent.contains(text);
    assert!(has("sk-of-the-file") && has("claude-of-the-file"), "{sent}");
    let server = Server::start(without_keys(folder.path(), &["--model", "offline"]));
    assert!(server.announced.join("\n").contains("model  offline"));
}

#[test]
fn missing_api_key_error_names_the_variable() {
    let folder = retain_testkit::scratch::folder();
    let mut command = without_keys(folder.path(), &["--model", "openai/gpt-4o"]);
    let ended = command.output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{message}");
    assert!(message.contains("OPENAI_API_KEY"), "{message}");
}

#[test]
fn unknown_model_setting_error_lists_the_known_ones() {
    let folder = retain_testkit::scratch::folder();
    for (file, expected) in [
        (
            "[models.martian]\nx = \"y\"\n",
            "unknown provider in the setting models.martian.x; expected http, gemini, ",
        ),
        (
            "[models.azure]\nregion = \"eu\"\n",
            "unknown setting models.azure.region; expected one of: api-key, base-url, api-version",
        ),
    ] {
        std::fs::write(folder.path().join("retain.toml"), file).unwrap();
        let ended = without_keys(folder.path(), &[]).output().unwrap();
        let message = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success(), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn agent_without_its_api_key_does_not_affect_other_agents() {
    let folder = retain_testkit::scratch::folder();
    for (app, model) in [("poor", "gemini-3.5-flash"), ("rich", "offline")] {
        let agents = folder.path().join("agents").join(app);
        std::fs::create_dir_all(&agents).unwrap();
        let yaml = format!("name: {app}\nmodel: {model}\ninstruction: Answer.\n");
        std::fs::write(agents.join("root_agent.yaml"), yaml).unwrap();
    }
    let arguments = ["agents", "--auto-create-session"];
    let server = Server::start(without_keys(folder.path(), &arguments));
    let message_to = |app: &str| run_request("s", "Hello.").replace("assistant", app);
    let refused = server.post("/run", &message_to("poor"));
    assert_eq!(refused.status, 500, "{}", refused.text);
    assert_eq!(server.post("/run", &message_to("rich")).status, 200);
    let log = server.stop().stderr;
    assert!(log.contains("GOOGLE_API_KEY"), "{log}");
}

/// The section `models.http` of the file sets timeouts and retries for all providers.
#[test]
fn settings_file_sets_model_timeouts_and_retries() {
    let folder = retain_testkit::scratch::folder();
    // Accepts connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let file = format!(
        "model = \"claude-x\"\n[models.anthropic]\napi-key = \"sk-of-the-file\"\n\
         base-url = \"{address}\"\n[models.http]\ntotal-timeout = 0.4\nidle_timeout = 7\n\
         connect-timeout = 5\nattempts = 2\nfirst-wait = 0.01\nlongest-wait = 1\nwait-budget = 3\n"
    );
    std::fs::write(folder.path().join("retain.toml"), file).unwrap();
    let server = Server::start(without_keys(folder.path(), &[]));
    server.post("/run", &run_request("s", "Hello."));
    let session = server.get("/apps/assistant/users/ada/sessions/s");
    assert!(session.text.contains("TimeoutError"), "{}", session.text);
    drop(server);
    for (setting, expected) in [
        (
            "total-timeout = 0",
            "models.http.total-timeout must be greater than 0",
        ),
        (
            "idle-timeout = -1",
            "models.http.idle-timeout must be a non-negative number of seconds, found -1",
        ),
        (
            "attempts = 0",
            "models.http.attempts must be an integer from 1 to 100",
        ),
        (
            "attempts = 1.5",
            "models.http.attempts must be an integer from 1 to 100",
        ),
        (
            "patience = 1",
            "models.http.patience is unknown; expected one of: connect-timeout, ",
        ),
        (
            "connect-timeout = \"10\"",
            "models.http.connect-timeout must be a number",
        ),
    ] {
        let file = format!("[models.http]\n{setting}\n");
        std::fs::write(folder.path().join("retain.toml"), file).unwrap();
        let ended = without_keys(folder.path(), &[]).output().unwrap();
        let message = String::from_utf8(ended.stderr).unwrap();
        assert!(
            !ended.status.success() && message.contains(expected),
            "{message}"
        );
    }
}
