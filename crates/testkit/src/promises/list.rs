//! Promises about lists.

use std::time::Duration;

use retain_core::{Clock as _, Json, ListCursor, ListSessions, SessionKey, SessionMeta, State};

use super::common::*;
use crate::harness::Harness;

fn keys(listed: &[SessionMeta]) -> Vec<(&str, &str)> {
    let keys = listed.iter();
    keys.map(|meta| (meta.user_id.as_str(), meta.id.as_str()))
        .collect()
}

async fn all(log: &Log, user: Option<&str>) -> Vec<SessionMeta> {
    log.list_sessions(APP, user).await.unwrap().sessions
}

/// Reads a list page by page.
async fn list_in_pages(log: &Log, query: ListSessions, limit: usize) -> Vec<SessionMeta> {
    let mut found = Vec::new();
    let mut after: Option<ListCursor> = None;
    loop {
        let mut query = query.clone().with_limit(limit);
        query.after = after.take();
        let page = log.list(query).await.unwrap();
        assert!(page.sessions.len() <= limit, "a page exceeds the limit");
        found.extend(page.sessions);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

fn app_query() -> ListSessions {
    ListSessions::new(APP)
}

async fn create_some(log: &Log, harness: &Harness) {
    for (user, id) in [
        ("ada", "b"),
        ("grace", "a"),
        ("ada", "a"),
        ("grace", "c"),
        ("ada", "c"),
    ] {
        create_at(log, &SessionKey::new(APP, user, id), "{}").await;
        harness.clock.tick(Duration::from_secs(1));
    }
    create_at(log, &SessionKey::new("other", "ada", "z"), "{}").await;
}

/// A user's list has the sessions of that user only.
pub async fn list_returns_one_users_sessions(harness: Harness) {
    let log = harness.service();
    create_some(&log, &harness).await;
    let of_ada = all(&log, Some("ada")).await;
    assert_eq!(keys(&of_ada), [("ada", "b"), ("ada", "a"), ("ada", "c")]);
    let of_grace = all(&log, Some("grace")).await;
    assert_eq!(keys(&of_grace), [("grace", "a"), ("grace", "c")]);
    assert_eq!(all(&log, Some("nobody")).await, []);
    assert_eq!(all(&log, Some("ad")).await, []);
}

/// Without a user, a list has the sessions of all users of the app, and of no other app.
pub async fn list_without_user_returns_all_users(harness: Harness) {
    let log = harness.service();
    create_some(&log, &harness).await;
    let listed = all(&log, None).await;
    let expected = [
        ("ada", "b"),
        ("grace", "a"),
        ("ada", "a"),
        ("grace", "c"),
        ("ada", "c"),
    ];
    assert_eq!(keys(&listed), expected);
    assert!(listed.iter().all(|meta| meta.app_name == APP));
}

/// Listing the sessions of an unused app returns an empty list.
pub async fn list_of_an_unknown_app_is_empty(harness: Harness) {
    let log = harness.service();
    create(&log, "s").await;
    let listed = log.list_sessions("nowhere", None).await.unwrap();
    assert_eq!((listed.sessions, listed.next), (vec![], None));
}

/// Lists are ordered by last update, then user, then id, all ascending, as in ADK 2.13.
pub async fn list_is_ordered_by_update_user_and_id(harness: Harness) {
    let log = harness.service();
    for (user, id) in [("b", "1"), ("a", "2"), ("a", "1"), ("b", "0"), ("a", "10")] {
        create_at(&log, &SessionKey::new(APP, user, id), "{}").await;
    }
    let same_time = all(&log, None).await;
    let expected = [("a", "1"), ("a", "10"), ("a", "2"), ("b", "0"), ("b", "1")];
    assert_eq!(keys(&same_time), expected);

    // An event changes the update time of its session to its own time, later or earlier.
    let now = harness.clock.now();
    let first = SessionKey::new(APP, "a", "1");
    append(&log, &first, event_at("e", now + 1.0)).await;
    let last = SessionKey::new(APP, "b", "1");
    append(&log, &last, event_at("e", now - 1.0)).await;
    let moved = all(&log, None).await;
    let expected = [("b", "1"), ("a", "10"), ("a", "2"), ("b", "0"), ("a", "1")];
    assert_eq!(keys(&moved), expected);
}

/// Paging returns each session once, in the order of the whole list, ties included.
pub async fn list_pages_show_each_session_once(harness: Harness) {
    let log = harness.service();
    for number in 0..40 {
        let user = ["ada", "grace", "linus"][number % 3];
        create_at(
            &log,
            &SessionKey::new(APP, user, format!("s{number}")),
            "{}",
        )
        .await;
        if number % 4 == 0 {
            harness.clock.tick(Duration::from_millis(1));
        }
    }
    let whole = all(&log, None).await;
    assert_eq!(whole.len(), 40);
    for limit in [1, 2, 7, 39, 40, 41] {
        let paged = list_in_pages(&log, app_query(), limit).await;
        assert_eq!(keys(&paged), keys(&whole), "pages of {limit}");
    }
    let of_ada = app_query().with_user_id("ada");
    let paged = list_in_pages(&log, of_ada, 3).await;
    assert_eq!(keys(&paged), keys(&all(&log, Some("ada")).await));
}

/// In a long list with sessions of many users, each session has the state that a read returns:
/// without keys, with one or several, changed since, or removed.
pub async fn long_list_has_the_state_of_each_session(harness: Harness) {
    let log = harness.service();
    for number in 0..300 {
        let user = ["ada", "grace"][number % 2];
        let key = SessionKey::new(APP, user, format!("s{}", number * 7919 % 300));
        let initial = match number % 5 {
            0 => "{}".to_owned(),
            1 => format!(r#"{{"user:of":"{user}","number":{number}}}"#),
            _ => format!(r#"{{"number":{number},"zeta":null,"more":["{user}",{number}]}}"#),
        };
        create_at(&log, &key, &initial).await;
        if number % 7 == 0 {
            let delta = format!(r#"{{"number":-{number},"late":true}}"#);
            append(&log, &key, state_event("e", &delta)).await;
        }
        if number % 11 == 0 {
            let deleted = log.delete_session(APP, user, &key.id);
            deleted.await.unwrap();
        }
        harness.clock.tick(Duration::from_millis(1));
    }
    for user in [Some("ada"), Some("grace"), None] {
        let listed = all(&log, user).await;
        assert!(
            listed.len() > 100,
            "{} sessions are not a long list",
            listed.len()
        );
        for meta in listed {
            let read = read(&log, &meta.key()).await;
            let state = meta.state.map(|state| sorted(&state));
            assert_eq!(state, Some(sorted(&read.state)), "{:?}", meta.id);
        }
    }
}

/// A list with encoded states equals the plain list, even after one of its sessions has changed.
pub async fn encoded_list_equals_the_list(harness: Harness) {
    let log = harness.service();
    check_encoded(&log).await;
    create_with(&log, "s", r#"{"a":1,"app:b":2}"#).await;
    create_with(&log, "empty", "{}").await;
    create_with(&log, "\"\u{e9}", r#"{"\"":{"deep":[1.0,null]}}"#).await;
    create_at(&log, &SessionKey::new(APP, "grace", "g"), "{}").await;
    check_encoded(&log).await;
    let key = key("s");
    for delta in [r#"{"c":3}"#, r#"{"a":2,"user:d":4}"#, r#"{"app:b":5}"#] {
        let id = format!("e{delta}");
        append(&log, &key, invocation_event(&id, "i", delta)).await;
        check_encoded(&log).await;
    }
    log.rewind(&key, "i").await.unwrap();
    check_encoded(&log).await;
    log.fork(&key, Some(1), Some("fork")).await.unwrap();
    check_encoded(&log).await;
    for number in 0..100 {
        create_with(&log, &format!("s{number}"), &format!(r#"{{"n":{number}}}"#)).await;
        harness.clock.tick(Duration::from_millis(1));
    }
    check_encoded(&log).await;
    let deleted = log.delete_session(APP, "ada", "s50");
    deleted.await.unwrap();
    check_encoded(&log).await;
    // Recreate a session that was listed and deleted.
    create_with(&log, "s50", r#"{"n":"new"}"#).await;
    check_encoded(&log).await;
    let mut event = event("later");
    event.actions.state_delta.insert("n", "changed");
    let key = SessionKey::new(APP, "ada", "s60");
    log.append(&key, event.into()).await.unwrap();
    assert!(check_encoded(&log).await.contains(r#""n":"changed""#));
}

/// Checks that the encoded list of each user equals the plain list. Returns the encoded states of
/// `ada`'s sessions.
async fn check_encoded(log: &Log) -> String {
    let mut states = String::new();
    for user in ["grace", "ada"] {
        let list = log.list_encoded(APP, user).await.unwrap();
        states = list.rows.iter().map(|row| row.state).collect();
        let encoded: Vec<_> = list
            .rows
            .iter()
            .map(|row| {
                let own = row.state.get(1..).unwrap_or_default();
                let own = Json::parse(&format!("{{{own}}}")).unwrap();
                let own = own.as_object().unwrap().clone();
                let state = State::merged(own, &list.app, &list.user);
                (row.id.to_owned(), row.last_update_time, state)
            })
            .collect();
        let listed = all(log, Some(user)).await.into_iter();
        let listed = listed.map(|meta| (meta.id, meta.last_update_time, meta.state.unwrap()));
        assert_eq!(encoded, listed.collect::<Vec<_>>());
    }
    states
}

/// Returns keys and values sorted by key, because the order of scopes may differ.
fn sorted(state: &State) -> Vec<(String, String)> {
    let entries = state.iter();
    let mut entries: Vec<_> = entries
        .map(|(key, value)| (key.to_owned(), value.to_string()))
        .collect();
    entries.sort();
    entries
}

/// Sessions created or deleted between two pages do not affect the others.
pub async fn list_pages_continue_after_a_deleted_session(harness: Harness) {
    let log = harness.service();
    for number in 0..6 {
        create(&log, &format!("s{number}")).await;
        harness.clock.tick(Duration::from_secs(1));
    }
    let query = app_query().with_limit(2);
    let page = log.list(query.clone()).await.unwrap();
    assert_eq!(keys(&page.sessions), [("ada", "s0"), ("ada", "s1")]);
    log.delete_session(APP, USER, "s1").await.unwrap();
    log.delete_session(APP, USER, "s2").await.unwrap();
    create(&log, "s9").await;
    let mut rest = app_query();
    rest.after = page.next;
    let rest = log.list(rest).await.unwrap();
    let expected = ["s3", "s4", "s5", "s9"].map(|id| ("ada", id));
    assert_eq!(keys(&rest.sessions), expected);
}

/// A cursor survives printing and parsing, whatever the ids contain.
pub async fn list_cursor_survives_printing_and_parsing(harness: Harness) {
    let log = harness.service();
    let nasty = ["\"", "a,b", "ünïcode 🦀", "x\ny", "[1]"];
    for id in nasty {
        create(&log, id).await;
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let mut query = app_query().with_limit(1);
        query.after = after;
        let page = log.list(query).await.unwrap();
        found.extend(page.sessions.into_iter().map(|meta| meta.id));
        let Some(next) = page.next else { break };
        after = Some(next.to_string().parse().unwrap());
    }
    found.sort();
    let mut expected = nasty.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
}

/// `list_sessions` always returns the merged state, as in ADK; `list` returns it on request.
pub async fn list_has_state_only_if_requested(harness: Harness) {
    let log = harness.service();
    create_with(&log, "s", r#"{"a":1,"app:b":2}"#).await;
    let key = key("s");
    append(&log, &key, state_event("e", r#"{"c":3,"user:d":4}"#)).await;
    let neighbor = SessionKey::new(APP, "grace", "s");
    create_at(&log, &neighbor, r#"{"user:d":5}"#).await;
    let listed = all(&log, None).await;
    let states: Vec<_> = listed
        .iter()
        .map(|meta| meta.state.clone().unwrap())
        .collect();
    assert_eq!(
        states,
        [
            state(r#"{"a":1,"app:b":2,"c":3,"user:d":4}"#),
            state(r#"{"app:b":2,"user:d":5}"#),
        ]
    );
    let without = log.list(app_query()).await.unwrap().sessions;
    assert!(without.iter().all(|meta| meta.state.is_none()));
    let with = app_query().include_state();
    let with = log.list(with).await.unwrap().sessions;
    assert_eq!(with, listed);
}

/// A list has the creation and update time of each session and the end of its log.
pub async fn list_has_times_and_positions(harness: Harness) {
    let log = harness.service();
    let created = harness.clock.now();
    let key = create(&log, "s").await;
    harness.clock.tick(Duration::from_secs(5));
    append_all(&log, &key, vec![event_at("a", 10.0), event_at("b", 20.5)]).await;
    let listed = all(&log, None).await;
    assert_eq!(listed[0].create_time, created);
    assert_eq!(listed[0].last_update_time, 20.5);
    assert_eq!(listed[0].position, 2);
    assert_eq!((&listed[0].origin, listed[0].expire_time), (&None, None));
    assert_eq!(listed[0].key(), key);
}
