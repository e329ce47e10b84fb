//! An HTTP client for servers that are killed. It reports a truncated answer as an error.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use retain::Json;

/// Longer than any lease, so that a run can wait until the lease of a lost run expires.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// A complete answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Json,
}

/// Sends a request on its own connection and reads the answer.
pub(super) fn ask(address: &str, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let mut socket = send(address, method, path, body, ANSWER_TIMEOUT)?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| io::Error::other("the answer was cut off"))
}

/// Sends a request and returns the connection, from which the caller reads the answer.
pub(super) fn send(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(timeout))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes())?;
    Ok(socket)
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse::<usize>().ok()).flatten()
    })?;
    let body = (body.len() == length).then(|| Json::parse(body).ok())??;
    Some(Answer { status, body })
}

/// Decodes a chunked response while it arrives.
#[derive(Default)]
pub(super) struct Chunks {
    raw: Vec<u8>,
    past_head: bool,
}

impl Chunks {
    /// Adds received bytes and returns the text of the chunks that they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> String {
        self.raw.extend_from_slice(bytes);
        let mut text = Vec::new();
        if !self.past_head {
            let Some(end) = find(&self.raw, b"\r\n\r\n") else {
                return String::new();
            };
            self.raw.drain(..end + 4);
            self.past_head = true;
        }
        while let Some(end) = find(&self.raw, b"\r\n") {
            let size = std::str::from_utf8(&self.raw[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            let whole = end + 2 + size + 2;
            if self.raw.len() < whole {
                break;
            }
            text.extend_from_slice(&self.raw[end + 2..end + 2 + size]);
            self.raw.drain(..whole);
        }
        String::from_utf8(text).unwrap()
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|found| found == what)
}

#[test]
fn chunked_stream_is_decoded_wherever_it_is_split() {
    let sent = b"HTTP/1.1 200 OK\r\n\r\n5\r\nid: 1\r\n3\r\n\n\nx\r\n";
    for cut in 0..sent.len() {
        let mut chunks = Chunks::default();
        let text = chunks.take(&sent[..cut]) + &chunks.take(&sent[cut..]);
        assert_eq!(text, "id: 1\n\nx", "cut at {cut}");
    }
}

#[test]
fn incomplete_http_response_is_not_parsed() {
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
    assert_eq!(parse(whole).unwrap().body["a"].as_u64(), Some(1));
    for cut in 0..whole.len() {
        assert!(parse(&whole[..cut]).is_none(), "cut at {cut}");
    }
}
