//! The process groups of servers: a child process and all that it started, which end together.
//!
//! All that live are known in one place, so that a program that ends at once leaves none behind.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Duration, timeout},
};

/// How long a child process has to end by itself, and again after it was asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The groups that live.
static LIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<Pid>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the program at once with this code, and with it all servers that are child processes, with all
/// that they started. For who cannot wait until toolsets are closed.
pub fn exit_at_once(code: i32) -> ! {
    // Held to the end: no server is started any more.
    let live = live();
    for group in live.iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    std::process::exit(code)
}

/// A child process and all that it started.
pub(super) struct Group {
    child: Child,
    /// `None` when it is over.
    id: Option<Pid>,
}

impl Group {
    /// Starts it, as the leader of a group of its own.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Group> {
        let mut live = live();
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        live.extend(id);
        Ok(Group { child, id })
    }

    /// Its standard output, input and error, once.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdout, ChildStdin, ChildStderr)> {
        let child = &mut self.child;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        Some((pipes.0?, pipes.1?, pipes.2?))
    }

    /// Done when the process has ended. What it started ends with it.
    pub(super) async fn ended(&mut self) {
        let _ = self.child.wait().await;
        self.over();
    }

    /// Waits until the process ends; asks it to, and then makes it.
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
            // A group that is gone is what was wanted.
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
