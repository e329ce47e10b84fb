//! Live tail: streams the history and then every new event. It reads by position, so it neither
//! misses nor repeats an event.

use std::{collections::VecDeque, sync::Arc};

use futures_util::stream;

use crate::{
    error::{Result, SessionError},
    event::Event,
    service::EventStream,
    session::{SessionKey, Window},
    store::{ReadDetail, SessionStore},
};

/// Number of events read at a time.
const STEP: usize = 256;

struct Tail<S> {
    store: Arc<S>,
    key: SessionKey,
    /// The last position that was read.
    position: u64,
    /// The incarnation of the first read. A later session with the same id has another one.
    incarnation: Option<u64>,
    ready: VecDeque<(u64, Arc<Event>)>,
    ended: bool,
}

/// Streams the events after `position`, and then each new one.
pub(super) fn tail<S: SessionStore>(store: Arc<S>, key: SessionKey, position: u64) -> EventStream {
    let tail = Tail {
        store,
        key,
        position,
        incarnation: None,
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
            self.read_next_page().await?;
            if self.ready.is_empty() {
                self.store.changed(&self.key, self.position).await;
            }
        }
    }

    async fn read_next_page(&mut self) -> Result<()> {
        let window = Window {
            oldest: Some(STEP),
            ..Window::after(self.position)
        };
        let read = self
            .store
            .read(&self.key, window, ReadDetail::EventsOnly)
            .await?;
        let read = read.filter(|read| {
            self.incarnation.get_or_insert(read.head.incarnation) == &read.head.incarnation
        });
        let read = read.ok_or_else(|| SessionError::not_found(&self.key))?;
        if let Some((last, _)) = read.events.last() {
            self.position = *last;
        }
        self.ready.extend(read.events);
        Ok(())
    }
}
