//! Sessions that the runner keeps at hand, so that a turn reads only what is new.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use retain_core::{Session, SessionKey};

use crate::contents::ContentsCache;

/// What was assembled for each agent.
pub(crate) type Assembled = HashMap<String, ContentsCache>;

/// Recently used sessions, within a number of sessions and of events.
#[derive(Debug)]
pub(crate) struct KeptSessions {
    max_sessions: usize,
    max_events: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    sessions: HashMap<SessionKey, Kept>,
    /// Which session was used when, oldest first.
    by_use: BTreeMap<u64, SessionKey>,
    events: usize,
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    used: u64,
    session: Session,
    assembled: Assembled,
}

impl KeptSessions {
    pub(crate) fn new(max_sessions: usize, max_events: usize) -> KeptSessions {
        KeptSessions {
            max_sessions,
            max_events,
            inside: Mutex::default(),
        }
    }

    /// The session as it was kept last, and what was assembled of it. What was assembled is handed
    /// over: nobody else has it meanwhile.
    pub(crate) fn get(&self, key: &SessionKey) -> Option<(Session, Assembled)> {
        let mut inside = self.lock();
        let kept = inside.sessions.get_mut(key)?;
        Some((kept.session.clone(), std::mem::take(&mut kept.assembled)))
    }

    /// Keeps a session, and lets go of those that were not used for longest.
    pub(crate) fn put(&self, key: SessionKey, session: Session, assembled: Assembled) {
        let events = session.events.len();
        let mut inside = self.lock();
        inside.remove(&key);
        if self.max_sessions == 0 || events > self.max_events {
            return;
        }
        inside.clock += 1;
        let used = inside.clock;
        inside.by_use.insert(used, key.clone());
        inside.events += events;
        let kept = Kept {
            used,
            session,
            assembled,
        };
        inside.sessions.insert(key, kept);
        while inside.sessions.len() > self.max_sessions || inside.events > self.max_events {
            let Some((_, oldest)) = inside.by_use.first_key_value() else {
                return;
            };
            let oldest = oldest.clone();
            inside.remove(&oldest);
        }
    }

    /// Lets go of a session.
    pub(crate) fn forget(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn remove(&mut self, key: &SessionKey) {
        if let Some(kept) = self.sessions.remove(key) {
            self.by_use.remove(&kept.used);
            self.events -= kept.session.events.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retain_core::Event;

    fn key(id: &str) -> SessionKey {
        SessionKey::new("app", "ada", id)
    }

    fn session(id: &str, events: u64) -> Session {
        let mut session = Session::new("app", "ada", id);
        for position in 1..=events {
            session.events.push(position, Event::user_text("x"));
        }
        session
    }

    #[test]
    fn the_session_that_was_not_used_for_longest_goes_first() {
        let kept = KeptSessions::new(2, 100);
        for id in ["a", "b", "a", "c"] {
            kept.put(key(id), session(id, 1), Assembled::new());
        }
        assert!(kept.get(&key("a")).is_some());
        assert!(kept.get(&key("b")).is_none());
        assert!(kept.get(&key("c")).is_some());
    }

    #[test]
    fn events_are_bounded_too() {
        let kept = KeptSessions::new(10, 10);
        kept.put(key("a"), session("a", 6), Assembled::new());
        kept.put(key("b"), session("b", 6), Assembled::new());
        assert!(kept.get(&key("a")).is_none());
        kept.put(key("b"), session("b", 11), Assembled::new());
        assert!(kept.get(&key("b")).is_none());
        assert_eq!(kept.lock().events, 0);
    }
}
