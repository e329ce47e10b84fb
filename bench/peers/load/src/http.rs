//! A minimal HTTP/1.1 client with one connection and one request at a time. It supports bodies with
//! a length and chunked bodies. It never blocks: it reads the bytes that have arrived, and the
//! caller waits.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::time::Instant;

use mio::net::TcpStream;

/// Maximum bytes per read of a socket.
const READ_BYTES: usize = 1 << 18;

/// A connection, and the answer that is arriving on it.
pub struct Connection {
    pub socket: TcpStream,
    port: u16,
    buffer: Vec<u8>,
    /// Received bytes. Those before `parsed` are already parsed.
    raw: Vec<u8>,
    parsed: usize,
    head: Option<Head>,
    body: Vec<u8>,
    first_event: Option<Instant>,
}

/// The parsed head of an answer.
#[derive(Clone, Copy)]
struct Head {
    status: u16,
    /// The length of the body, unless it is chunked.
    length: Option<usize>,
    closes: bool,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// When the first `data:` line arrived.
    pub first_event: Option<Instant>,
    /// Whether the server closes the connection after this answer.
    pub closes: bool,
}

impl Connection {
    pub fn open(port: u16) -> io::Result<Connection> {
        let socket = std::net::TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket: TcpStream::from_std(socket),
            port,
            buffer: vec![0; READ_BYTES],
            raw: Vec::new(),
            parsed: 0,
            head: None,
            body: Vec::new(),
            first_event: None,
        })
    }

    /// Sends a request. The previous answer must be complete.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        // A request is smaller than the socket's send buffer.
        self.socket.write_all(request.as_bytes())
    }

    /// Reads the bytes that have arrived; returns the answer if it is complete.
    pub fn poll_answer(&mut self) -> io::Result<Option<Answer>> {
        loop {
            match self.socket.read(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.raw.extend_from_slice(&self.buffer[..read]);
                    if let Some(answer) = self.parse()? {
                        return Ok(Some(answer));
                    }
                    // A short read means that the socket is empty, so skip the next read.
                    if read < READ_BYTES {
                        return Ok(None);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn parse(&mut self) -> io::Result<Option<Answer>> {
        let head = match self.head {
            Some(head) => head,
            None => match self.parse_head()? {
                Some(head) => *self.head.insert(head),
                None => return Ok(None),
            },
        };
        let is_whole = match head.length {
            Some(length) => self.parse_plain_body(length),
            None => self.parse_chunks()?,
        };
        if !is_whole {
            return Ok(None);
        }
        self.raw.drain(..self.parsed);
        (self.parsed, self.head) = (0, None);
        Ok(Some(Answer {
            status: head.status,
            body: std::mem::take(&mut self.body),
            first_event: self.first_event.take(),
            closes: head.closes,
        }))
    }

    fn parse_head(&mut self) -> io::Result<Option<Head>> {
        let Some(end) = memchr::memmem::find(&self.raw, b"\r\n\r\n") else {
            return Ok(None);
        };
        let text =
            std::str::from_utf8(&self.raw[..end]).map_err(|_| invalid("head of the answer"))?;
        let text = text.to_ascii_lowercase();
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|code| code.parse().ok());
        let mut head = Head {
            status: status.ok_or_else(|| invalid("status"))?,
            length: Some(0),
            closes: false,
        };
        for line in lines {
            match line.split_once(": ") {
                Some(("content-length", n)) => {
                    head.length = Some(n.parse().map_err(|_| invalid("content-length"))?);
                }
                Some(("transfer-encoding", "chunked")) => head.length = None,
                Some(("connection", how)) => head.closes = how == "close",
                _ => {}
            }
        }
        self.parsed = end + 4;
        Ok(Some(head))
    }

    fn parse_plain_body(&mut self, length: usize) -> bool {
        if self.raw.len() < self.parsed + length {
            return false;
        }
        let end = self.parsed + length;
        self.body = self.raw[self.parsed..end].to_vec();
        self.parsed = end;
        true
    }

    /// Parses the chunks; returns whether the last one has arrived.
    fn parse_chunks(&mut self) -> io::Result<bool> {
        while let Some(chunk) = self.next_chunk()? {
            let is_last = chunk.is_empty();
            self.parsed = chunk.end + 2;
            if is_last {
                return Ok(true);
            }
            self.body.extend_from_slice(&self.raw[chunk]);
            let is_first = || memchr::memmem::find(&self.body, b"data:").is_some();
            if self.first_event.is_none() && is_first() {
                self.first_event = Some(Instant::now());
            }
        }
        Ok(false)
    }

    /// Returns the range of the next chunk, if it is complete.
    fn next_chunk(&self) -> io::Result<Option<Range<usize>>> {
        let rest = &self.raw[self.parsed..];
        let Some(line) = memchr::memmem::find(rest, b"\r\n") else {
            return Ok(None);
        };
        let length = std::str::from_utf8(&rest[..line]).ok();
        let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
        let length = length.ok_or_else(|| invalid("chunk size"))?;
        let begin = self.parsed + line + 2;
        let is_there = self.raw.len() >= begin + length + 2;
        Ok(is_there.then_some(begin..begin + length))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid {what}"))
}
