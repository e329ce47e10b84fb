//! Promises about usage and quotas: what is stored is counted exactly, and no quota is exceeded.

use std::time::Duration;

use retain_core::{
    Append, CreateSession, Event, ExportScope, ListSessions, QuotaKind, QuotaScope, Quotas, Result,
    RunOptions, Session, SessionError, SessionKey, Usage, Window,
};
use tokio::task::JoinSet;

use super::common::*;
use crate::{harness::Harness, random::Random};

/// The users of the random operations.
const USERS: [&str; 2] = [USER, "bob"];

/// Number of random operations.
const OPERATIONS: u64 = 60;

/// Counts the sessions and events of the app or a user by reading all of them.
async fn sum_over_logs(log: &Log, user: Option<&str>) -> Usage {
    let mut query = ListSessions::new(APP);
    query.user_id = user.map(str::to_owned);
    let mut usage = Usage::default();
    for session in log.list(query).await.unwrap().sessions {
        let read = log.read(&session.key(), Window::ALL).await.unwrap();
        usage.sessions += 1;
        usage.events += session.position;
        usage.event_bytes += bytes_up_to(&read.unwrap(), session.position);
    }
    usage
}

/// The bytes of a session's events up to a position.
fn bytes_up_to(session: &Session, position: u64) -> u64 {
    let events = session.events.iter_with_positions();
    let events = events.take_while(|(at, _)| *at <= position);
    events
        .map(|(_, event)| event.to_json().unwrap().len() as u64)
        .sum()
}

