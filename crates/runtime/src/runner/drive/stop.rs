//! `StopSignal`: tells a run to stop, and for which reason.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use retain_core::CancellationToken;

/// The reason to stop a run before its agent is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// A handle or the caller's token cancelled the run.
    Cancelled,
    /// The caller dropped its stream.
    Abandoned,
}

/// Stops one run. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal {
    token: CancellationToken,
    is_abandoned: Arc<AtomicBool>,
}

impl StopSignal {
    /// Creates a signal that `parent` also triggers.
    pub(crate) fn child_of(parent: &CancellationToken) -> StopSignal {
        StopSignal {
            token: parent.child_token(),
            is_abandoned: Arc::default(),
        }
    }

    /// Returns the token that is cancelled when the run must stop.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(crate) fn cancel(&self) {
        self.is_abandoned.store(false, Ordering::Release);
        self.token.cancel();
    }

    /// Stops a run whose caller has disconnected. An earlier cancellation remains the reason.
    pub(crate) fn abandon(&self) {
        if !self.token.is_cancelled() {
            self.is_abandoned.store(true, Ordering::Release);
            self.token.cancel();
        }
    }

    /// Waits until the run must stop.
    pub(crate) async fn wait_for_stop(&self) -> StopReason {
        self.token.cancelled().await;
        if self.is_abandoned.load(Ordering::Acquire) {
            StopReason::Abandoned
        } else {
            StopReason::Cancelled
        }
    }
}
