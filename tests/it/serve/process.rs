//! A server as a child process, and a small client for it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::RETAIN;

/// No answer takes so long; without it a server that hangs would hang the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// So long after a line that is written the next one is read.
const ANNOUNCED: Duration = Duration::from_millis(300);

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    stderr: File,
    pub(crate) address: String,
    /// What it printed when it began, after the first line.
    pub(crate) announced: Vec<String>,
}

/// A server that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

/// The program, in a folder of its own and without settings of whoever runs the test.
pub(crate) fn retain(folder: &Path) -> Command {
    let mut command = Command::new(RETAIN);
    command.current_dir(folder);
    let settings = ["RETAIN_", "OTEL_", "ADK_"];
    let is_setting = |name: &str| settings.iter().any(|start| name.starts_with(start));
    for (name, _) in std::env::vars().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    // Nor with a model that a key in the environment would choose.
    command.env("RETAIN_MODEL", "offline");
    command
}

/// `retain serve --port 0`, in a folder.
pub(crate) fn serve(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = retain(folder);
    command.args(["serve", "--port", "0"]).args(arguments);
    command
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Server {
        let stderr = retain_testkit::scratch::file();
        command
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().map(Result::unwrap);
        let address = first
            .as_deref()
            .and_then(|line| line.split("http://").nth(1));
        let Some(address) = address.map(str::to_owned) else {
            let ended = Server {
                child,
                stderr,
                address: String::new(),
                announced: Vec::new(),
            }
            .wait();
            panic!("it did not start: {first:?} {}", ended.stderr);
        };
        let mut server = Server {
            child,
            stderr,
            address,
            announced: Vec::new(),
        };
        // The lines are written before the first request is answered, and then no more come; the
        // reader goes on, so that writing never fails.
        let (sender, lines_read) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        assert_eq!(server.get("/health").status, 200);
        // All are written; the reader may still be on its way, where the machine has much to do.
        let next = || lines_read.recv_timeout(ANNOUNCED).ok();
        server.announced = std::iter::from_fn(next).collect();
        server
    }

    /// In a folder, with arguments.
    pub(crate) fn with(folder: &Path, arguments: &[&str]) -> Server {
        Server::start(serve(folder, arguments))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ended { status, stderr }
    }

    /// Tells it to stop and waits for its end.
    pub(crate) fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        self.wait()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, "", body)
    }

    /// Asks, with further header lines, each with its end.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut socket = self.connect();
        self.send(
            &mut socket,
            method,
            path,
            &format!("{headers}Connection: close\r\n"),
            body,
        );
        Answer::read(&mut socket)
    }

    /// Sends a request on a connection.
    pub(crate) fn send(
        &self,
        socket: &mut TcpStream,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) {
        let (host, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        );
        socket.write_all(request.as_bytes()).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended cannot be killed; a test that fails must not leave one behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn read(socket: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // A connection that is cut off gives what came before.
        let _ = socket.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            text,
        }
    }
}

/// What a user says to the built-in agent.
pub(crate) fn said(session: &str, text: &str) -> String {
    format!(
        r#"{{"appName":"assistant","userId":"ada","sessionId":"{session}","newMessage":{{"role":"user","parts":[{{"text":"{text}"}}]}}}}"#
    )
}
