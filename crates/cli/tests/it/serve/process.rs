//! A server as a child process, and a small client for it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    io::ioctl_fionread,
    process::{Pid, Signal, kill_process},
};

use crate::program::RETAIN;

/// Maximum time for an answer, so that a server that hangs fails the test.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Server {
    child: Child,
    stderr: File,
    pub(crate) address: String,
    /// The lines printed at startup, after the first.
    pub(crate) announced: Vec<String>,
}

/// A server that has ended.
pub(crate) struct ServerExit {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

/// Returns the command `retain` in this folder, without the settings of the test's environment.
pub(crate) fn retain(folder: &Path) -> Command {
    let mut command = Command::new(RETAIN);
    command.current_dir(folder);
    let settings = ["RETAIN_", "OTEL_", "ADK_"];
    let is_setting = |name: &str| settings.iter().any(|start| name.starts_with(start));
    for (name, _) in std::env::vars().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    // Without this variable, an API key in the environment could select another model.
    command.env("RETAIN_MODEL", "offline");
    command
}

/// Returns the command `retain serve --port 0` in this folder.
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
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let address = first.trim_end().split("http://").nth(1);
        let Some(address) = address.map(str::to_owned) else {
            let ended = Server {
                child,
                stderr,
                address: String::new(),
                announced: Vec::new(),
            }
            .wait();
            panic!("the server did not start: {first:?} {}", ended.stderr);
        };
        let mut server = Server {
            child,
            stderr,
            address,
            announced: Vec::new(),
        };
        // The server writes all lines to the pipe before it answers the first request.
        assert_eq!(server.get("/health").status, 200);
        let announced = read_available(&mut stdout);
        server.announced = announced.lines().map(str::to_owned).collect();
        // Keep reading, so that writing never fails.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        server
    }

    /// Starts a server in a folder, with arguments.
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

    /// Waits until the process exits.
    pub(crate) fn wait(mut self) -> ServerExit {
        let status = self.child.wait().unwrap();
        let mut stderr = String::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        ServerExit { status, stderr }
    }

    /// Sends SIGTERM and waits until the process exits.
    pub(crate) fn stop(self) -> ServerExit {
        self.signal(Signal::TERM);
        self.wait()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        socket
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, "", body)
    }

    /// Sends a request with further header lines, each with its line end.
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

/// Reads what is in the pipe, without waiting for more.
fn read_available(stdout: &mut BufReader<ChildStdout>) -> String {
    let in_pipe = ioctl_fionread(stdout.get_ref()).unwrap();
    let available = stdout.buffer().len() as u64 + in_pipe;
    let mut text = String::new();
    let mut stdout = stdout.take(available);
    stdout.read_to_string(&mut text).unwrap();
    text
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing an exited process fails; a failed test must not leave a running one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn read(socket: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // If the connection breaks, return what has arrived.
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

/// Reads until `wanted` has arrived, and returns everything that was read.
pub(crate) fn read_until(socket: &mut TcpStream, wanted: &str) -> String {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if text.contains(wanted) {
            return text;
        }
        let count = socket.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "{text}");
        read.extend_from_slice(&buffer[..count]);
    }
}

/// Returns the request body for a user message to the built-in agent.
pub(crate) fn run_request(session: &str, text: &str) -> String {
    format!(
        r#"{{"appName":"assistant","userId":"ada","sessionId":"{session}","newMessage":{{"role":"user","parts":[{{"text":"{text}"}}]}}}}"#
    )
}
