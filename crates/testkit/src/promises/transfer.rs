//! Promises about export and import: a log moves between stores without loss.

use std::time::Duration;

use retain_core::{
    Clock as _, CreateSession, Event, ExportScope, ImportReceipt, JsonMap, Limits, Session,
    SessionError, SessionKey, SessionMeta, State, Window,
};

use super::common::*;
use crate::harness::Harness;

/// Creates two users whose logs have deltas, rewinds, a fork and a time to live.
pub(super) async fn fill(log: &Log, harness: &Harness) -> Vec<SessionKey> {
    let one = create_with(log, "one", r#"{"a":1,"n":null,"user:u":1,"app:p":[1]}"#).await;
    harness.clock.tick(Duration::from_secs(7));
    let exact = r#"{"z":123456789012345678901234567890,"a":1.50,"m":{"y":null,"b":[]}}"#;
    append(log, &one, invocation_event("e1", "i1", exact)).await;
    append(log, &one, invocation_event("e2", "i2", r#"{"a":2,"x":1}"#)).await;
    log.rewind(&one, "i2").await.unwrap();
    append(
        log,
        &one,
        invocation_event("e4", "i4", r#"{"a":4,"user:v":4}"#),
    )
    .await;
    let fork = log.fork(&one, Some(3), Some("fork")).await.unwrap().key();
    append(log, &fork, event_at("of-fork", 12.5)).await;
    let brief = create_for(log, "brief", Duration::from_millis(100_500)).await;
    append(log, &brief, event("e1")).await;
    let empty = create_with(log, "empty", r#"{"only":"state"}"#).await;
    let grace = SessionKey::new(APP, "grace", "one");
    create_at(log, &grace, r#"{"user:g":1}"#).await;
    append_all(log, &grace, numbered_events("e", 300)).await;
    vec![one, fork, brief, empty, grace]
}

async fn metas(log: &Log) -> Vec<SessionMeta> {
    log.list_sessions(APP, None).await.unwrap().sessions
}

/// Returns everything that a reader can see of a session, except its expiry time.
async fn visible_data(log: &Log, key: &SessionKey) -> (Vec<String>, SessionMeta, Vec<State>) {
    let session = read(log, key).await;
    let listed = metas(log).await;
    let mut meta = listed.into_iter().find(|m| m.key() == *key).unwrap();
    meta.expire_time = None;
    let mut states = Vec::new();
    for position in 0..=session.position.min(20) {
        states.push(log.state_at(key, position).await.unwrap());
    }
    (event_texts(&session), meta, states)
}

fn of_session(key: &SessionKey) -> ExportScope {
    ExportScope::Session(key.clone())
}

fn of_user() -> ExportScope {
    ExportScope::User {
        app: APP.into(),
        user: USER.into(),
    }
}

fn of_app() -> ExportScope {
    ExportScope::App { app: APP.into() }
}

/// Imports `scope` into an empty store and compares `keys` there with the original.
async fn assert_round_trip(harness: &Harness, log: &Log, scope: ExportScope, keys: &[SessionKey]) {
    let lines = export(log, scope.clone()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    let receipt = copy.import(stream_of(&lines)).await.unwrap();
    assert_eq!(receipt.sessions, keys.len() as u64);
    let mut events = 0;
    for key in keys {
        assert_eq!(visible_data(&copy, key).await, visible_data(log, key).await);
        assert_eq!(read(&copy, key).await, read(log, key).await);
        events += read(log, key).await.position;
    }
    assert_eq!(receipt.events, events);
    assert_eq!(metas(&copy).await.len(), keys.len());
    assert_eq!(copy.check().await.unwrap(), []);
    // Exporting the copy gives the same lines.
    assert_eq!(export(&copy, scope).await, lines);
}

/// A session is equal in another store: events byte for byte, state now and at each position,
/// times, origin.
pub async fn session_survives_export_and_import(harness: Harness) {
    let log = harness.service();
    for key in fill(&log, &harness).await {
        assert_round_trip(&harness, &log, of_session(&key), &[key]).await;
    }
}

/// An imported session can be read by time, even after further appends.
pub async fn imported_session_can_be_read_by_time(harness: Harness) {
    let log = harness.service();
    let times = [
        ("ordered", [10.0, 20.0, 20.0, 30.0]),
        ("jumbled", [10.0, 30.0, 20.0, 40.0]),
        ("late", [10.0, 20.0, 30.0, 9e9]),
    ];
    let mut lines = Vec::new();
    for (id, times) in times {
        let key = create(&log, id).await;
        for (number, time) in times.into_iter().enumerate() {
            append(&log, &key, event_at(&format!("e{number}"), time)).await;
        }
        lines.extend(export(&log, of_session(&key)).await);
    }
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    copy.import(stream_of(&lines)).await.unwrap();
    for (id, times) in times {
        let key = SessionKey::new(APP, USER, id);
        let mut times = times.to_vec();
        for (number, time) in [25.0, 50.0, 35.0].into_iter().enumerate() {
            for since in [5.0, 15.0, 20.0, 22.0, 28.0, 33.0, 45.0, 8e9] {
                let late = (1..).zip(&times).filter(|(_, time)| **time >= since);
                let expected: Vec<u64> = late.map(|(position, _)| position).collect();
                let window = Window {
                    after_timestamp: Some(since),
                    ..Window::ALL
                };
                let found = read_window(&copy, &key, window).await;
                assert_eq!(loaded_positions(&found), expected, "{id} since {since}");
            }
            append(&copy, &key, event_at(&format!("more{number}"), time)).await;
            times.push(time);
        }
    }
}

/// All sessions of a user and the shared state survive.
pub async fn user_survives_export_and_import(harness: Harness) {
    let log = harness.service();
    let keys = fill(&log, &harness).await;
    assert_round_trip(&harness, &log, of_user(), &keys[..4]).await;
}

/// All sessions of an app survive.
pub async fn app_survives_export_and_import(harness: Harness) {
    let log = harness.service();
    let keys = fill(&log, &harness).await;
    assert_round_trip(&harness, &log, of_app(), &keys).await;
}

/// Shared state is imported; keys that the target already has keep their value.
pub async fn import_sets_missing_shared_keys(harness: Harness) {
    let log = harness.service();
    create_with(&log, "s", r#"{"user:a":1,"user:b":1,"app:a":1,"app:b":1}"#).await;
    let lines = export(&log, of_session(&key("s"))).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    create_with(&copy, "there", r#"{"user:a":"kept","app:b":"kept"}"#).await;
    copy.import(stream_of(&lines)).await.unwrap();
    let expected = r#"{"user:a":"kept","user:b":1,"app:a":1,"app:b":"kept"}"#;
    assert_eq!(read(&copy, &key("s")).await.state, state(expected));
}

/// Returns the state of the default user and the state of the app, without key prefixes.
async fn shared_keys(log: &Log) -> (JsonMap, JsonMap) {
    let user = log.get_user_state(APP, USER).await.unwrap();
    (user, log.get_app_state(APP).await.unwrap())
}

/// An export of a user without sessions has the shared state. Importing it once or twice sets the
/// keys that are missing.
pub async fn user_without_sessions_survives_export_and_import(harness: Harness) {
    let log = harness.service();
    let exact = r#"{"user:a":1.50,"user:n":null,"app:a":[1],"app:b":2}"#;
    let gone = create_with(&log, "gone", exact).await;
    log.delete_session(&gone.app, &gone.user, &gone.id)
        .await
        .unwrap();
    let lines = export(&log, of_user()).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let all = (map(r#"{"a":1.50,"n":null}"#), map(r#"{"a":[1],"b":2}"#));

    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    for _ in 0..2 {
        let receipt = copy.import(stream_of(&lines)).await.unwrap();
        assert_eq!(receipt, ImportReceipt::default());
        assert_eq!(shared_keys(&copy).await, all);
        assert_eq!(export(&copy, of_user()).await, lines);
    }
    assert_eq!(copy.check().await.unwrap(), []);

    // Existing keys keep their value. Shared state is imported too if another line or a session of
    // another user follows it.
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    create_with(&copy, "there", r#"{"user:a":"kept","app:b":"kept"}"#).await;
    create_at(&log, &SessionKey::new(APP, "grace", "s"), r#"{"user:g":1}"#).await;
    // The export of the app begins with the shared state of the user without sessions.
    let of_both = export(&log, of_app()).await;
    assert_eq!(of_both.len(), 3, "{of_both:?}");
    let of_grace = of_both[1..].to_vec();
    for followed_by in [&of_grace[..], &of_grace[1..]] {
        let both = [&lines, followed_by].concat();
        assert_eq!(copy.import(stream_of(&both)).await.unwrap().sessions, 1);
        let expected = (
            map(r#"{"a":"kept","n":null}"#),
            map(r#"{"b":"kept","a":[1]}"#),
        );
        assert_eq!(shared_keys(&copy).await, expected);
        copy.delete_session(APP, "grace", "s").await.unwrap();
    }
    let of_grace = copy.get_user_state(APP, "grace").await.unwrap();
    assert_eq!(of_grace, map(r#"{"g":1}"#));
}

/// A rejected import sets no shared state, whether that state or the session after it is invalid.
pub async fn refused_import_sets_no_shared_keys(harness: Harness) {
    let lines = small_export(&harness.service()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    assert_refused_at(&copy, &lines[..4], 4, "the session is truncated").await;
    let shared = |app: &str, user: &str, keys: &str| {
        format!(
            r#"{{"retain":"shared","version":1,"appName":{app},"userId":{user},"appState":{{"a":1}},"userState":{keys}}}"#
        )
    };
    let (app, user) = (format!("{APP:?}"), format!("{USER:?}"));
    for line in [
        shared("7", &user, r#"{"a":1}"#),
        shared(&app, "null", r#"{"a":1}"#),
        shared(&app, &user, "[1]"),
    ] {
        assert_refused_at(&copy, std::slice::from_ref(&line), 1, &line).await;
    }
    for line in [
        shared(&app, r#""""#, r#"{"a":1}"#),
        shared(r#""nul\u0000""#, &user, r#"{"a":1}"#),
        shared(&app, &user, r#"{"nul\u0000":1}"#),
    ] {
        let refused = copy.import(stream_of(&[line])).await;
        assert_fails!(refused, SessionError::Invalid { .. });
    }
    assert_eq!(shared_keys(&copy).await, (JsonMap::new(), JsonMap::new()));
}

/// The time to live is imported and starts again in the target.
pub async fn ttl_survives_export_and_import(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", Duration::from_millis(100_500)).await;
    harness.clock.tick(Duration::from_secs(90));
    let lines = export(&log, of_session(&key)).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    copy.import(stream_of(&lines)).await.unwrap();
    let expires = metas(&copy).await[0].expire_time;
    assert_eq!(expires, Some(elsewhere.clock.now() + 100.5));
    elsewhere.clock.tick(Duration::from_secs(101));
    assert_eq!(copy.read(&key, Window::ALL).await.unwrap(), None);
}

/// Rewinds work after an import: state at each position, and further rewinds.
pub async fn rewinds_survive_export_and_import(harness: Harness) {
    let log = harness.service();
    let keys = fill(&log, &harness).await;
    let lines = export(&log, of_session(&keys[0])).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    copy.import(stream_of(&lines)).await.unwrap();
    for log in [&log, &copy] {
        log.rewind(&keys[0], "i1").await.unwrap();
        let now = read(log, &keys[0]).await.state;
        assert_eq!(super::state::own_state(&now), map(r#"{"a":1,"n":null}"#));
    }
}

/// An imported session accepts further events and recognizes repeats.
pub async fn imported_session_accepts_appends(harness: Harness) {
    let log = harness.service();
    let keys = fill(&log, &harness).await;
    let lines = export(&log, of_app()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    copy.import(stream_of(&lines)).await.unwrap();
    let stored = read(&copy, &keys[0]).await;
    assert_eq!(append(&copy, &keys[0], stored.events[1].clone()).await, 2);
    let next = state_event("new", r#"{"new":1}"#);
    assert_eq!(append(&copy, &keys[0], next).await, 5);
    begin(&copy, &keys[0], event("run")).await.unwrap();
}

/// An import overwrites neither an existing session nor shared state.
pub async fn import_of_an_existing_session_changes_nothing(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"user:u":1}"#).await;
    append(&log, &key, event("e1")).await;
    let lines = export(&log, of_session(&key)).await;
    append(&log, &key, state_event("e2", r#"{"a":2}"#)).await;
    let before = read(&log, &key).await;
    let refused = log.import(stream_of(&lines)).await;
    assert_fails!(refused, SessionError::AlreadyExists { key: found } if found == key);
    assert_eq!(read(&log, &key).await, before);

    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    create_with(&copy, "s", r#"{"b":1}"#).await;
    let before = read(&copy, &key).await;
    let refused = copy.import(stream_of(&lines)).await;
    assert_fails!(refused, SessionError::AlreadyExists { .. });
    assert_eq!(read(&copy, &key).await, before);
}

/// Returns the lines of a small export: shared keys, session, three events, session, one event.
async fn small_export(log: &Log) -> Vec<String> {
    let one = create_with(log, "one", r#"{"a":1,"user:u":1}"#).await;
    append_all(log, &one, numbered_events("e", 3)).await;
    let two = create(log, "two").await;
    append(log, &two, event("f")).await;
    let lines = export(log, of_app()).await;
    assert_eq!(lines.len(), 7, "{lines:?}");
    lines
}

/// Fails unless the import is rejected at `line` and session `one` does not exist afterwards.
async fn assert_refused_at(copy: &Log, lines: &[String], line: u64, what: &str) {
    let refused = copy.import(stream_of(lines)).await;
    match refused {
        Err(SessionError::Import { line: named, .. }) => assert_eq!(named, line, "{what}"),
        other => panic!("{what}: expected an import error, got {other:?}"),
    }
    let one = copy.read(&key("one"), Window::ALL).await.unwrap();
    assert_eq!(one, None, "{what}");
}

/// A truncated file is detected at any line; sessions before the cut stay complete.
pub async fn truncated_import_leaves_no_partial_session(harness: Harness) {
    let lines = small_export(&harness.service()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    for kept in 2..5 {
        assert_refused_at(&copy, &lines[..kept], kept as u64, "cut off").await;
    }
    let mut half = lines[..5].to_vec();
    let middle = half[4].len() / 2;
    half[4].truncate(middle);
    assert_refused_at(&copy, &half, 5, "cut in a line").await;
    // The first session is complete when the second one is truncated.
    let refused = copy.import(stream_of(&lines[..6])).await;
    assert_fails!(refused, SessionError::Import { line: 6, .. });
    assert_eq!(read(&copy, &key("one")).await.position, 3);
    let two = copy.read(&key("two"), Window::ALL).await.unwrap();
    assert_eq!(two, None);
}

/// An invalid line is reported by number, and nothing of its session stays.
pub async fn corrupt_import_names_the_line(harness: Harness) {
    let lines = small_export(&harness.service()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    let changed = |line: usize, change: &dyn Fn(&str) -> String| {
        let mut changed = lines.clone();
        changed[line - 1] = change(&changed[line - 1]);
        changed
    };
    let cases: Vec<(&str, u64, Vec<String>)> = vec![
        ("no JSON", 4, changed(4, &|_| "garbled {".into())),
        ("no object", 4, changed(4, &|_| "[1]".into())),
        (
            "neither kind",
            3,
            changed(3, &|_| r#"{"retain":"x"}"#.into()),
        ),
        (
            "another version",
            2,
            changed(2, &|l| l.replace(r#""version":1"#, r#""version":99"#)),
        ),
        (
            "version of shared keys",
            1,
            changed(1, &|l| l.replace(r#""version":1"#, r#""version":99"#)),
        ),
        (
            "no id",
            2,
            changed(2, &|l| l.replace(r#""id":"one""#, r#""id":1"#)),
        ),
        ("no state", 2, changed(2, &|l| l.replace("state", "stat"))),
        (
            "an event without id",
            4,
            changed(4, &|l| l.replace(r#""id":"e2""#, r#""id":"""#)),
        ),
        (
            "an id used before",
            4,
            changed(4, &|l| l.replace(r#""id":"e2""#, r#""id":"e1""#)),
        ),
        (
            "a position of its own",
            4,
            changed(4, &|l| l.replace(r#""position":2"#, r#""position":7"#)),
        ),
        (
            "fewer events than came",
            5,
            changed(2, &|l| l.replace(r#""events":3"#, r#""events":2"#)),
        ),
        (
            "more events than came",
            6,
            changed(2, &|l| l.replace(r#""events":3"#, r#""events":4"#)),
        ),
    ];
    for (what, line, lines) in cases {
        assert_refused_at(&copy, &lines, line, what).await;
    }
    // The rejected imports left nothing that blocks a valid one.
    let receipt = copy.import(stream_of(&lines)).await.unwrap();
    assert_eq!((receipt.sessions, receipt.events), (2, 4));
}

/// Lines in the wrong order are rejected at the first misplaced line.
pub async fn import_with_lines_out_of_order_is_refused(harness: Harness) {
    let lines = small_export(&harness.service()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    assert_refused_at(&copy, &swapped, 3, "swapped").await;
    let mut doubled = lines.clone();
    doubled.insert(3, lines[2].clone());
    assert_refused_at(&copy, &doubled, 4, "doubled").await;
    let mut missing = lines.clone();
    missing.remove(3);
    assert_refused_at(&copy, &missing, 4, "removed").await;
    let headless = lines[2..].to_vec();
    assert_refused_at(&copy, &headless, 1, "no session before it").await;
    let mut reversed = lines.clone();
    reversed.reverse();
    assert_refused_at(&copy, &reversed, 1, "reversed").await;
}

/// Empty lines and an empty file import nothing and are not an error.
pub async fn import_ignores_empty_lines(harness: Harness) {
    let lines = small_export(&harness.service()).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    let nothing = copy.import(stream_of(&[])).await.unwrap();
    assert_eq!(nothing, ImportReceipt::default());
    let spaced: Vec<String> = lines
        .into_iter()
        .flat_map(|line| [line, "  ".to_owned()])
        .collect();
    let receipt = copy.import(stream_of(&spaced)).await.unwrap();
    assert_eq!(receipt.sessions, 2);
}

/// The export of an app or a user without data is empty.
pub async fn export_of_a_scope_without_sessions_is_empty(harness: Harness) {
    let log = harness.service();
    create(&log, "s").await;
    let nowhere = ExportScope::App {
        app: "nowhere".into(),
    };
    assert_eq!(export(&log, nowhere).await, Vec::<String>::new());
    let nobody = ExportScope::User {
        app: APP.into(),
        user: "nobody".into(),
    };
    assert_eq!(export(&log, nobody).await, Vec::<String>::new());
}

/// An export has the data of its scope only.
pub async fn export_contains_only_its_scope(harness: Harness) {
    let log = harness.service();
    create_with(&log, "mine", r#"{"user:mine":1}"#).await;
    create_with(&log, "also", r#"{"k":"also-mine"}"#).await;
    let grace = SessionKey::new(APP, "grace", "hers");
    create_at(&log, &grace, r#"{"user:hers":1}"#).await;
    let other = SessionKey::new("other", USER, "elsewhere");
    create_at(&log, &other, r#"{"app:elsewhere":1}"#).await;
    let session = export(&log, of_session(&key("mine"))).await.concat();
    assert!(session.contains("mine") && !session.contains("also"));
    let user = export(&log, of_user()).await.concat();
    assert!(user.contains("also") && !user.contains("hers"));
    let app = export(&log, of_app()).await.concat();
    assert!(app.contains("hers") && !app.contains("elsewhere"));
}

/// Each line of an export is a JSON object.
pub async fn export_is_one_json_object_per_line(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "line\nbreak", r#"{"a":"x\ny"}"#).await;
    append(&log, &key, state_event("e\r\n", r#"{"b":"\u2028"}"#)).await;
    for line in export(&log, of_app()).await {
        assert!(!line.contains(['\n', '\r']));
        let parsed: JsonMap = map(&line);
        assert!(!parsed.is_empty());
    }
}

/// An event that is nested too deeply to export is rejected when it is appended.
pub async fn event_too_deep_to_export_is_refused(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let nested = |n: usize| {
        state_event(
            "e",
            &format!(r#"{{"k":{}{}}}"#, "[".repeat(n), "]".repeat(n)),
        )
    };
    let mut deepest = 0;
    for depth in [10, 50, 100, 110, 115, 116, 117, 118, 119, 120, 125] {
        let mut event = nested(depth);
        event.id = format!("e{depth}");
        match log.append(&key, event.into()).await {
            Ok(_) => deepest = depth,
            refused => assert_fails!(refused, SessionError::Invalid { .. }),
        }
    }
    assert!((110..120).contains(&deepest), "{deepest}");
    let lines = export(&log, ExportScope::Session(key.clone())).await;
    read(&log, &key).await.to_json().unwrap();
    log.delete_session(APP, USER, "s").await.unwrap();
    log.import(stream_of(&lines)).await.unwrap();
}

/// Creates a session of the default user with a state and events.
async fn create_with_history(
    log: &Log,
    id: &str,
    initial: &str,
    events: Vec<Event>,
) -> retain_core::Result<Session> {
    let new = CreateSession::new(APP, USER)
        .with_session_id(id)
        .with_state(state(initial));
    log.create_with_events(new, events).await
}

/// A session created with its history equals one to which the events were appended one by one.
pub async fn session_created_with_its_history_equals_an_appended_one(harness: Harness) {
    let log = harness.service();
    let initial = r#"{"a":1,"kept":null,"temp:t":1}"#;
    let mut events = vec![
        invocation_event("e1", "i1", r#"{"a":2,"temp:x":1}"#),
        invocation_event("e2", "i2", r#"{"a":3,"x":1}"#),
        invocation_event("e3", "i3", "{}"),
    ];
    events[2].actions.rewind_before_invocation_id = Some("i2".to_owned());
    events.extend(numbered_events("n", 2 * Limits::default().batch_events));
    let one = create_with(&log, "one", initial).await;
    for event in events.clone() {
        append(&log, &one, event).await;
    }
    let two = create_with_history(&log, "two", initial, events)
        .await
        .unwrap();
    assert_eq!(
        two,
        read(&log, &two.key()).await,
        "the returned state differs from the stored one"
    );
    let (bodies, mut meta, states) = visible_data(&log, &one).await;
    meta.id = "two".to_owned();
    assert_eq!(visible_data(&log, &two.key()).await, (bodies, meta, states));
    assert_eq!(
        append(&log, &two.key(), event("next")).await,
        two.position + 1
    );
}

/// If one event is rejected, neither the session nor any of its state exists.
pub async fn create_with_a_refused_history_stores_nothing(harness: Harness) {
    let log = harness.second_with(|s| s.limits.state_bytes = 2000).await;
    let initial = r#"{"user:u":1,"app:p":1}"#;
    let after = |last: Event| {
        let events = numbered_events("e", 700).into_iter();
        events.chain([last]).collect::<Vec<Event>>()
    };
    let large = format!(r#"{{"large":"{}"}}"#, "x".repeat(2001));
    let made = create_with_history(&log, "s", initial, after(event("e7"))).await;
    assert_fails!(made, SessionError::Conflict { .. });
    let made = create_with_history(&log, "s", initial, after(event("\0"))).await;
    assert_fails!(made, SessionError::Invalid { .. });
    let made = create_with_history(&log, "s", initial, after(state_event("x", &large))).await;
    assert_fails!(made, SessionError::TooLarge { .. });
    assert_eq!(log.read(&key("s"), Window::ALL).await.unwrap(), None);
    let there = create_with(&log, "there", r#"{"mine":1}"#).await;
    let made = create_with_history(&log, "there", initial, after(event("x"))).await;
    assert_fails!(made, SessionError::AlreadyExists { .. });
    let read = read(&log, &there).await;
    assert_eq!((read.state, read.position), (state(r#"{"mine":1}"#), 0));
}

/// Creating a session with events sets shared state from the initial state, not from the events. It
/// sets only missing keys, and fails if the shared state would exceed its limit.
pub async fn history_of_a_created_session_changes_no_shared_keys(harness: Harness) {
    let log = harness.second_with(|s| s.limits.state_bytes = 2000).await;
    create_with(&log, "there", r#"{"user:a":"kept","app:b":"kept"}"#).await;
    let initial = r#"{"user:a":1,"user:b":1,"app:a":1,"app:b":1}"#;
    let events = vec![state_event(
        "e",
        r#"{"user:a":2,"user:c":2,"app:b":2,"app:c":2}"#,
    )];
    let made = create_with_history(&log, "s", initial, events)
        .await
        .unwrap();
    let expected = r#"{"user:a":"kept","user:b":1,"app:a":1,"app:b":"kept"}"#;
    assert_eq!(made.state, state(expected));
    let half = "x".repeat(1500);
    for (user, is_taken) in [("user:x", true), ("user:y", false)] {
        let initial = format!(r#"{{"{user}":"{half}"}}"#);
        let made = create_with_history(&log, user, &initial, vec![event("e")]).await;
        assert_eq!(made.is_ok(), is_taken, "{made:?}");
    }
}
