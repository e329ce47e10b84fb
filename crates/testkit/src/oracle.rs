//! Queries a reference implementation, usually google-adk, in a Python process. The process reads
//! one JSON request per line and writes one JSON answer per line.

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use retain_core::Json;

/// Timeout after which an oracle counts as hung. On an idle machine it answers within seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(540);

/// A Python environment that `scripts/test` creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// google-adk 2.13.0.
    Adk,
    /// google-adk 2.13.0 with the libraries of Anthropic and LiteLLM.
    AdkModels,
    /// google-adk 2.13.0 with the MCP library.
    AdkMcp,
    /// google-adk 2.12.0 with the MCP library; `scripts/test` creates it with `--long`.
    AdkMcpPrevious,
    /// The package `tokenizers`.
    Tokenizers,
}

impl Reference {
    /// Returns the path of the Python. If the environment is missing, records that `test` was
    /// skipped.
    pub fn python(self, test: &str) -> Option<PathBuf> {
        let (variable, missing) = match self {
            Reference::Adk => ("RETAIN_ADK_2_13_PYTHON", "google-adk 2.13.0"),
            Reference::AdkModels => (
                "RETAIN_ADK_MODELS_PYTHON",
                "google-adk with anthropic and litellm",
            ),
            Reference::AdkMcp => ("RETAIN_ADK_MCP_PYTHON", "google-adk with mcp"),
            Reference::AdkMcpPrevious => {
                ("RETAIN_ADK_2_12_MCP_PYTHON", "google-adk 2.12.0 with mcp")
            }
            Reference::Tokenizers => ("RETAIN_TOKENIZERS_PYTHON", "the package tokenizers"),
        };
        variable_or_skip(variable, test, missing).map(PathBuf::from)
    }
}

/// A Python process that answers each line of JSON with a line of JSON.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Oracle {
    /// Starts `script`. If the environment is missing, returns `None` and records that `test` was
    /// skipped.
    pub fn start(reference: Reference, test: &str, script: impl AsRef<OsStr>) -> Option<Oracle> {
        Oracle::start_with(reference, test, script, |_| ())
    }

    /// Like [`start`](Self::start), with arguments or variables that `configure` adds.
    pub fn start_with(
        reference: Reference,
        test: &str,
        script: impl AsRef<OsStr>,
        configure: impl FnOnce(&mut Command),
    ) -> Option<Oracle> {
        let mut command = Command::new(reference.python(test)?);
        command.arg(script);
        configure(&mut command);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a Python process");
        let (sender, answers) = channel();
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        // A thread reads each answer immediately, so that the process never blocks while the test
        // still writes requests.
        thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.expect("the oracle writes UTF-8")).is_err() {
                    return;
                }
            }
        });
        let mut output = process.stderr.take().expect("a pipe");
        let errors = thread::spawn(move || {
            let mut errors = Vec::new();
            drop(output.read_to_end(&mut errors));
            String::from_utf8_lossy(&errors).into_owned()
        });
        Some(Oracle {
            input: process.stdin.take(),
            process,
            answers,
            errors: Some(errors),
        })
    }

    /// Returns the answer to one request.
    pub fn ask(&mut self, request: &Json) -> Json {
        self.send(request);
        self.answer()
    }

    /// Returns the answers to all requests, in their order.
    pub fn ask_all<'a>(&mut self, requests: impl IntoIterator<Item = &'a Json>) -> Vec<Json> {
        let mut count = 0;
        for request in requests {
            self.send(request);
            count += 1;
        }
        (0..count).map(|_| self.answer()).collect()
    }

    /// Sends a request whose answers are read with [`answer`](Self::answer).
    pub fn send(&mut self, request: &Json) {
        let mut line = request.to_json().expect("a JSON request");
        line.push('\n');
        let input = self.input.as_mut().expect("the input is open");
        if let Err(error) = input.write_all(line.as_bytes()) {
            self.fail(&format!("does not accept input: {error}"));
        }
    }

    /// Returns the next answer.
    pub fn answer(&mut self) -> Json {
        match self.answers.recv_timeout(ANSWER_TIMEOUT) {
            Ok(line) => Json::parse(&line)
                .unwrap_or_else(|error| panic!("the oracle wrote invalid JSON: {error}\n{line}")),
            Err(RecvTimeoutError::Disconnected) => self.fail("ended without an answer"),
            Err(RecvTimeoutError::Timeout) => self.fail("did not answer in time"),
        }
    }

    /// Closes the input, waits for a successful exit, and returns the unread lines.
    pub fn stop(mut self) -> Vec<String> {
        drop(self.input.take());
        let mut left = Vec::new();
        loop {
            match self.answers.recv_timeout(ANSWER_TIMEOUT) {
                Ok(line) => left.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.fail("did not exit in time"),
            }
        }
        let status = self.process.wait().expect("the exit status of the oracle");
        if !status.success() {
            self.fail(&status.to_string());
        }
        left
    }

    fn fail(&mut self, what: &str) -> ! {
        drop(self.process.kill());
        let errors = self.errors.take().and_then(|errors| errors.join().ok());
        panic!("the oracle {what}\n{}", errors.unwrap_or_default());
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns the value of an environment variable that `scripts/test` sets. If it is not set, records
/// that `test` was skipped.
pub fn variable_or_skip(variable: &str, test: &str, missing: &str) -> Option<String> {
    let value = std::env::var(variable).ok();
    if value.is_none() {
        skip(&format!("{test}: {missing} is not installed"));
    }
    value
}

/// Records a skip for the summary of `scripts/test`.
pub fn skip(line: &str) {
    println!("skipped: {line}");
    if let Some(skips) = std::env::var_os("RETAIN_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(skips);
        let mut file = file.expect("the file of skips can be written");
        writeln!(file, "{line}").expect("the file of skips can be written");
    }
}

/// Reads a number from the environment, e.g. `RETAIN_SEED`.
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, found {text:?}")))
}

/// Whether to run the long variants of tests.
pub fn is_long() -> bool {
    std::env::var_os("RETAIN_LONG").is_some_and(|long| !long.is_empty())
}
