//! A minimal HTTP/1.1 client: one connection, one request at a time, bodies with a length or in
//! chunks. It never blocks: it reads what has arrived, and the caller waits.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::time::Instant;

use mio::net::TcpStream;

/// Maximum bytes per read of a socket.
const PIECE: usize = 1 << 18;

/// A connection, and the answer that is arriving on it.
pub struct Connection {
    pub socket: TcpStream,
    port: u16,
    piece: Vec<u8>,
    /// Received bytes; those from `taken` on are not parsed yet.
    raw: Vec<u8>,
    taken: usize,
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
            piece: vec![0; PIECE],
            raw: Vec::new(),
            taken: 0,
            head: None,
            body: Vec::new(),
            first_event: None,
        })
    }

    /// Send a request. The previous answer must be complete.
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

    /// Read what has arrived; return the answer if it is complete.
    pub fn take(&mut self) -> io::Result<Option<Answer>> {
        loop {
            match self.socket.read(&mut self.piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.raw.extend_from_slice(&self.piece[..read]);
                    if let Some(answer) = self.take_apart()? {
                        return Ok(Some(answer));
                    }
                    // A short read means that the socket is empty, so skip the read that would only
                    // say so.
                    if read < PIECE {
                        return Ok(None);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_apart(&mut self) -> io::Result<Option<Answer>> {
        let head = match self.head {
            Some(head) => head,
            None => match self.take_head()? {
                Some(head) => *self.head.insert(head),
                None => return Ok(None),
            },
        };
        let is_whole = match head.length {
            Some(length) => self.take_plain(length),
            None => self.take_chunks()?,
        };
        if !is_whole {
            return Ok(None);
        }
        self.raw.drain(..self.taken);
        (self.taken, self.head) = (0, None);
        Ok(Some(Answer {
            status: head.status,
            body: std::mem::take(&mut self.body),
            first_event: self.first_event.take(),
            closes: head.closes,
        }))
    }

    fn take_head(&mut self) -> io::Result<Option<Head>> {
        let Some(end) = memchr::memmem::find(&self.raw, b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&self.raw[..end]).map_err(|_| bad("a head"))?;
        let text = text.to_ascii_lowercase();
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|code| code.parse().ok());
        let mut head = Head {
            status: status.ok_or_else(|| bad("no status"))?,
            length: Some(0),
            closes: false,
        };
        for line in lines {
            match line.split_once(": ") {
                Some(("content-length", n)) => {
                    head.length = Some(n.parse().map_err(|_| bad("a length"))?);
                }
                Some(("transfer-encoding", "chunked")) => head.length = None,
                Some(("connection", how)) => head.closes = how == "close",
                _ => {}
            }
        }
        self.taken = end + 4;
        Ok(Some(head))
    }

    fn take_plain(&mut self, length: usize) -> bool {
        if self.raw.len() < self.taken + length {
            return false;
        }
        let end = self.taken + length;
        self.body = self.raw[self.taken..end].to_vec();
        self.taken = end;
        true
    }

    /// Parse the chunks; return whether the last one has arrived.
    fn take_chunks(&mut self) -> io::Result<bool> {
        while let Some(chunk) = self.next_chunk()? {
            let is_last = chunk.is_empty();
            self.taken = chunk.end + 2;
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

    /// The range of the next chunk, if it is complete.
    fn next_chunk(&self) -> io::Result<Option<Range<usize>>> {
        let rest = &self.raw[self.taken..];
        let Some(line) = memchr::memmem::find(rest, b"\r\n") else {
            return Ok(None);
        };
        let length = std::str::from_utf8(&rest[..line]).ok();
        let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
        let length = length.ok_or_else(|| bad("a chunk"))?;
        let begin = self.taken + line + 2;
        let is_there = self.raw.len() >= begin + length + 2;
        Ok(is_there.then_some(begin..begin + length))
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} cannot be read"))
}
