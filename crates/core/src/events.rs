//! The events of a session in memory: shared, append-only, cheap to clone and to push to.
//!
//! Events are stored in chunks behind reference counts. A clone copies two pointers. A push copies
//! at most the last chunk, and every 64th push also copies the list of chunks, which takes a few
//! microseconds even for 100,000 events. A live session can thus grow without copying its history.

use std::{ops::Index, sync::Arc};

use crate::event::Event;

/// Number of events in a chunk.
const CHUNK: usize = 64;

#[derive(Debug, Clone)]
struct PositionedEvent {
    position: u64,
    event: Arc<Event>,
}

/// The events of a session, oldest first. Behaves like a slice.
///
/// ```
/// use retain_core::{Event, Events};
/// let mut events = Events::default();
/// events.push(1, Event::user_text("hi"));
/// let earlier = events.clone();
/// events.push(2, Event::model_text("agent", "hello"));
/// assert_eq!((earlier.len(), events.len()), (1, 2));
/// assert_eq!(events[1].author, "agent");
/// assert_eq!(events.iter().rev().next().unwrap().author, "agent");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// Full chunks, oldest first.
    chunks: Arc<Vec<Arc<[PositionedEvent]>>>,
    /// The newest events: fewer than [`CHUNK`].
    tail: Arc<Vec<PositionedEvent>>,
}

impl Events {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the event at `index`, counted from the oldest loaded event.
    pub fn get(&self, index: usize) -> Option<&Event> {
        self.entry(index).map(|entry| &*entry.event)
    }

    /// Returns the event at `index` as a shared pointer.
    pub fn get_shared(&self, index: usize) -> Option<Arc<Event>> {
        self.entry(index).map(|entry| Arc::clone(&entry.event))
    }

    /// Returns the log position of the event at `index`.
    pub fn position(&self, index: usize) -> Option<u64> {
        self.entry(index).map(|entry| entry.position)
    }

    /// Returns the oldest loaded event.
    pub fn first(&self) -> Option<&Event> {
        self.get(0)
    }

    /// Returns the newest event.
    pub fn last(&self) -> Option<&Event> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Iterates over the events, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Event> + ExactSizeIterator {
        (0..self.len()).map(|index| &self[index])
    }

    /// Iterates over the events with their log positions.
    pub fn iter_with_positions(
        &self,
    ) -> impl DoubleEndedIterator<Item = (u64, &Event)> + ExactSizeIterator {
        (0..self.len()).map(|index| {
            let entry = &self.at(index);
            (entry.position, &*entry.event)
        })
    }

    /// Adds the event at `position` of the log.
    pub fn push(&mut self, position: u64, event: impl Into<Arc<Event>>) {
        let event = event.into();
        let tail = Arc::make_mut(&mut self.tail);
        tail.push(PositionedEvent { position, event });
        if tail.len() == CHUNK {
            let full = std::mem::take(tail);
            Arc::make_mut(&mut self.chunks).push(full.into());
        }
    }

    /// Drops every event after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let (whole, rest) = (len / CHUNK, len % CHUNK);
        let last: Vec<PositionedEvent> = (whole * CHUNK..whole * CHUNK + rest)
            .map(|index| self.at(index).clone())
            .collect();
        Arc::make_mut(&mut self.chunks).truncate(whole);
        self.tail = Arc::new(last);
    }

    fn entry(&self, index: usize) -> Option<&PositionedEvent> {
        match self.chunks.get(index / CHUNK) {
            Some(chunk) => chunk.get(index % CHUNK),
            None => self.tail.get(index - self.chunks.len() * CHUNK),
        }
    }

    fn at(&self, index: usize) -> &PositionedEvent {
        match self.entry(index) {
            Some(entry) => entry,
            None => panic!(
                "event index {index} is out of range: the list has {} events",
                self.len()
            ),
        }
    }
}

impl Index<usize> for Events {
    type Output = Event;

    fn index(&self, index: usize) -> &Event {
        &self.at(index).event
    }
}

impl PartialEq for Events {
    fn eq(&self, other: &Events) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<E: Into<Arc<Event>>> FromIterator<(u64, E)> for Events {
    fn from_iter<I: IntoIterator<Item = (u64, E)>>(entries: I) -> Events {
        let mut events = Events::default();
        events.extend(entries);
        events
    }
}

impl<E: Into<Arc<Event>>> Extend<(u64, E)> for Events {
    fn extend<I: IntoIterator<Item = (u64, E)>>(&mut self, entries: I) {
        for (position, event) in entries {
            self.push(position, event);
        }
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = Box<dyn DoubleEndedIterator<Item = &'a Event> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: u64) -> Events {
        (1..=n)
            .map(|i| (i, Event::user_text(i.to_string())))
            .collect()
    }

    #[test]
    fn events_are_indexed_correctly_across_chunks() {
        for n in [0, 1, 63, 64, 65, 128, 200] {
            let events = numbered(n);
            assert_eq!(events.len() as u64, n);
            let positions: Vec<u64> = events.iter_with_positions().map(|(p, _)| p).collect();
            assert_eq!(positions, (1..=n).collect::<Vec<_>>());
            assert_eq!(events.get(n as usize), None);
            assert_eq!(events.iter().rev().count() as u64, n);
        }
    }

    #[test]
    fn clone_does_not_see_later_pushes_or_truncation() {
        let mut events = numbered(100);
        let before = events.clone();
        events.push(101, Event::user_text("new"));
        events.truncate(70);
        assert_eq!((before.len(), events.len()), (100, 70));
        assert_eq!(events.position(69), Some(70));
        events.truncate(64);
        assert_eq!(events.len(), 64);
        events.push(65, Event::user_text("x"));
        assert_eq!(events.position(64), Some(65));
    }

    #[test]
    fn clone_shares_the_events() {
        let events = numbered(130);
        let copy = events.clone();
        for index in [0, 64, 129] {
            let (a, b) = (events.get_shared(index), copy.get_shared(index));
            assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        }
    }
}
