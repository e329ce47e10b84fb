//! A cache of sessions, so that a run reads only new events.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use retain_core::{Content, Event, Json, JsonMap, Part, Session, SessionKey};

use crate::contents::ContentsCache;

/// Each agent's assembled contents.
pub(crate) type ContentsByAgent = HashMap<String, ContentsCache>;

/// Recently used sessions, bounded in number and in bytes.
#[derive(Debug)]
pub(crate) struct SessionCache {
    max_sessions: usize,
    max_bytes: usize,
    entries: Mutex<CacheEntries>,
}

#[derive(Debug)]
struct CacheEntries {
    sessions: LruCache<SessionKey, CachedSession>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedSession {
    session: Session,
    assembled: ContentsByAgent,
    /// The session's approximate size in bytes.
    bytes: usize,
}

impl SessionCache {
    pub(crate) fn new(max_sessions: usize, max_bytes: usize) -> SessionCache {
        SessionCache {
            max_sessions,
            max_bytes,
            entries: Mutex::new(CacheEntries {
                sessions: LruCache::unbounded(),
                bytes: 0,
            }),
        }
    }

    /// Returns the cached session and its assembled contents. Moves the contents out of the cache,
    /// so that only the caller has them.
    pub(crate) fn get(&self, key: &SessionKey) -> Option<(Session, ContentsByAgent)> {
        let mut entries = self.lock();
        let cached = entries.sessions.get_mut(key)?;
        Some((
            cached.session.clone(),
            std::mem::take(&mut cached.assembled),
        ))
    }

    /// Caches a session without its `temp:` keys, which live for one run. Evicts the least recently
    /// used sessions if necessary.
    pub(crate) fn put(&self, key: SessionKey, mut session: Session, assembled: ContentsByAgent) {
        session.state.clear_temp_keys();
        let mut entries = self.lock();
        let bytes = entries.bytes_of(&key, &session);
        entries.remove(&key);
        if self.max_sessions == 0 || bytes > self.max_bytes {
            return;
        }
        entries.bytes += bytes;
        let cached = CachedSession {
            session,
            assembled,
            bytes,
        };
        entries.sessions.put(key, cached);
        while (entries.sessions.len() > self.max_sessions || entries.bytes > self.max_bytes)
            && let Some((_, evicted)) = entries.sessions.pop_lru()
        {
            entries.bytes -= evicted.bytes;
        }
    }

    /// Evicts a session.
    pub(crate) fn evict(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntries {
    /// Returns a session's approximate size. Counts only events added since the session was last
    /// cached.
    fn bytes_of(&self, key: &SessionKey, session: &Session) -> usize {
        let cached = self.sessions.peek(key);
        let cached = cached.filter(|cached| cached.session.events.len() <= session.events.len());
        let (from, bytes) =
            cached.map_or((0, 0), |cached| (cached.session.events.len(), cached.bytes));
        let new = (from..session.events.len()).filter_map(|at| session.events.get(at));
        bytes + new.map(event_bytes).sum::<usize>()
    }

    fn remove(&mut self, key: &SessionKey) {
        if let Some(cached) = self.sessions.pop(key) {
            self.bytes -= cached.bytes;
        }
    }
}

/// Returns an event's approximate size: the struct, and the texts and data in it.
fn event_bytes(event: &Event) -> usize {
    let parts = event.content().map(Content::parts).unwrap_or_default();
    let part_bytes = |part: &Part| {
        let text = part.text.as_ref().map_or(0, String::len);
        let data = part
            .inline_data
            .as_ref()
            .and_then(|blob| blob.data.as_ref());
        let answer = part.function_response.as_ref();
        let answer = answer.and_then(|answer| answer.response.as_ref());
        size_of::<Part>() + text + data.map_or(0, |data| data.len()) + answer.map_or(0, map_bytes)
    };
    let delta = map_bytes(&event.actions.state_delta);
    size_of::<Event>() + delta + parts.iter().map(part_bytes).sum::<usize>()
}

fn map_bytes(map: &JsonMap) -> usize {
    map.iter()
        .map(|(key, value)| key.len() + json_bytes(value))
        .sum()
}

fn json_bytes(value: &Json) -> usize {
    let entries = match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(json_bytes).sum(),
        Json::Object(map) => map_bytes(map),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
    };
    size_of::<Json>() + entries
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn least_recently_used_session_is_evicted_first() {
        let cache = SessionCache::new(2, usize::MAX);
        for id in ["a", "b", "a", "c"] {
            cache.put(key(id), session(id, 1), ContentsByAgent::new());
        }
        assert!(cache.get(&key("a")).is_some());
        assert!(cache.get(&key("b")).is_none());
        assert!(cache.get(&key("c")).is_some());
    }

    #[test]
    fn session_cache_is_bounded_by_bytes() {
        let one = event_bytes(&Event::user_text("x"));
        let cache = SessionCache::new(10, 10 * one);
        cache.put(key("a"), session("a", 6), ContentsByAgent::new());
        cache.put(key("b"), session("b", 6), ContentsByAgent::new());
        assert!(cache.get(&key("a")).is_none());
        cache.put(key("b"), session("b", 10), ContentsByAgent::new());
        assert_eq!(
            cache.lock().bytes,
            10 * one,
            "only the new events were added to the size"
        );
        cache.put(key("b"), session("b", 11), ContentsByAgent::new());
        assert!(cache.get(&key("b")).is_none());
        assert_eq!(cache.lock().bytes, 0);
        let mut big = session("c", 1);
        big.events.push(2, Event::user_text("x".repeat(20 * one)));
        cache.put(key("c"), big, ContentsByAgent::new());
        assert!(cache.get(&key("c")).is_none());
    }

    #[test]
    fn session_cache_does_not_keep_temp_keys() {
        let cache = SessionCache::new(10, usize::MAX);
        let mut session = session("a", 1);
        session.state.set("temp:x", 1);
        session.state.set("x", 1);
        cache.put(key("a"), session, ContentsByAgent::new());
        let (session, _) = cache.get(&key("a")).unwrap();
        assert_eq!(session.state.len(), 1);
    }
}
