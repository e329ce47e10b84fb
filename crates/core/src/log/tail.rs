//! Live tail: streams the history and then every new event. It reads by position, so it neither
//! misses nor repeats an event.

use std::{collections::VecDeque, sync::Arc};

use futures_util::stream;

use super::page::Pager;
use crate::{
    error::Result, event::Event, service::EventStream, session::SessionKey, store::SessionStore,
};

struct Tail<S> {
    pages: Pager<S>,
    ready: VecDeque<(u64, Arc<Event>)>,
    ended: bool,
}

/// Streams the events after `position`, and then each new one.
pub(super) fn tail<S: SessionStore>(store: Arc<S>, key: SessionKey, position: u64) -> EventStream {
    let tail = Tail {
        pages: Pager::new(store, key, position),
        ready: VecDeque::new(),
        ended: false,
    };
    Box::pin(stream::unfold(tail, |mut tail| async move {
        if tail.ended {
            return None;
        }
        let next = tail.next().await;
        tail.ended = next.is_err();
        Some((next, tail))
    }))
}

impl<S: SessionStore> Tail<S> {
    async fn next(&mut self) -> Result<(u64, Arc<Event>)> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Ok(next);
            }
            self.ready = self.pages.next().await?.into();
            if self.ready.is_empty() {
                self.pages.wait().await;
            }
        }
    }
}
