//! As much of an HTTP/1.1 client as the suite needs: one connection, one request at a time, bodies
//! with a length or in chunks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub struct Connection {
    stream: BufReader<TcpStream>,
    port: u16,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// When the first `data:` line was there.
    pub first_event: Option<Instant>,
}

impl Connection {
    pub fn open(port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Connection {
            stream: BufReader::with_capacity(1 << 16, stream),
            port,
        })
    }

    /// Asks, and reads the whole answer. A server that closes behind an answer is asked anew.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| bad("no status"))?;
        let (mut length, mut chunked, mut closes) = (0, false, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", n)) => length = n.parse().map_err(|_| bad("a length"))?,
                Some(("transfer-encoding", how)) => chunked = how == "chunked",
                Some(("connection", how)) => closes = how == "close",
                _ if line.is_empty() => break,
                _ => {}
            }
        }
        let mut answer = Answer {
            status,
            body: Vec::new(),
            first_event: None,
        };
        if chunked {
            self.chunks(&mut answer)?;
        } else {
            answer.body = vec![0; length];
            self.stream.read_exact(&mut answer.body)?;
        }
        if closes {
            *self = Connection::open(self.port)?;
        }
        Ok(answer)
    }

    fn chunks(&mut self, answer: &mut Answer) -> io::Result<()> {
        loop {
            let length = self.line()?;
            let length = usize::from_str_radix(&length, 16).map_err(|_| bad("a chunk"))?;
            let begin = answer.body.len();
            answer.body.resize(begin + length, 0);
            self.stream.read_exact(&mut answer.body[begin..])?;
            self.line()?;
            if length == 0 {
                return Ok(());
            }
            if answer.first_event.is_none() && answer.body.windows(5).any(|w| w == b"data:") {
                answer.first_event = Some(Instant::now());
            }
        }
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Ok(line)
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} cannot be read"))
}
