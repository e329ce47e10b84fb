//! One window of turns: a user message in, a mock model's answer out, both stored. All Rust peers
//! share this loop; a peer provides its runner.

use crate::{Done, Meter, Res, text};
use serde::Deserialize;
use std::sync::{Arc, Mutex};

/// Name of the agent in all peers.
pub const AGENT: &str = "assistant";
/// Instruction of the agent in all peers.
pub const INSTRUCTION: &str = "Be brief.";
/// The answer of the mock model, returned immediately and in one piece.
pub const ANSWER: &str = "Yes: two quiet rooms on a high floor are free on both dates.";
/// The session with one real turn, whose two events are the template of all history.
pub const PATTERN: &str = "pattern";

/// Sessions with history, and the turns to run in each of them.
#[derive(Debug, Clone, Deserialize)]
pub struct Turns {
    /// Prefix of the session names; must be unused.
    pub prefix: String,
    pub sessions: u64,
    /// Number of turns that each session has before the warm-up.
    pub history: u64,
    /// Number of turns to run in each session before the timing.
    pub warm: u64,
    /// Number of timed turns in each session.
    pub count: u64,
}

/// Records the number of contents in each call of the mock model.
#[derive(Debug, Clone, Default)]
pub struct CallLog(Arc<Mutex<Vec<u64>>>);

impl CallLog {
    /// Records one call.
    pub fn record(&self, contents: usize) {
        let mut calls = self.0.lock().unwrap_or_else(|e| e.into_inner());
        calls.push(contents as u64);
    }

    /// Returns and clears the recorded calls.
    pub fn take(&self) -> Vec<u64> {
        let mut calls = self.0.lock().unwrap_or_else(|e| e.into_inner());
        std::mem::take(&mut *calls)
    }
}

/// A peer's runner, with an agent and a mock model on one store.
pub trait TurnRunner {
    /// Creates sessions with `turns` turns each, outside the timing. Their events are copies of the
    /// two events of `PATTERN` with new ids, times and user texts. Must not fill the caches of the
    /// service that the runner uses.
    fn fill(&mut self, sessions: &[String], turns: u64) -> Res<()>;
    /// Runs one turn and waits until it has ended.
    fn turn(&mut self, session: &str, text: &str) -> Res<()>;
    /// Finishes the work that the store has deferred. This is part of the timing.
    fn settle(&mut self) -> Res<()> {
        Ok(())
    }
    /// Returns the number of events stored in the session.
    fn stored(&mut self, session: &str) -> Res<u64>;
    /// Returns the calls that the mock model recorded.
    fn seen(&self) -> &CallLog;
}

/// Runs one window. The driver checks `seen` and `stored`.
pub(crate) fn window(runner: &mut dyn TurnRunner, plan: &Turns, meter: &mut Meter) -> Res<Done> {
    runner.fill(&[PATTERN.to_string()], 0)?;
    runner.turn(PATTERN, &text(1))?;
    let ids: Vec<String> = (0..plan.sessions)
        .map(|i| format!("{}-{i}", plan.prefix))
        .collect();
    runner.fill(&ids, plan.history)?;
    for id in &ids {
        for n in 1..=plan.warm {
            runner.turn(id, &text(plan.history + n))?;
        }
    }
    runner.seen().take();
    let mut done = Done::default();
    let deadline = meter.start();
    'all: for id in &ids {
        for n in 1..=plan.count {
            runner.turn(id, &text(plan.history + plan.warm + n))?;
            done.ops += 1;
            if deadline.passed() {
                break 'all;
            }
        }
    }
    runner.settle()?;
    meter.stop();
    done.seen = Some(runner.seen().take());
    let stored: Res<Vec<u64>> = ids.iter().map(|id| runner.stored(id)).collect();
    done.stored = Some(stored?);
    Ok(done)
}
