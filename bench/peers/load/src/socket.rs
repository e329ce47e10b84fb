//! The upper limit of the suite: a bare socket with one thread per connection. It reads a request
//! without parsing it and writes a fixed answer of the size of a new session.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const BODY: &str = r#"{"id":"w1-1","appName":"mock","userId":"bench-1","state":{"number":1},"events":[],"lastUpdateTime":1794841260.3799}"#;

pub fn serve(port: &str) {
    let listener = match TcpListener::bind(format!("127.0.0.1:{port}")) {
        Ok(listener) => listener,
        Err(error) => return eprintln!("cannot listen on port {port}: {error}"),
    };
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut request = [0; 4096];
    // If the client has disconnected, the error does not matter.
    let _ = stream.set_nodelay(true);
    while stream.read(&mut request).is_ok_and(|read| read > 0) {
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
