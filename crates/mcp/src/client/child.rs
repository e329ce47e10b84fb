//! A server that is a child process: how it is started and spoken to.
//!
//! Whatever ends the transport ends the whole group of the process: an agent leaves no processes
//! behind, also when the server is a script that started others.

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

use super::group::{Group, PATIENCE};
use crate::{
    failure::{Failure, FailureKind},
    server::StdioServer,
};

/// What a child process gets of our environment; as in ADK.
const INHERITED: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
/// How long it is waited for what a process may have said before it ended: all that is on its way.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// As much as is logged of a line that the server writes for people.
const LINE_MAX: u64 = 4096;

/// The transport to a child process.
pub(super) struct ChildProcess {
    io: AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>,
    group: Group,
    /// Until when it is read from a process that has ended.
    heard_until: Option<Instant>,
    sent: Sent,
}

impl ChildProcess {
    pub(super) fn spawn(server: &StdioServer) -> Result<ChildProcess, Failure> {
        let hopeless = |what: String| Failure::new(FailureKind::Hopeless, what);
        let named = &server.command;
        let spawned = Group::spawn(&mut command(server));
        let mut group =
            spawned.map_err(|error| hopeless(format!("{named:?} cannot be started: {error}")))?;
        let Some((stdout, stdin, stderr)) = group.pipes() else {
            return Err(hopeless(format!("{named:?} has no pipes")));
        };
        tokio::spawn(log_lines(named.clone(), stderr));
        Ok(ChildProcess {
            io: AsyncRwTransport::new_client(stdout, stdin),
            group,
            heard_until: None,
            sent: Sent::default(),
        })
    }

    /// What it was sent.
    pub(super) fn sent(&self) -> Sent {
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

/// What the server writes for people goes into our log, where those look who want to know more.
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
                tracing::debug!(server, line = line.trim_end(), "the MCP server says");
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
        // Whether they were seen is asked of calls only.
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
                // Nobody read the end of the line.
                sent.take(&id);
            }
            done
        }
    }

    /// Its output need not end with the process: what it started may hold it.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let until = match self.heard_until {
            Some(until) => until,
            None => tokio::select! {
                biased;
                message = self.io.receive() => return message,
                () = self.group.ended() => *self.heard_until.insert(Instant::now() + LAST_WORDS),
            },
        };
        timeout_at(until, self.io.receive()).await.ok().flatten()
    }

    async fn close(&mut self) -> io::Result<()> {
        // The end of its input tells the server that it is over. Where the server does not read,
        // what is still being written to it stands before that end for ever.
        let closed = timeout(PATIENCE, self.io.close()).await;
        self.group.end().await;
        closed.unwrap_or(Ok(()))
    }
}

/// Which calls may have reached the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent(Arc<Mutex<HashSet<RequestId>>>);

impl Sent {
    fn insert(&self, id: RequestId) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.insert(id);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Forgets a request; says whether it may have reached the server.
    pub(super) fn take(&self, id: &RequestId) -> bool {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.remove(id)
    }
}
