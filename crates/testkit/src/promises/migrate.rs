//! Promises of a store as the source and as the target of a migration: it lists everything, and
//! stores everything unchanged.

use std::{sync::Arc, time::Duration};

use retain_core::{
    ExportScope, Migration, MigrationCounts, MigrationError, MigrationReport, MigrationSide,
    ScopedState, SessionError, SessionKey, StateOwner, TransferStore, Window,
};

use super::{common::*, transfer::fill};
use crate::harness::Harness;

async fn all_addresses(store: &dyn TransferStore, step: usize) -> Vec<SessionKey> {
    let mut all: Vec<SessionKey> = Vec::new();
    loop {
        let page = store.addresses(all.last(), step).await.unwrap();
        assert!(page.len() <= step);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Sessions of all apps and users are listed in byte order, in pages of any size, without deleted
/// and expired ones.
pub async fn session_keys_are_listed_once_in_order(harness: Harness) {
    let log = harness.service();
    let store = harness.store().await;
    assert_eq!(all_addresses(&*store, 10).await, []);
    let mut keys = Vec::new();
    for app in ["a", "B", "a b", "é", "a'\""] {
        for user in ["u", "U", "%", "ü"] {
            for id in ["1", "10", "2", "_"] {
                keys.push(SessionKey::new(app, user, id));
            }
        }
    }
    for key in &keys {
        create_at(&log, key, "{}").await;
    }
    let gone = keys.remove(17);
    log.delete_session(&gone.app, &gone.user, &gone.id)
        .await
        .unwrap();
    create_for(&log, "brief", Duration::from_secs(5)).await;
    harness.clock.tick(Duration::from_secs(6));
    keys.sort();
    for step in [1, 3, 1000] {
        assert_eq!(all_addresses(&*store, step).await, keys, "{step}");
    }
    // Listing continues after a key that does not exist.
    let between = SessionKey::new("a", "u", "1\u{1}");
    let next = store.addresses(Some(&between), 1).await.unwrap();
    assert_eq!(next, [SessionKey::new("a", "u", "10")]);
}

async fn all_owners(store: &dyn TransferStore, step: usize) -> Vec<StateOwner> {
    let mut all: Vec<StateOwner> = Vec::new();
    loop {
        let page = store.state_owners(all.last(), step).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Apps and users with shared state are listed, with or without sessions, and no others.
pub async fn owners_of_shared_keys_are_listed_once_in_order(harness: Harness) {
    let log = harness.service();
    let store = harness.store().await;
    assert_eq!(all_owners(&*store, 10).await, []);
    for (app, user, state) in [
        ("b", "ada", r#"{"user:k":1,"user:l":2}"#),
        ("b", "grace", r#"{"own":1}"#),
        ("a", "ada", r#"{"app:k":1,"app:l":null}"#),
        ("é", "z", r#"{"app:k":1,"user:k":1}"#),
        ("é", "ä", r#"{"user:k":1}"#),
    ] {
        create_at(&log, &SessionKey::new(app, user, "s"), state).await;
    }
    log.delete_session("é", "z", "s").await.unwrap();
    let expected = [
        StateOwner::app("a"),
        StateOwner::user("b", "ada"),
        StateOwner::app("é"),
        StateOwner::user("é", "z"),
        StateOwner::user("é", "ä"),
    ];
    for step in [1, 2, 1000] {
        assert_eq!(all_owners(&*store, step).await, expected, "{step}");
    }
}

/// Shared state is added without a session; existing keys keep their value.
pub async fn add_shared_state_sets_only_missing_keys(harness: Harness) {
    let log = harness.service();
    let store = harness.store().await;
    let (app, user) = (StateOwner::app(APP), StateOwner::user(APP, USER));
    store.add_shared_state(&user, &map("{}")).await.unwrap();
    assert_eq!(all_owners(&*store, 10).await, []);
    store
        .add_shared_state(&user, &map(r#"{"a":1.50,"n":null}"#))
        .await
        .unwrap();
    store
        .add_shared_state(&app, &map(r#"{"a":"app"}"#))
        .await
        .unwrap();
    store
        .add_shared_state(&user, &map(r#"{"a":2,"b":[3]}"#))
        .await
        .unwrap();
    let kept = store.shared_state(APP, Some(USER)).await.unwrap();
    assert_eq!(kept, map(r#"{"a":1.50,"n":null,"b":[3]}"#));
    let kept = store.shared_state(APP, None).await.unwrap();
    assert_eq!(kept, map(r#"{"a":"app"}"#));
    let session = create(&log, "s").await;
    let seen = read(&log, &session).await.state;
    assert_eq!(
        seen,
        state(r#"{"user:a":1.50,"user:n":null,"user:b":[3],"app:a":"app"}"#)
    );
}

fn side(sessions: Arc<dyn TransferStore>) -> MigrationSide {
    MigrationSide {
        sessions: Some(sessions),
        ..MigrationSide::default()
    }
}

async fn migrate(from: &Harness, to: &Harness) -> Result<MigrationReport, MigrationError> {
    let (source, target) = (from.store().await, to.store().await);
    let migration = Migration::new(side(source), side(target));
    let clock = Arc::new(from.clock.clone());
    migration.with_clock(clock).run().await
}

/// A migrated session does not live longer than the original.
pub async fn migrated_session_keeps_its_expiry(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", Duration::from_millis(100_500)).await;
    harness.clock.tick(Duration::from_secs(30));
    let elsewhere = harness.another().await;
    elsewhere.clock.tick(Duration::from_secs(30));
    migrate(&harness, &elsewhere).await.unwrap();
    let copy = elsewhere.service();
    let (here, there) = (harness.store().await, elsewhere.store().await);
    let expires = here
        .log_header(&key)
        .await
        .unwrap()
        .unwrap()
        .head
        .expires_us;
    let head = there.log_header(&key).await.unwrap().unwrap().head;
    assert_eq!(head.expires_us, expires);
    elsewhere.clock.tick(Duration::from_millis(70_499));
    assert!(copy.read(&key, Window::ALL).await.unwrap().is_some());
    elsewhere.clock.tick(Duration::from_millis(1));
    assert_eq!(copy.read(&key, Window::ALL).await.unwrap(), None);
    // An expired session is not created and adds no shared state.
    let header = here.log_header(&key).await.unwrap().unwrap();
    let draft = there.begin_draft(&key).await.unwrap();
    let shared = ScopedState {
        user: map(r#"{"k":1}"#),
        ..ScopedState::default()
    };
    let refused = there.finish_draft(draft, &header, &shared).await;
    assert_fails!(refused, SessionError::NotFound { .. });
    assert_eq!(all_addresses(&*there, 10).await, []);
    assert_eq!(all_owners(&*there, 10).await, []);
}

async fn exported(harness: &Harness) -> Vec<String> {
    let app = ExportScope::App { app: APP.into() };
    export(&harness.service(), app).await
}

/// Complete logs are equal in the target store, including the state at each position; a second
/// migration finds everything present.
pub async fn migration_copies_everything(harness: Harness) {
    let log = harness.service();
    let keys = fill(&log, &harness).await;
    let store = harness.store().await;
    let alone = StateOwner::user("other", "nobody");
    store
        .add_shared_state(&alone, &map(r#"{"k":1}"#))
        .await
        .unwrap();
    let elsewhere = harness.another().await;
    let report = migrate(&harness, &elsewhere).await.unwrap();
    assert_eq!(report.counts, report.copied);
    assert_eq!(report.counts.sessions, keys.len() as u64);
    assert_eq!(exported(&elsewhere).await, exported(&harness).await);
    let copy = elsewhere.service();
    for key in &keys {
        let session = read(&log, key).await;
        assert_eq!(read(&copy, key).await, session);
        for position in 0..=session.position {
            let then = log.state_at(key, position).await.unwrap();
            assert_eq!(copy.state_at(key, position).await.unwrap(), then);
        }
    }
    let kept = elsewhere.store().await;
    let kept = kept.shared_state("other", Some("nobody")).await.unwrap();
    assert_eq!(kept, map(r#"{"k":1}"#));
    assert_eq!(copy.check().await.unwrap(), []);
    let again = migrate(&harness, &elsewhere).await.unwrap();
    assert_eq!(again.copied, MigrationCounts::default());
    assert_eq!((again.counts, again.digest), (report.counts, report.digest));
}

/// A session that differs in the target or exists only there stops the migration and stays as is.
pub async fn migration_does_not_overwrite_different_data(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    append(&log, &key, state_event("e1", r#"{"a":2}"#)).await;
    let elsewhere = harness.another().await;
    let copy = elsewhere.service();
    create_with(&copy, "s", r#"{"a":1}"#).await;
    let before = read(&copy, &key).await;
    let refused = migrate(&harness, &elsewhere).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        matches!(refused, MigrationError::Differs { .. }) && message.contains("\"s\""),
        "{message}"
    );
    assert_eq!(read(&copy, &key).await, before);
    log.delete_session(APP, USER, "s").await.unwrap();
    let refused = migrate(&harness, &elsewhere).await.unwrap_err();
    assert!(matches!(refused, MigrationError::Extra { .. }), "{refused}");
    assert_eq!(read(&copy, &key).await, before);
}
