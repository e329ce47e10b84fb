//! `EventWatch`: tells an agent about the events of the agents that it runs.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use retain_core::Event;
use tokio::sync::Notify;

use crate::interrupts::waiting_calls;

/// Records how sub-agents' events affect the agent that runs them. Clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventWatch(Arc<WatchState>);

#[derive(Debug, Default)]
struct WatchState {
    /// The authors whose escalations count; if empty, all count.
    authors: Vec<String>,
    escalated: AtomicBool,
    waiting: AtomicBool,
    escalates: Notify,
    has_events: AtomicBool,
}

impl EventWatch {
    /// Creates a watch for which only escalations by these authors count.
    pub(crate) fn for_authors(authors: Vec<String>) -> EventWatch {
        EventWatch(Arc::new(WatchState {
            authors,
            ..WatchState::default()
        }))
    }

    /// Records a stored event that the caller has taken. Returns whether the event ends the agent
    /// that emitted it, so that the agent must not continue.
    pub(super) fn record(&self, event: &Event) -> bool {
        let seen = &*self.0;
        seen.has_events.store(true, Ordering::Release);
        if !waiting_calls(event).is_empty() {
            self.record_pause();
        }
        let may_escalate = seen.authors.is_empty() || seen.authors.contains(&event.author);
        if event.actions.escalate != Some(true) || !may_escalate {
            return false;
        }
        seen.escalated.store(true, Ordering::Release);
        seen.escalates.notify_waiters();
        !seen.authors.is_empty()
    }

    /// Records that the run pauses.
    pub(super) fn record_pause(&self) {
        self.0.waiting.store(true, Ordering::Release);
    }

    /// Whether any event was recorded.
    pub(crate) fn has_events(&self) -> bool {
        self.0.has_events.load(Ordering::Acquire)
    }

    /// Whether an event has escalated.
    pub(crate) fn has_escalated(&self) -> bool {
        self.0.escalated.load(Ordering::Acquire)
    }

    /// Whether a call waits for an answer, so that this run must not continue.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.waiting.load(Ordering::Acquire)
    }

    /// Waits until an event escalates.
    pub(crate) async fn wait_for_escalation(&self) {
        loop {
            let notified = self.0.escalates.notified();
            if self.has_escalated() {
                return;
            }
            notified.await;
        }
    }
}
