//! Promises about unusual ids: each is stored exactly as given, or rejected by a known rule.
//!
//! The rule rejects the empty id, an id with a NUL character, and an id of more than 512 bytes. A
//! session id of blanks counts as missing, so the session gets a new one.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use retain_core::{
    JsonMap, Limits, ListCursor, ListSessions, RunToken, SessionError, SessionKey, State, Window,
};

use super::common::*;
use crate::harness::Harness;

/// Returns ids that are known to break software.
fn odd_ids() -> Vec<String> {
    let mut ids: Vec<String> = ODD_IDS.iter().map(|id| (*id).to_owned()).collect();
    ids.push("x".repeat(511));
    ids.push("x".repeat(512));
    ids.push("x".repeat(513));
    ids.push("é".repeat(256));
    ids.push("é".repeat(257));
    ids.push("k".repeat(1024));
    ids.push("🦀".repeat(128));
    ids.push("../".repeat(170));
    ids.push("very long ".repeat(10_000));
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert!(distinct.len() == ids.len() && ids.len() >= 60);
    ids
}

#[rustfmt::skip]
const ODD_IDS: &[&str] = &[
    // Invisible ids, and what a careless trim makes of them.
    "", " ", "  ", "\t", "\n", "\r\n", "\u{a0}", "\u{3000}", "\u{200b}", "\u{feff}",
    // Look-alikes.
    "bob", "Bob", "BOB", "bob ", " bob", "bo\u{200b}b", "b\u{43e}b", "Böb", "Bo\u{308}b", "ﬁ", "fi",
    "ß", "ss", "ı", "i", "İ", "K", "\u{212a}", "Å", "\u{212b}",
    // Control characters.
    "\0", "a\0", "\0a", "a\0b", "a", "ab", "a\nb", "a\rb", "a\tb", "a\u{1}b", "a\u{7f}b", "a\u{1b}[31mb",
    "a\u{85}b", "a\u{2028}b",
    // Paths.
    ".", "..", "../", "../../etc/passwd", "/", "//", "a/b", "a\\b", "C:\\x", "a/", "~", "con", "nul",
    // SQL.
    "'", "''", "\"", "`", "';--", "'; DROP TABLE sessions; --", "\" OR \"\"=\"", "1 OR 1=1", "?", "?1",
    ":app", "@p", "$1", "NULL", "null",
    // Patterns.
    "*", "?*", "[a-z]", "%", "_", "%%", "a%", "a_b", "\\%", ".*", "^a$",
    // Syntax of other languages.
    "{}", "[]", "{\"a\":1}", "\\u0000", "%00", "%2e%2e", "&amp;", "<script>", "${x}", "{{x}}", "a b", "a+b",
    "a&b=c", "#", "-", "--help", "0", "00", "1", "1.0", "01", "-1", "true", "app:", "user:x", "a:b:c",
    // Scripts.
    "مرحبا", "\u{202e}abc", "שלום", "日本語", "🦀", "👩‍👩‍👧‍👦", "é\u{301}\u{301}", "\u{10ffff}", "\u{fffd}", "\u{e000}",
];

/// Whether the rule above rejects an id.
fn is_refused(id: &str) -> bool {
    id.is_empty() || id.contains('\0') || id.len() > Limits::ID_BYTES_MAX
}

/// Creates a session for each key and checks that exactly the invalid ones fail.
async fn create_each(log: &Log, keys: &[SessionKey], odd: fn(&SessionKey) -> &str) {
    for key in keys {
        let state = State::from([("me", odd(key))]);
        let created = log.create_session(&key.app, &key.user, Some(state), Some(&key.id));
        match created.await {
            Ok(created) => {
                assert!(!is_refused(odd(key)), "{key} should be refused");
                assert_eq!(created.key(), *key);
            }
            Err(SessionError::Invalid { .. }) => assert!(is_refused(odd(key)), "{key}"),
            Err(other) => panic!("{key}: {other:?}"),
        }
    }
}

/// Checks that each key reads its own session, and that deleting one leaves the others.
async fn find_and_delete_each(log: &Log, keys: &[SessionKey], odd: fn(&SessionKey) -> &str) {
    let stored: Vec<&SessionKey> = keys.iter().filter(|key| !is_refused(odd(key))).collect();
    for key in &stored {
        append(log, key, event(odd(key))).await;
    }
    for key in &stored {
        let found = read(log, key).await;
        assert_eq!(found.key(), **key);
        assert_eq!(found.state.get("me").unwrap(), odd(key));
        assert_eq!(ids(&found), [odd(key)]);
    }
    for (number, key) in stored.iter().enumerate() {
        let deleted = log.delete_session(&key.app, &key.user, &key.id);
        deleted.await.unwrap();
        assert_eq!(log.read(key, Window::NONE).await.unwrap(), None);
        if let Some(next) = stored.get(number + 1) {
            assert_eq!(read(log, next).await.state.get("me").unwrap(), odd(next));
        }
    }
    for key in keys.iter().filter(|key| is_refused(odd(key))) {
        let read = log.read(key, Window::ALL).await;
        assert_fails!(read, SessionError::Invalid { .. });
    }
}

