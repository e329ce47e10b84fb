//! Process groups of servers. A child process and all processes that it started end together.
//!
//! All live groups are recorded in one place, so that a program that exits immediately can end them
//! all.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Duration, timeout},
};

/// How long a child process may take to exit by itself, and again after SIGTERM.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The live groups.
static LIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<Pid>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exits the program immediately with this code and kills all server child processes with
/// everything they started. Use it if the program cannot wait until toolsets are closed.
pub fn exit_at_once(code: i32) -> ! {
    // Held until exit, so that no new server starts.
    let live = live();
    for group in live.iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    std::process::exit(code)
}

/// A child process and all processes that it started.
pub(super) struct Group {
    child: Child,
    /// `None` after the process has ended.
    id: Option<Pid>,
}

impl Group {
    /// Starts the process as the leader of its own group.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Group> {
        let mut live = live();
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        live.extend(id);
        Ok(Group { child, id })
    }

    /// Takes the standard output, input and error of the process. Returns `None` on later calls.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdout, ChildStdin, ChildStderr)> {
        let child = &mut self.child;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        Some((pipes.0?, pipes.1?, pipes.2?))
    }

    /// Waits until the process has ended, then kills the rest of its group.
    pub(super) async fn ended(&mut self) {
        let _ = self.child.wait().await;
        self.over();
    }

    /// Waits for the process to exit, then sends SIGTERM and finally SIGKILL.
    pub(super) async fn end(&mut self) {
        if timeout(PATIENCE, self.ended()).await.is_ok() {
            return;
        }
        self.signal(Signal::TERM);
        if timeout(PATIENCE, self.ended()).await.is_err() {
            self.signal(Signal::KILL);
            self.ended().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may already be gone, which is fine.
            let _ = kill_process_group(id, signal);
        }
    }

    fn over(&mut self) {
        self.signal(Signal::KILL);
        if let Some(id) = self.id.take() {
            live().retain(|it| *it != id);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.over();
    }
}
