//! Passes the recordings of a case to the replay, message by message.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use retain_core::{BoxError, State};
use retain_replay::{Recordings, Script, Scripts};

/// The recordings of one case and the current message. Clones share both.
#[derive(Debug, Clone)]
pub(crate) struct CaseScript {
    pub(crate) recordings: Recordings,
    message: Arc<AtomicI64>,
}

impl CaseScript {
    pub(crate) fn new(recordings: Recordings) -> CaseScript {
        CaseScript {
            recordings,
            message: Arc::default(),
        }
    }

    /// Sets the current message.
    pub(crate) fn set_message(&self, number: usize) {
        let number = i64::try_from(number).expect("the number of messages must fit");
        self.message.store(number, Ordering::SeqCst);
    }
}

#[async_trait]
impl Scripts for CaseScript {
    async fn script(&self, _state: &State) -> Result<Option<Script>, BoxError> {
        Ok(Some(Script {
            recordings: self.recordings.clone(),
            message: self.message.load(Ordering::SeqCst),
        }))
    }
}
