//! Process groups of servers: a child process and all processes that it started, which end
//! together.
//!
//! A static list contains all live groups, so that a program that exits immediately can kill them.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Duration, timeout},
};

/// How long to wait for a child process to exit by itself, and again after SIGTERM.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The live groups.
static LIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<Pid>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all servers that run as child processes, with all processes that they started, and exits
/// the program with this code. Use it if the program cannot wait until toolsets are closed.
pub fn exit_at_once(code: i32) -> ! {
    // Keep the lock until the program has exited, so that no new server starts.
    let live = live();
    for group in live.iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    std::process::exit(code)
}

/// A child process and all processes that it started.
pub(super) struct ProcessGroup {
    child: Child,
    /// The id of the group; `None` after the child process has ended.
    id: Option<Pid>,
}

impl ProcessGroup {
    /// Starts the process as the leader of its own group.
    pub(super) fn spawn(command: &mut Command) -> io::Result<ProcessGroup> {
        let mut live = live();
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        live.extend(id);
        Ok(ProcessGroup { child, id })
    }

    /// Takes the standard output, input and error of the process. Returns `None` on later calls.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdout, ChildStdin, ChildStderr)> {
        let child = &mut self.child;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        Some((pipes.0?, pipes.1?, pipes.2?))
    }

    /// Waits until the process has ended, then kills the rest of its group.
    pub(super) async fn wait(&mut self) {
        let _ = self.child.wait().await;
        self.kill_rest();
    }

    /// Waits for the process to exit, then sends SIGTERM and finally SIGKILL.
    pub(super) async fn terminate(&mut self) {
        if timeout(EXIT_TIMEOUT, self.wait()).await.is_ok() {
            return;
        }
        self.signal(Signal::TERM);
        if timeout(EXIT_TIMEOUT, self.wait()).await.is_err() {
            self.signal(Signal::KILL);
            self.wait().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may already be gone, which is fine.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills the processes that are left and removes the group from the list.
    fn kill_rest(&mut self) {
        self.signal(Signal::KILL);
        if let Some(id) = self.id.take() {
            live().retain(|it| *it != id);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_rest();
    }
}
