//! One window of turns: a user message in, a mock model's answer out, both stored. The loop is
//! here, so that it is the same for every Rust peer; a peer provides its runner.

use crate::{Done, Meter, Res, text};
use serde::Deserialize;
use std::sync::{Arc, Mutex};

/// Name of the agent in all peers.
pub const AGENT: &str = "assistant";
/// Its instruction.
pub const INSTRUCTION: &str = "Be brief.";
/// The answer of the mock model, returned at once and in one piece.
pub const ANSWER: &str = "Yes: two quiet rooms on a high floor are free on both dates.";
/// The session whose only real turn is the template of all history.
pub const PATTERN: &str = "pattern";

/// Sessions with history, and the turns to run in each of them.
#[derive(Debug, Clone, Deserialize)]
pub struct Turns {
    /// Prefix of the session names; must be unused.
    pub prefix: String,
    pub sessions: u64,
    /// Turns that are already stored in each session.
    pub history: u64,
    /// Turns run in each session before the timing.
    pub warm: u64,
    /// Turns run in each session inside the timing.
    pub count: u64,
}

/// The number of contents sent to the mock model, by call.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<u64>>>);

impl Seen {
    /// Record one call.
    pub fn note(&self, contents: usize) {
        let mut calls = self.0.lock().unwrap_or_else(|e| e.into_inner());
        calls.push(contents as u64);
    }

    /// Return and clear the recorded calls.
    pub fn take(&self) -> Vec<u64> {
        let mut calls = self.0.lock().unwrap_or_else(|e| e.into_inner());
        std::mem::take(&mut *calls)
    }
}

/// A peer's runner, with an agent and a mock model on one store.
pub trait Turner {
    /// Create sessions with that many turns. Not timed. Their events are copies of the two events
    /// of `PATTERN` (with new ids, times and user texts), if `turns` is not 0. This must not fill
    /// caches of the runner's service.
    fn fill(&mut self, sessions: &[String], turns: u64) -> Res<()>;
    /// Run one turn to its end.
    fn turn(&mut self, session: &str, text: &str) -> Res<()>;
    /// Finish work that the store has deferred; inside the timing.
    fn settle(&mut self) -> Res<()> {
        Ok(())
    }
    /// Number of events stored in the session.
    fn stored(&mut self, session: &str) -> Res<u64>;
    /// The calls that the mock model recorded.
    fn seen(&self) -> &Seen;
}

/// Run one window. The driver checks `seen` and `stored`.
pub(crate) fn window(turner: &mut dyn Turner, plan: &Turns, meter: &mut Meter) -> Res<Done> {
    turner.fill(&[PATTERN.to_string()], 0)?;
    turner.turn(PATTERN, &text(1))?;
    let ids: Vec<String> = (0..plan.sessions)
        .map(|i| format!("{}-{i}", plan.prefix))
        .collect();
    turner.fill(&ids, plan.history)?;
    for id in &ids {
        for n in 1..=plan.warm {
            turner.turn(id, &text(plan.history + n))?;
        }
    }
    turner.seen().take();
    let mut done = Done::default();
    let deadline = meter.start();
    'all: for id in &ids {
        for n in 1..=plan.count {
            turner.turn(id, &text(plan.history + plan.warm + n))?;
            done.ops += 1;
            if deadline.passed() {
                break 'all;
            }
        }
    }
    turner.settle()?;
    meter.stop();
    done.seen = Some(turner.seen().take());
    let stored: Res<Vec<u64>> = ids.iter().map(|id| turner.stored(id)).collect();
    done.stored = Some(stored?);
    Ok(done)
}
