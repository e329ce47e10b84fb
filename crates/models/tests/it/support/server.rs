//! A server that answers each request with the next script.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// What the server does after it has read a request.
#[derive(Debug, Clone)]
pub enum Act {
    /// Send these bytes, in one write.
    Send(Vec<u8>),
    /// Wait this long.
    Pause(Duration),
    /// Send nothing more and keep the connection open until the client disconnects.
    Stall,
    /// Reset the connection.
    Reset,
    /// Close the sending half of the connection and continue to read.
    HalfClose,
    /// Close the connection.
    Close,
}

/// A received request.
#[derive(Debug, Clone, Default)]
pub struct ReceivedRequest {
    /// E.g. `POST /v1beta/models/x:generateContent HTTP/1.1`.
    pub line: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl ReceivedRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the path with its query.
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

#[derive(Default)]
struct ServerState {
    scripts: Mutex<VecDeque<Vec<Act>>>,
    received: Mutex<Vec<ReceivedRequest>>,
    connections_ended: Mutex<usize>,
    changed: Notify,
}

/// A server on a free port. It stops with the runtime of its test.
#[derive(Clone)]
pub struct Server {
    shared: Arc<ServerState>,
    port: u16,
}

impl Server {
    /// Starts a server that answers each request with the next script. After the last script, it
    /// closes each connection once it has read a request.
    pub async fn playing(scripts: impl IntoIterator<Item = Vec<Act>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(ServerState {
            scripts: Mutex::new(scripts.into_iter().collect()),
            ..ServerState::default()
        });
        let server = Server {
            shared: Arc::clone(&shared),
            port,
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    serve(stream, &shared).await;
                    *shared.connections_ended.lock().expect("lock") += 1;
                    shared.changed.notify_waiters();
                });
            }
        });
        server
    }

    /// Answers one more request with this script.
    pub fn play(&self, script: Vec<Act>) {
        self.shared.scripts.lock().expect("lock").push_back(script);
    }

    /// Returns the URL, e.g. `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the requests received so far.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.shared.received.lock().expect("lock").clone()
    }

    /// Waits until this number of connections has ended.
    pub async fn connections_ended(&self, count: usize) {
        loop {
            let changed = self.shared.changed.notified();
            if *self.shared.connections_ended.lock().expect("lock") >= count {
                return;
            }
            changed.await;
        }
    }
}

async fn serve(mut stream: TcpStream, shared: &ServerState) {
    let _ = stream.set_nodelay(true);
    while let Some(request) = read_request(&mut stream).await {
        shared.received.lock().expect("lock").push(request);
        let script = shared.scripts.lock().expect("lock").pop_front();
        let Some(script) = script else { return };
        for act in script {
            match act {
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                    let _ = stream.flush().await;
                }
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Stall => return wait_for_disconnect(&mut stream).await,
                Act::Reset => {
                    let _ = stream.set_zero_linger();
                    return;
                }
                Act::Close => return,
                Act::HalfClose => {
                    let _ = stream.shutdown().await;
                    return wait_for_disconnect(&mut stream).await;
                }
            }
        }
    }
}

async fn wait_for_disconnect(stream: &mut TcpStream) {
    let mut sink = [0; 1024];
    while let Ok(count) = stream.read(&mut sink).await {
        if count == 0 {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        read_some(stream, &mut bytes).await?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let mut request = ReceivedRequest {
        line: lines.next()?.to_owned(),
        ..ReceivedRequest::default()
    };
    for line in lines {
        if let Some((name, value)) = line.split_once(':') {
            let name = name.to_ascii_lowercase();
            request.headers.push((name, value.trim().to_owned()));
        }
    }
    let length = request.header("content-length").unwrap_or("0");
    let end = head + length.parse::<usize>().ok()?;
    while bytes.len() < end {
        read_some(stream, &mut bytes).await?;
    }
    request.body = String::from_utf8_lossy(&bytes[head..end]).into_owned();
    Some(request)
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 16 * 1024];
    let count = stream.read(&mut chunk).await.ok()?;
    bytes.extend_from_slice(&chunk[..count]);
    (count > 0).then_some(())
}

/// Returns a complete JSON answer with status 200.
pub fn answer(body: &str) -> Vec<Act> {
    answer_with_status("200 OK", &[], body)
}

/// Returns a complete JSON answer with this status, for example `503 Service Unavailable`, and
/// these headers.
pub fn answer_with_status(status: &str, headers: &[(&str, &str)], body: &str) -> Vec<Act> {
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    vec![Act::Send(head.into_bytes())]
}

/// Returns a complete streamed answer, sent in writes that are split at the given offsets of
/// `body`.
pub fn event_stream(body: &[u8], cuts: &[usize]) -> Vec<Act> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let mut acts = vec![Act::Send(head.as_bytes().to_vec())];
    let mut from = 0;
    for &to in cuts.iter().chain([&body.len()]) {
        if to > from {
            let mut chunk = format!("{:x}\r\n", to - from).into_bytes();
            chunk.extend_from_slice(&body[from..to]);
            chunk.extend_from_slice(b"\r\n");
            acts.push(Act::Send(chunk));
            from = to;
        }
    }
    acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
    acts
}
