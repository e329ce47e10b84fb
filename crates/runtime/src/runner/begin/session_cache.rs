//! A cache of sessions, so that a run reads only new events.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use lru::LruCache;
use retain_core::{
    Event, Json, JsonMap, Session, SessionKey,
    budget::{BudgetUse, ByteBudget, EvictBytes, Meter, Reservation, json_cost},
};

use crate::contents::ContentsCache;

/// Each agent's assembled contents.
pub(crate) type ContentsByAgent = HashMap<String, ContentsCache>;

/// Bytes of a cached session besides its content.
const SESSION_BYTES: usize = 1024;

/// Recently used sessions, bounded in number and in bytes. They also count against the budget of
/// the process, which evicts them when requests need room.
#[derive(Debug)]
pub(crate) struct SessionCache {
    max_sessions: usize,
    max_bytes: usize,
    budget: ByteBudget,
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
    /// The approximate size of the session's events in bytes.
    event_bytes: usize,
    /// The approximate size of everything.
    bytes: usize,
    /// Shared with the runs that use the session.
    reservation: Arc<Reservation>,
}

impl SessionCache {
    pub(crate) fn new(
        max_sessions: usize,
        max_bytes: usize,
        budget: &ByteBudget,
    ) -> Arc<SessionCache> {
        Arc::new_cyclic(|cache: &Weak<SessionCache>| {
            budget.register(cache.clone());
            SessionCache {
                max_sessions,
                max_bytes,
                budget: budget.clone(),
                entries: Mutex::new(CacheEntries {
                    sessions: LruCache::unbounded(),
                    bytes: 0,
                }),
            }
        })
    }

    /// Returns the cached session and its assembled contents. Moves the contents out of the cache,
    /// so that only the caller has them. The session counts against the budget until the caller's
    /// request ends, even if it is evicted meanwhile.
    pub(crate) fn get(&self, key: &SessionKey) -> Option<(Session, ContentsByAgent)> {
        let mut entries = self.lock();
        let cached = entries.sessions.get_mut(key)?;
        if let Some(meter) = Meter::current() {
            meter.hold(Arc::clone(&cached.reservation));
        }
        Some((
            cached.session.clone(),
            std::mem::take(&mut cached.assembled),
        ))
    }

    /// Caches a session without its `temp:` keys, which live for one run. Evicts the least recently
    /// used sessions if necessary.
    pub(crate) fn put(&self, key: SessionKey, mut session: Session, assembled: ContentsByAgent) {
        session.state.clear_temp_keys();
        let event_bytes = self.event_bytes(&key, &session);
        let assembled_bytes: usize = assembled.values().map(ContentsCache::bytes).sum();
        let state_bytes: usize = session.state.iter().map(entry_bytes).sum();
        let bytes = SESSION_BYTES + event_bytes + state_bytes + assembled_bytes;
        let mut entries = self.lock();
        entries.remove(&key);
        if self.max_sessions == 0 || bytes > self.max_bytes {
            return;
        }
        while entries.sessions.len() >= self.max_sessions || entries.bytes > self.max_bytes - bytes
        {
            entries.evict_oldest();
        }
        let Some(reservation) = self.reserve(&mut entries, bytes) else {
            return;
        };
        entries.bytes += bytes;
        let cached = CachedSession {
            session,
            assembled,
            event_bytes,
            bytes,
            reservation: Arc::new(reservation),
        };
        entries.sessions.put(key, cached);
    }

    /// Reserves bytes of the budget, at the expense of the other sessions in this cache.
    fn reserve(&self, entries: &mut CacheEntries, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.budget.empty(BudgetUse::Sessions);
        while reservation.try_grow_cache(bytes).is_err() {
            entries.evict_oldest()?;
        }
        Some(reservation)
    }