/// Unusual session ids are stored and listed exactly, or rejected.
pub async fn unusual_session_ids_are_stored_exactly_or_refused(harness: Harness) {
    let log = harness.service();
    // A blank session id counts as missing.
    let odd = odd_ids().into_iter().filter(|id| !id.trim().is_empty());
    let keys: Vec<SessionKey> = odd.map(|id| key(&id)).collect();
    create_each(&log, &keys, |key| &key.id).await;
    let listed = log.list_sessions(APP, Some(USER)).await.unwrap().sessions;
    let listed: BTreeSet<String> = listed.into_iter().map(|meta| meta.id).collect();
    let stored = keys.iter().map(|key| key.id.clone());
    let expected: BTreeSet<String> = stored.filter(|id| !is_refused(id)).collect();
    assert_eq!(listed, expected);
    find_and_delete_each(&log, &keys, |key| &key.id).await;
}

/// Users with unusual ids have separate sessions and state, or are rejected.
pub async fn unusual_user_ids_are_stored_exactly_or_refused(harness: Harness) {
    let log = harness.service();
    let odd = odd_ids();
    let keys: Vec<SessionKey> = odd.iter().map(|id| SessionKey::new(APP, id, "s")).collect();
    create_each(&log, &keys, |key| &key.user).await;
    for key in keys.iter().filter(|key| !is_refused(&key.user)) {
        let mark = JsonMap::from([("user:mark", key.user.as_str())]);
        let mut event = event("mark");
        event.actions.state_delta = mark;
        append(&log, key, event).await;
    }
    for key in &keys {
        let listed = log.list_sessions(APP, Some(&key.user)).await;
        let marked = log.get_user_state(APP, &key.user).await;
        if is_refused(&key.user) {
            assert_fails!(listed, SessionError::Invalid { .. });
            assert_fails!(marked, SessionError::Invalid { .. });
            continue;
        }
        let listed = listed.unwrap().sessions;
        assert_eq!(listed.len(), 1, "{key}");
        assert_eq!(listed[0].key(), *key);
        assert_eq!(marked.unwrap()["mark"], key.user.as_str());
    }
    erase_each(&log, &keys).await;
}

/// Erases the users one by one; each has exactly one session.
async fn erase_each(log: &Log, keys: &[SessionKey]) {
    for key in keys.iter().filter(|key| !is_refused(&key.user)) {
        let receipt = log.erase_user(APP, &key.user).await.unwrap();
        let expected = (1, 1, 2);
        let found = (receipt.sessions, receipt.events, receipt.state_keys);
        assert_eq!(found, expected, "{key}");
    }
    assert_eq!(log.list_sessions(APP, None).await.unwrap().sessions, []);
}

/// Apps with unusual names have separate sessions and state, or are rejected.
pub async fn unusual_app_names_are_stored_exactly_or_refused(harness: Harness) {
    let log = harness.service();
    let odd = odd_ids();
    let keys: Vec<SessionKey> = odd
        .iter()
        .map(|app| SessionKey::new(app, USER, "s"))
        .collect();
    create_each(&log, &keys, |key| &key.app).await;
    for key in &keys {
        let listed = log.list_sessions(&key.app, None).await;
        if is_refused(&key.app) {
            assert_fails!(listed, SessionError::Invalid { .. });
            let state = log.get_app_state(&key.app).await;
            assert_fails!(state, SessionError::Invalid { .. });
            continue;
        }
        let listed = listed.unwrap().sessions;
        assert_eq!(listed.len(), 1, "{key}");
        assert_eq!(listed[0].key(), *key);
        assert!(log.get_app_state(&key.app).await.unwrap().is_empty());
    }
    find_and_delete_each(&log, &keys, |key| &key.app).await;
}

