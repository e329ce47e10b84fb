//! Starts a server as a child process and communicates with it.
//!
//! Closing or dropping the transport ends the whole process group, so no process is left behind,
//! even if the server is a script that has started others.

use std::{
    collections::HashSet,
    io,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{ClientRequest, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Duration, Instant, timeout, timeout_at},
};

use super::group::{EXIT_TIMEOUT, ProcessGroup};
use crate::{
    failure::{Failure, FailureKind},
    server::StdioServer,
};

/// Environment variables that a child process inherits, as in ADK.
const INHERITED: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
/// How long to read the remaining output of a process that has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum size of a logged line, in bytes.
const LINE_MAX: u64 = 4096;

/// The transport to a child process.
pub(super) struct ChildProcess {
    io: AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>,
    group: ProcessGroup,
    /// Deadline for reading from a process that has ended.
    read_deadline: Option<Instant>,
    sent: SentCalls,
}

impl ChildProcess {
    pub(super) fn spawn(server: &StdioServer) -> Result<ChildProcess, Failure> {
        let connect_failed = |what: String| Failure::new(FailureKind::ConnectFailed, what);
        let program = &server.command;
        let spawned = ProcessGroup::spawn(&mut command(server));
        let mut group = spawned.map_err(|error| {
            connect_failed(format!("cannot start the MCP server {program:?}: {error}"))
        })?;
        let Some((stdout, stdin, stderr)) = group.pipes() else {
            return Err(connect_failed(format!(
                "cannot start the MCP server {program:?}: it has no standard input or output"
            )));
        };
        tokio::spawn(log_lines(program.clone(), stderr));
        Ok(ChildProcess {
            io: AsyncRwTransport::new_client(stdout, stdin),
            group,
            read_deadline: None,
            sent: SentCalls::default(),
        })
    }

    /// Returns a handle to the calls that may have reached the server.
    pub(super) fn sent(&self) -> SentCalls {
        self.sent.clone()
    }
}

fn command(server: &StdioServer) -> Command {
    let inherited = INHERITED
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let mut command = Command::new(&server.command);
    command
        .args(&server.args)
        .env_clear()
        .envs(inherited)
        .envs(server.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(folder) = &server.cwd {
        command.current_dir(folder);
    }
    command
}

/// Logs the standard error of the server at debug level.
async fn log_lines(server: String, stderr: ChildStderr) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut rest = (&mut lines).take(LINE_MAX);
        match rest.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let line = String::from_utf8_lossy(&line);
                tracing::debug!(
                    server,
                    line = line.trim_end(),
                    "standard error of the MCP server"
                );
            }
        }
    }
}

impl Transport<RoleClient> for ChildProcess {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        // Track only tool calls: other requests may be retried even if they were delivered.
        let id = match &message {
            JsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(_) => Some(request.id.clone()),
                _ => None,
            },
            _ => None,
        };
        let sent = self.sent.clone();
        let sending = self.io.send(message);
        async move {
            let Some(id) = id else {
                return sending.await;
            };
            sent.insert(id.clone());
            let done = sending.await;
            if done.is_err() {
                // The server did not receive the whole line.
                sent.remove(&id);
            }
            done
        }
    }

    /// Receives a message. Stops soon after the process has ended, because its own child processes
    /// might keep the output open.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let until = match self.read_deadline {
            Some(until) => until,
            None => tokio::select! {
                biased;
                message = self.io.receive() => return message,
                () = self.group.wait() => *self.read_deadline.insert(Instant::now() + DRAIN_TIMEOUT),
            },
        };
        timeout_at(until, self.io.receive()).await.ok().flatten()
    }

    async fn close(&mut self) -> io::Result<()> {
        // Closing the input of the server tells it to exit. The timeout is needed because a server
        // that does not read blocks pending writes forever.
        let closed = timeout(EXIT_TIMEOUT, self.io.close()).await;
        self.group.terminate().await;
        closed.unwrap_or(Ok(()))
    }
}

/// The calls that may have reached the server.
#[derive(Debug, Clone, Default)]
pub(super) struct SentCalls(Arc<Mutex<HashSet<RequestId>>>);

impl SentCalls {
    fn insert(&self, id: RequestId) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.insert(id);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Stops tracking a call. Returns whether it may have reached the server.
    pub(super) fn remove(&self, id: &RequestId) -> bool {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.remove(id)
    }
}