/// The counted usage is the sum over the logs after every operation that changes it.
pub async fn usage_equals_the_sum_over_the_logs_after_random_operations(harness: Harness) {
    let seed = std::env::var("RETAIN_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(17);
    println!("RETAIN_SEED={seed}");
    let mut operations = RandomOperations {
        log: harness.service(),
        random: Random::new(seed),
        events: 0,
        keys: Vec::new(),
    };
    for number in 0..OPERATIONS {
        let operation = operations.run(number).await;
        if operation == "expire" {
            harness.clock.tick(Duration::from_secs(11));
        }
        let log = harness.service();
        for user in [None, Some(USERS[0]), Some(USERS[1])] {
            let counted = log.usage(APP, user).await.unwrap();
            let sum = sum_over_logs(&log, user).await;
            assert_eq!(counted, sum, "{user:?} after {operation}, number {number}");
        }
    }
    for key in &operations.keys {
        let Some(session) = harness.service().read(key, Window::ALL).await.unwrap() else {
            continue;
        };
        let (store, half) = (harness.store().await, session.position / 2);
        let bytes = store.log_bytes(key, half).await.unwrap();
        assert_eq!(
            bytes,
            bytes_up_to(&session, half),
            "the first half of {key}"
        );
    }
}

struct RandomOperations {
    log: Log,
    random: Random,
    events: u64,
    keys: Vec<SessionKey>,
}

impl RandomOperations {
    /// Runs a random operation and returns its name. An operation may fail, e.g. on a session that
    /// was deleted before.
    async fn run(&mut self, number: u64) -> &'static str {
        let user = self.random.pick(&USERS);
        let new = SessionKey::new(APP, user, format!("s{number}"));
        let any = match self.keys.is_empty() {
            true => new.clone(),
            false => self.random.pick(&self.keys),
        };
        let log = self.log.clone();
        match self.random.below(20) {
            0..=3 => {
                create_at(&log, &new, r#"{"a":"initial"}"#).await;
                self.keys.push(new);
                "create"
            }
            4..=10 => {
                let events = self.events();
                let _ = log.append(&any, events.clone().into()).await;
                // A client that retries.
                let _ = log.append(&any, events.into()).await;
                "append"
            }
            11..=12 => {
                let forked = log.fork(&any, None, Some(&new.id)).await;
                self.keys.extend(forked.ok().map(|session| session.key()));
                "fork"
            }
            13 => {
                let _ = log.rewind(&any, "first").await;
                "rewind"
            }
            14 => {
                log.delete_session(APP, &any.user, &any.id).await.unwrap();
                "delete"
            }
            15 => {
                let exported = log.read(&any, Window::NONE).await.unwrap();
                if exported.is_some() {
                    let lines = export(&log, ExportScope::Session(any.clone())).await;
                    log.delete_session(APP, &any.user, &any.id).await.unwrap();
                    log.import(stream_of(&lines)).await.unwrap();
                }
                "import"
            }
            16 => {
                let new_session = CreateSession::new(APP, user).with_session_id(&new.id);
                let events = self.events();
                log.create_with_events(new_session, events).await.unwrap();
                self.keys.push(new);
                "create with history"
            }
            17..=18 => {
                let short = CreateSession::new(APP, user).with_session_id(&new.id);
                let short = short.with_ttl(Duration::from_secs(10));
                log.create(short).await.unwrap();
                log.append(&new, self.events().into()).await.unwrap();
                "expire"
            }
            _ => {
                log.erase_user(APP, user).await.unwrap();
                "erase"
            }
        }
    }

    fn events(&mut self) -> Vec<Event> {
        let count = 1 + self.random.below(3);
        let new = (0..count).map(|_| {
            self.events += 1;
            let mut event = invocation_event(&format!("e{}", self.events), "first", "{}");
            let text = "\u{e9}\"x".repeat(self.random.below(300) as usize);
            event.actions.state_delta = map(&format!(r#"{{"a":{}}}"#, json_text(&text)));
            event
        });
        new.collect()
    }
}

fn json_text(text: &str) -> String {
    retain_core::Json::from(text).to_string()
}

/// An event that is appended again counts once.
pub async fn usage_counts_a_repeated_event_once(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("e")).await;
    let once = log.usage(APP, Some(USER)).await.unwrap();
    append(&log, &key, event("e")).await;
    append_all(&log, &key, vec![event("e"), event("e")]).await;
    assert_eq!(log.usage(APP, Some(USER)).await.unwrap(), once);
    assert_eq!((once.sessions, once.events), (1, 1));
    assert_eq!(once.event_bytes, event("e").to_json().unwrap().len() as u64);
}

/// A service whose users may store this much.
async fn limited(harness: &Harness, limits: Usage) -> Log {
    let quotas = Quotas::default().with_user(limits);
    harness
        .second_with(|settings| settings.quotas = quotas)
        .await
}

/// Fails unless the error names this quota of the user.
fn assert_exceeded<T: std::fmt::Debug>(result: Result<T>, kind: QuotaKind, limit: u64) {
    match result {
        Err(SessionError::QuotaExceeded(error)) => {
            assert_eq!((error.kind, error.scope()), (kind, QuotaScope::User));
            assert_eq!(error.limit, limit, "{error}");
            assert!(error.used <= limit, "{error}");
        }
        other => panic!("expected QuotaExceeded, got {other:?}"),
    }
}

/// Every way to store sessions and events is refused as a whole if it does not fit.
pub async fn write_beyond_a_quota_stores_nothing(harness: Harness) {
    let free = harness.service();
    let key = create(&free, "s").await;
    append_all(&free, &key, numbered_events("e", 3)).await;
    let other = harness.another().await;
    let exported = export(&free, ExportScope::Session(key.clone())).await;
    let used = free.usage(APP, Some(USER)).await.unwrap();

    let log = limited(&harness, Usage::default().with_sessions(1)).await;
    let refused = log.create_session(APP, USER, None, Some("t")).await;
    assert_exceeded(refused, QuotaKind::Sessions, 1);
    assert_exceeded(
        log.fork(&key, None, Some("t")).await,
        QuotaKind::Sessions,
        1,
    );

    let log = limited(&harness, Usage::default().with_events(4)).await;
    let two = numbered_events("f", 2);
    assert_exceeded(
        log.append(&key, two.clone().into()).await,
        QuotaKind::Events,
        4,
    );
    assert_exceeded(log.fork(&key, None, Some("t")).await, QuotaKind::Events, 4);
    let new = CreateSession::new(APP, USER).with_session_id("t");
    let refused = log.create_with_events(new, two.clone()).await;
    assert_exceeded(refused, QuotaKind::Events, 4);

    let bytes = used.event_bytes + 10;
    let log = limited(&harness, Usage::default().with_event_bytes(bytes)).await;
    let refused = log.append(&key, event("f1").into()).await;
    assert_exceeded(refused, QuotaKind::EventBytes, bytes);
    let refused = log.fork(&key, None, Some("t")).await;
    assert_exceeded(refused, QuotaKind::EventBytes, bytes);
    assert_eq!(free.usage(APP, Some(USER)).await.unwrap(), used);

    let log = limited(&other, Usage::default().with_events(2)).await;
    let refused = log.import(stream_of(&exported)).await;
    assert_exceeded(refused, QuotaKind::Events, 2);
    let nothing = log.usage(APP, Some(USER)).await.unwrap();
    assert_eq!(nothing, Usage::default());
    let log = limited(&other, Usage::default().with_events(3)).await;
    log.import(stream_of(&exported)).await.unwrap();
    assert_eq!(log.usage(APP, Some(USER)).await.unwrap(), used);
}

/// Appends that run at the same time store exactly as much as fits.
pub async fn quota_is_never_exceeded_by_concurrent_appends(harness: Harness) {
    const LIMIT: u64 = 20;
    let log = limited(&harness, Usage::default().with_events(LIMIT)).await;
    let mut keys = Vec::new();
    for number in 0..4 {
        keys.push(create(&log, &format!("s{number}")).await);
    }
    let mut appends = JoinSet::new();
    for number in 0..2 * LIMIT as usize {
        let (log, key) = (log.clone(), keys[number % keys.len()].clone());
        let new = event(&format!("e{number}"));
        appends.spawn(async move { log.append(&key, new.into()).await });
    }
    let results = appends.join_all().await;
    let (stored, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(stored.len() as u64, LIMIT);
    for result in refused {
        assert_exceeded(result, QuotaKind::Events, LIMIT);
    }
    let usage = log.usage(APP, Some(USER)).await.unwrap();
    assert_eq!(usage.events, LIMIT);
}

/// A client that did not get the acknowledgement may append again when the quota is full.
pub async fn repeated_append_succeeds_at_a_full_quota(harness: Harness) {
    let log = limited(&harness, Usage::default().with_events(2)).await;
    let key = create(&log, "s").await;
    let events = numbered_events("e", 2);
    append_all(&log, &key, events.clone()).await;
    assert_eq!(append_all(&log, &key, events.clone()).await, [1, 2]);
    // The old event of a batch needs no room, the new one does.
    let mixed = vec![events[0].clone(), event("new")];
    assert_exceeded(log.append(&key, mixed.into()).await, QuotaKind::Events, 2);
    // Repeats are not counted: there is room again after a deletion.
    let other = create(&log, "t").await;
    log.delete_session(APP, USER, "s").await.unwrap();
    append_all(&log, &other, events.clone()).await;
    for _ in 0..3 {
        append_all(&log, &other, events.clone()).await;
    }
    assert_eq!(log.usage(APP, Some(USER)).await.unwrap().events, 2);
}

/// The message of a run is refused, and the refused run holds no lease.
pub async fn run_is_refused_at_its_beginning_when_a_quota_is_reached(harness: Harness) {
    let log = limited(&harness, Usage::default().with_events(1)).await;
    let key = create(&log, "s").await;
    let begin = |id: &str| Append::from(event(id)).beginning_run(RunOptions::default());
    let run = log.append(&key, begin("e1")).await.unwrap().run.unwrap();
    // The answer does not fit: the run ends with the same error, and its message stays.
    let answer = Append::from(event("e2")).ending_run(run);
    assert_exceeded(log.append(&key, answer).await, QuotaKind::Events, 1);
    log.end_run(&key, run).await.unwrap();
    assert_exceeded(log.append(&key, begin("e3")).await, QuotaKind::Events, 1);
    let next = RunOptions::default().with_wait(Duration::ZERO);
    let begin = Append::default().beginning_run(next);
    assert!(log.append(&key, begin).await.unwrap().run.is_some());
    assert_eq!(log.usage(APP, Some(USER)).await.unwrap().events, 1);
}

/// What is deleted, erased or swept no longer counts, without waiting.
pub async fn deletion_makes_room_under_a_quota(harness: Harness) {
    let log = limited(&harness, Usage::default().with_sessions(1)).await;
    let refused = || log.create_session(APP, USER, None, None);
    create_for(&log, "s", Duration::from_secs(1)).await;
    assert_exceeded(refused().await, QuotaKind::Sessions, 1);
    harness.clock.tick(Duration::from_secs(1));
    assert_eq!(log.sweep().await.unwrap(), 1);
    create(&log, "s").await;
    assert_exceeded(refused().await, QuotaKind::Sessions, 1);
    log.delete_session(APP, USER, "s").await.unwrap();
    create(&log, "s").await;
    assert_exceeded(refused().await, QuotaKind::Sessions, 1);
    log.erase_user(APP, USER).await.unwrap();
    create(&log, "s").await;
}

/// The quota of an app limits its users together, and not those of other apps.
pub async fn quota_of_an_app_counts_all_its_users(harness: Harness) {
    let quotas = Quotas::default().with_app(Usage::default().with_sessions(2));
    let rejections = quotas.clone();
    let log = harness
        .second_with(|settings| settings.quotas = quotas)
        .await;
    for user in ["ada", "bob"] {
        log.create_session(APP, user, None, None).await.unwrap();
    }
    match log.create_session(APP, "eve", None, None).await {
        Err(SessionError::QuotaExceeded(error)) => {
            assert_eq!(
                (error.scope(), error.used, error.limit),
                (QuotaScope::App, 2, 2)
            );
        }
        other => panic!("expected QuotaExceeded, got {other:?}"),
    }
    log.create_session("other", "eve", None, None)
        .await
        .unwrap();
    let counted = rejections.rejections().filter(|(_, _, count)| *count > 0);
    let counted: Vec<_> = counted.collect();
    assert_eq!(counted, [(QuotaScope::App, QuotaKind::Sessions, 1)]);
}

/// Writes of other processes are seen after at most two seconds.
pub async fn writes_of_another_instance_count_after_the_reload_interval(harness: Harness) {
    let log = limited(&harness, Usage::default().with_events(3)).await;
    let key = create(&log, "s").await;
    append(&log, &key, event("e1")).await;
    let other = harness.second().await;
    append_all(&other, &key, numbered_events("f", 3)).await;
    append(&log, &key, event("e2")).await;
    harness.clock.tick(Duration::from_secs(2));
    let refused = log.append(&key, event("e3").into()).await;
    match refused {
        Err(SessionError::QuotaExceeded(error)) => assert_eq!(error.used, 5),
        other => panic!("expected QuotaExceeded, got {other:?}"),
    }
}
