//! Runs `retain append` as a child process.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread::JoinHandle,
};

use retain::Event;

use crate::ledger::Ledger;

/// The program under test.
pub(crate) const RETAIN: &str = env!("CARGO_BIN_EXE_retain");

/// Returns the URI of the database at `path`.
pub(crate) fn uri(path: &Path) -> String {
    format!("sqlite:///{}", path.display())
}

/// Adds the arguments that append to the session of `ledger`.
pub(crate) fn append_arguments(command: &mut Command, uri: &str, ledger: &Ledger) {
    let in_flight = ledger.in_flight.to_string();
    let key = &ledger.key;
    command.args(["append", "--store", uri, "--in-flight", &in_flight]);
    command.args(["--app", &key.app, "--user", &key.user, "--session", &key.id]);
}

/// Returns events as standard input: a file, so that no thread has to write them.
fn input(events: &[Arc<Event>]) -> File {
    let mut file = retain_testkit::scratch::file();
    write_lines(&mut file, events);
    file.rewind().unwrap();
    file
}

/// Writes events in the format that the program reads.
pub(crate) fn write_lines(file: &mut File, events: &[Arc<Event>]) {
    for event in events {
        writeln!(file, "{}", event.to_json().unwrap()).unwrap();
    }
}

/// A running program and the lines it has written.
pub(crate) struct ChildProgram {
    child: Child,
    lines: Receiver<String>,
    reader: JoinHandle<()>,
    stderr: File,
}

/// A program that has ended.
pub(crate) struct ProgramExit {
    pub(crate) status: ExitStatus,
    /// The lines that were not read before.
    pub(crate) lines: Vec<String>,
    pub(crate) stderr: String,
}

impl ChildProgram {
    /// Starts `command` with `events` as its input.
    pub(crate) fn start(mut command: Command, events: &[Arc<Event>]) -> ChildProgram {
        let stderr = retain_testkit::scratch::file();
        command.stdin(input(events)).stdout(Stdio::piped());
        command.stderr(stderr.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            // A line without its end was truncated by the crash and is ignored.
            while out.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        ChildProgram {
            child,
            lines,
            reader,
            stderr,
        }
    }

    /// Waits for the next line; `None` if the program has closed its output.
    pub(crate) fn next_line(&self) -> Option<String> {
        self.lines.recv().ok()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) -> ProgramExit {
        self.child.kill().unwrap();
        self.wait()
    }

    /// Waits until the process exits.
    pub(crate) fn wait(mut self) -> ProgramExit {
        let status = self.child.wait().unwrap();
        self.reader.join().unwrap();
        let mut stderr = String::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        ProgramExit {
            status,
            lines: self.lines.iter().collect(),
            stderr,
        }
    }
}
