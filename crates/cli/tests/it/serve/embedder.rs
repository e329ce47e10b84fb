//! With an embedding model, the server embeds the memories that it ingests.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use super::process::{Server, run_request, serve};

/// Starts a server that returns the same vector for every text. Returns its address and its
/// requests.
fn ollama() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut sent = String::new();
            let mut buffer = [0; 4096];
            while !sent.ends_with('}') {
                let count = socket.read(&mut buffer).unwrap();
                sent.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            let body = r#"{"data":[{"index":0,"embedding":[1,0]}]}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            socket.write_all(answer.as_bytes()).unwrap();
            if sender.send(sent).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

#[test]
fn embedder_embeds_ingested_memories() {
    let folder = retain_testkit::scratch::folder();
    let (address, requests) = ollama();
    let mut command = serve(folder.path(), &["--embedder", "ollama/tiny@2"]);
    command.env_remove("OLLAMA_HOST");
    command.env("OLLAMA_API_BASE", address);
    let server = Server::start(command);
    assert_eq!(
        server
            .post("/run", &run_request("s", "I like jasmine tea."))
            .status,
        200
    );
    let sent = requests.recv_timeout(Duration::from_secs(120)).unwrap();
    assert!(sent.starts_with("POST /v1/embeddings "), "{sent}");
    assert!(sent.contains(r#""model":"tiny""#), "{sent}");
    assert!(sent.contains("jasmine tea"), "{sent}");
}

#[test]
fn invalid_embedder_is_refused_with_the_reason() {
    let folder = retain_testkit::scratch::folder();
    let refused = |arguments: &[&str], about: &str| {
        let mut command = serve(folder.path(), arguments);
        let ended = command.env_remove("OPENAI_API_KEY").output().unwrap();
        let message = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success(), "{message}");
        assert!(message.contains(about), "{message}");
    };
    let openai = "openai/text-embedding-3-small";
    refused(&["--embedder", openai], "OPENAI_API_KEY");
    refused(&["--embedder", "martian/x"], "gemini/MODEL");
    let without_semantic_search = [
        "--embedder",
        "ollama/a@1",
        "--memory-service-uri",
        "memory://",
    ];
    refused(&without_semantic_search, "--embedder");
}