    /// Returns the approximate size of a session's events. Counts only events added since the
    /// session was last cached, without holding the lock.
    fn event_bytes(&self, key: &SessionKey, session: &Session) -> usize {
        let counted = self.lock().sessions.peek(key).map(|cached| {
            let count = cached.session.events.len();
            (count, cached.event_bytes)
        });
        let counted = counted.filter(|(count, _)| *count <= session.events.len());
        let (from, bytes) = counted.unwrap_or_default();
        let new = (from..session.events.len()).filter_map(|at| session.events.get(at));
        bytes + new.map(event_bytes).sum::<usize>()
    }

    /// Evicts a session.
    pub(crate) fn evict(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    /// Evicts all sessions of a user.
    pub(crate) fn evict_user(&self, user: &str) {
        let mut entries = self.lock();
        let keys = entries.sessions.iter().map(|(key, _)| key);
        let keys: Vec<SessionKey> = keys.filter(|key| key.user == user).cloned().collect();
        keys.iter().for_each(|key| entries.remove(key));
    }

    /// Lists the cached sessions with their incarnations.
    pub(crate) fn incarnations(&self) -> Vec<(SessionKey, u64)> {
        let entries = self.lock();
        let sessions = entries.sessions.iter();
        let sessions = sessions.filter(|(_, cached)| cached.session.incarnation != 0);
        let incarnation = |(key, cached): (&SessionKey, &CachedSession)| {
            (key.clone(), cached.session.incarnation)
        };
        sessions.map(incarnation).collect()
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EvictBytes for SessionCache {
    fn evict_bytes(&self, bytes: usize) {
        let mut entries = self.lock();
        let goal = entries.bytes.saturating_sub(bytes);
        while entries.bytes > goal && entries.evict_oldest().is_some() {}
    }
}

impl CacheEntries {
    fn remove(&mut self, key: &SessionKey) {
        if let Some(cached) = self.sessions.pop(key) {
            self.bytes -= cached.bytes;
        }
    }

    /// Evicts the least recently used session; `None` if there is none.
    fn evict_oldest(&mut self) -> Option<()> {
        let (_, evicted) = self.sessions.pop_lru()?;
        self.bytes -= evicted.bytes;
        Some(())
    }
}

/// Returns an event's approximate size. Its text has every field, also those that Retain does not
/// know. About half of its values are fields of the struct.
fn event_bytes(event: &Event) -> usize {
    let text = event.to_json().unwrap_or_default();
    let values = json_cost(text.as_bytes()) - text.len();
    size_of::<Event>() + text.len() + values / 2
}

fn entry_bytes((key, value): (&str, &Json)) -> usize {
    /// A key of a map, its allocation, and its place in the map's index.
    const ENTRY_BYTES: usize = 96;
    ENTRY_BYTES + key.len() + json_bytes(value)
}

fn map_bytes(map: &JsonMap) -> usize {
    map.iter().map(entry_bytes).sum()
}

fn json_bytes(value: &Json) -> usize {
    /// The allocation of a list or map.
    const ALLOCATION_BYTES: usize = 64;
    let entries = match value {
        Json::String(text) => text.len(),
        Json::Array(items) => ALLOCATION_BYTES + items.iter().map(json_bytes).sum::<usize>(),
        Json::Object(map) => ALLOCATION_BYTES + map_bytes(map),
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
        let cache = SessionCache::new(2, usize::MAX, &ByteBudget::default());
        for id in ["a", "b", "a", "c"] {
            cache.put(key(id), session(id, 1), ContentsByAgent::new());
        }
        assert!(cache.get(&key("a")).is_some());
        assert!(cache.get(&key("b")).is_none());
        assert!(cache.get(&key("c")).is_some());
    }

    #[test]
    fn session_cache_is_bounded_by_bytes() {
        let size = |events| SESSION_BYTES + events * event_bytes(&Event::user_text("x"));
        let cache = SessionCache::new(10, size(10), &ByteBudget::default());
        cache.put(key("a"), session("a", 6), ContentsByAgent::new());
        cache.put(key("b"), session("b", 6), ContentsByAgent::new());
        assert!(cache.get(&key("a")).is_none());
        cache.put(key("b"), session("b", 10), ContentsByAgent::new());
        assert_eq!(
            cache.lock().bytes,
            size(10),
            "only the new events were added to the size"
        );
        cache.put(key("b"), session("b", 11), ContentsByAgent::new());
        assert!(cache.get(&key("b")).is_none());
        assert_eq!(cache.lock().bytes, 0);
        let mut big = session("c", 1);
        big.events.push(2, Event::user_text("x".repeat(size(20))));
        cache.put(key("c"), big, ContentsByAgent::new());
        assert!(cache.get(&key("c")).is_none());
    }

    /// Sessions with 100 kB each in another place.
    fn large_sessions() -> [(&'static str, Session); 5] {
        let large = || Json::from("x".repeat(100_000));
        let mut state = session("state", 1);
        state.state.set("k", large());
        let with_event = |id, json: String| {
            let mut session = session(id, 0);
            session.events.push(1, Event::from_json(&json).unwrap());
            session
        };
        let event = |fields: String| {
            format!(r#"{{"id":"e","author":"a","invocationId":"i","timestamp":1.0,{fields}}}"#)
        };
        let large = large();
        let call = format!(
            r#""content":{{"parts":[{{"functionCall":{{"name":"f","args":{{"k":{large}}}}}}}]}}"#
        );
        let metadata = format!(r#""customMetadata":{{"k":{large}}}"#);
        let unknown = format!(r#""newerField":{large}"#);
        let lists = format!(r#""customMetadata":{{"k":[{}1]}}"#, "[],".repeat(1_000));
        [
            ("state", state),
            ("call", with_event("call", event(call))),
            ("metadata", with_event("metadata", event(metadata))),
            ("unknown", with_event("unknown", event(unknown))),
            ("lists", with_event("lists", event(lists))),
        ]
    }

    #[test]
    fn size_of_a_cached_session_includes_state_arguments_metadata_and_unknown_fields() {
        for (place, session) in large_sessions() {
            let cache = SessionCache::new(10, usize::MAX, &ByteBudget::default());
            cache.put(key(place), session, ContentsByAgent::new());
            let least = if place == "lists" { 80_000 } else { 100_000 };
            assert!(
                cache.lock().bytes >= least,
                "{place}: {}",
                cache.lock().bytes
            );
        }
    }

    #[tokio::test]
    async fn cached_sessions_count_against_the_budget_until_their_runs_end() {
        let budget = ByteBudget::new(1024 * 1024);
        let parts = [budget.part(250_000), budget.part(250_000)];
        let caches = parts
            .each_ref()
            .map(|part| SessionCache::new(10, usize::MAX, part));
        for (place, session) in large_sessions() {
            caches[0].put(key(place), session, ContentsByAgent::new());
        }
        let cached = budget.used_for(BudgetUse::Sessions);
        assert!((100_000..250_000).contains(&cached), "{cached}");
        let run = Meter::new(&budget, BudgetUse::Requests);
        let last = run.scope(async { caches[0].get(&key("lists")) }).await;
        assert!(last.is_some());
        // Requests win over caches, but a session that a run uses still counts.
        let request = budget
            .part(usize::MAX)
            .try_reserve(BudgetUse::Requests, 850_000);
        let held = budget.used_for(BudgetUse::Sessions);
        assert!(request.is_ok() && held > 0 && caches[0].get(&key("unknown")).is_none());
        drop(run);
        drop(request);
        caches[0].evict_bytes(usize::MAX);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn session_cache_does_not_keep_temp_keys() {
        let cache = SessionCache::new(10, usize::MAX, &ByteBudget::default());
        let mut session = session("a", 1);
        session.state.set("temp:x", 1);
        session.state.set("x", 1);
        cache.put(key("a"), session, ContentsByAgent::new());
        let (session, _) = cache.get(&key("a")).unwrap();
        assert_eq!(session.state.len(), 1);
    }
}