/// An unusual event or invocation id is stored exactly and no other id finds it, or it is rejected.
/// An empty event id counts as missing; an empty invocation id is valid.
pub async fn unusual_event_ids_are_stored_exactly_or_refused(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut stored = Vec::new();
    for id in odd_ids().into_iter().filter(|id| !id.is_empty()) {
        let event = invocation_event(&id, &id, "{}");
        let appended = log.append(&key, event.clone().into()).await;
        if is_refused(&id) {
            assert_fails!(appended, SessionError::Invalid { .. });
            let refused = invocation_event("fine", &id, "{}");
            assert_fails!(
                log.append(&key, refused.into()).await,
                SessionError::Invalid { .. }
            );
            continue;
        }
        stored.push(id);
        assert_eq!(positions(&appended.unwrap()), [stored.len() as u64]);
        assert_eq!(append(&log, &key, event).await, stored.len() as u64);
    }
    assert_eq!(ids(&read(&log, &key).await), stored);
    // A fork that ends before an invocation does not have it, so no other id is mistaken for it.
    for (place, invocation) in stored.iter().enumerate().step_by(10) {
        let fork = log.fork(&key, Some(place as u64), None).await.unwrap();
        let unknown = log.rewind(&fork.key(), invocation).await;
        assert_fails!(unknown, SessionError::InvocationNotFound { .. });
    }
}

/// Unusual state keys are stored exactly in every scope. A NUL character and a length above the
/// limit are rejected.
pub async fn unusual_state_keys_are_stored_exactly_or_refused(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let key_bytes_max = Limits::default().state_key_bytes;
    let mut expected = State::new();
    for (number, odd) in odd_ids().into_iter().enumerate() {
        for scope in ["", "user:", "app:"] {
            let name = format!("{scope}{odd}");
            let mut event = event(&format!("{scope}{number}"));
            event.actions.state_delta = JsonMap::from([(name.as_str(), odd.as_str())]);
            let appended = log.append(&key, event.into()).await;
            if odd.contains('\0') {
                assert_fails!(appended, SessionError::Invalid { .. });
            } else if name.len() > key_bytes_max {
                assert_fails!(appended, SessionError::TooLarge { .. });
            } else {
                appended.unwrap();
                expected.set(name, odd.as_str());
            }
        }
    }
    let stored = read(&log, &key).await;
    assert_eq!(stored.state, expected);
    let last = log.state_at(&key, stored.position).await.unwrap();
    assert_eq!(last, expected);
    let initial = log.create_session(APP, "initial", Some(expected.clone()), None);
    assert_eq!(initial.await.unwrap().state, expected);
}

/// Unusual ids survive export and import.
pub async fn unusual_ids_survive_export_and_import(harness: Harness) {
    let log = harness.service();
    let odd: Vec<String> = odd_ids()
        .into_iter()
        .filter(|id| !is_refused(id) && !id.trim().is_empty())
        .collect();
    for id in &odd {
        let key = SessionKey::new(APP, id, id);
        create_at(&log, &key, "{}").await;
        append(&log, &key, event(id)).await;
    }
    let scope = retain_core::ExportScope::App { app: APP.into() };
    let lines = export(&log, scope).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    let receipt = copy.import(stream_of(&lines)).await.unwrap();
    assert_eq!(receipt.sessions, odd.len() as u64);
    for id in &odd {
        let key = SessionKey::new(APP, id, id);
        assert_eq!(read(&copy, &key).await, read(&log, &key).await);
    }
}

/// An operation on an invalid session key, or a list that continues from one, reports the invalid
/// key, not a failure of the store.
pub async fn invalid_session_keys_are_refused(harness: Harness) {
    let log = harness.service();
    let there = create(&log, "s").await;
    let odd = key("a\0b");
    let run = RunToken(1);
    assert_fails!(log.renew_run(&odd, run).await, SessionError::Invalid { .. });
    assert_fails!(log.end_run(&odd, run).await, SessionError::Invalid { .. });
    let first = log.tail(&odd, 0).next().await.unwrap();
    assert_fails!(first, SessionError::Invalid { .. });
    let mut session = read(&log, &there).await;
    session.id = odd.id.clone();
    let refreshed = log.refresh(&mut session).await;
    assert_fails!(refreshed, SessionError::Invalid { .. });
    for (user, id) in [("a\0b", "s"), (USER, "a\0b")] {
        let after = ListCursor {
            last_update_time: 0.0,
            user: user.to_owned(),
            id: id.to_owned(),
        };
        let query = ListSessions::new(APP).with_after(after);
        assert_fails!(log.list(query).await, SessionError::Invalid { .. });
    }
    let scope = retain_core::ExportScope::Session(there);
    let mut lines = export(&log, scope).await;
    for line in lines.iter_mut().filter(|line| line.contains(r#""id":"s""#)) {
        let id = r#""id":"copy","origin":{"sessionId":"a\u0000b","position":0}"#;
        *line = line.replace(r#""id":"s""#, id);
    }
    let imported = log.import(stream_of(&lines)).await;
    assert_fails!(imported, SessionError::Invalid { .. });
}
