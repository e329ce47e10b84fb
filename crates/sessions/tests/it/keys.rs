//! API keys, in every store alike.

use std::sync::Arc;

use retain_core::{ApiKey, KEY_SECRET_BYTES, KeyScope, KeyStore, KeyText, SessionLog as _};
use retain_sessions::InMemoryKeyStore;
#[cfg(feature = "sqlite")]
use retain_sessions::SqliteSessionService;

fn key(id: &str) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        name: format!("the key «{id}»"),
        hash: KeyText::new(id, [9; KEY_SECRET_BYTES]).hash(),
        app: Some("shop".to_owned()),
        user: Some("ada".to_owned()),
        scopes: vec![KeyScope::Run, KeyScope::MemoryDelete],
        created_us: 1,
        expires_us: Some(i64::MAX),
        revoked_us: None,
        last_used_us: None,
    }
}

async fn stores() -> Vec<(&'static str, Arc<dyn KeyStore>)> {
    #[allow(unused_mut, reason = "without SQLite there is one")]
    let mut stores: Vec<(_, Arc<dyn KeyStore>)> =
        vec![("in memory", Arc::new(InMemoryKeyStore::default()))];
    #[cfg(feature = "sqlite")]
    {
        let sessions = SqliteSessionService::connect("sqlite::memory:").await;
        let sessions = sessions.expect("a database");
        stores.push(("sqlite", Arc::new(sessions.store().keys())));
    }
    stores
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_found_as_they_were_added() {
    for (name, store) in stores().await {
        assert_eq!(store.key("a").await.unwrap(), None, "{name}");
        let everything = ApiKey {
            app: None,
            user: None,
            expires_us: None,
            ..key("b")
        };
        store.add(&key("a")).await.unwrap();
        store.add(&everything).await.unwrap();
        assert_eq!(store.key("a").await.unwrap(), Some(key("a")), "{name}");
        assert_eq!(
            store.keys().await.unwrap(),
            [key("a"), everything],
            "{name}"
        );
        // Ids are compared to the letter.
        assert_eq!(store.key("A").await.unwrap(), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_taken_once() {
    for (name, store) in stores().await {
        store.add(&key("a")).await.unwrap();
        let other = ApiKey {
            hash: [0; 32],
            ..key("a")
        };
        assert!(store.add(&other).await.is_err(), "{name}");
        assert_eq!(store.keys().await.unwrap(), [key("a")], "{name}");
        let senseless = ApiKey {
            scopes: vec![],
            ..key("c")
        };
        assert!(store.add(&senseless).await.is_err(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_revoked_once_and_for_good() {
    for (name, store) in stores().await {
        store.add(&key("a")).await.unwrap();
        assert!(!store.revoke("b", 5).await.unwrap(), "{name}");
        assert!(store.revoke("a", 5).await.unwrap(), "{name}");
        assert!(store.revoke("a", 9).await.unwrap(), "{name}");
        let found = store.key("a").await.unwrap().unwrap();
        assert_eq!(found.revoked_us, Some(5), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_is_the_latest() {
    for (name, store) in stores().await {
        store.add(&key("a")).await.unwrap();
        for (now_us, expected) in [(7, 7), (3, 7), (8, 8)] {
            store.note_use("a", now_us).await.unwrap();
            let found = store.key("a").await.unwrap().unwrap();
            assert_eq!(found.last_used_us, Some(expected), "{name}");
        }
        store.note_use("nobody", 1).await.unwrap();
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_does_counts_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite:///{}", folder.path().join("s.db").display());
    // Two connections are as good as two processes.
    let here = SqliteSessionService::connect(&uri).await.unwrap();
    let there = SqliteSessionService::connect(&uri).await.unwrap();
    let (here, there) = (here.store().keys(), there.store().keys());
    there.add(&key("a")).await.unwrap();
    assert_eq!(here.key("a").await.unwrap(), Some(key("a")));
    there.revoke("a", 5).await.unwrap();
    assert_eq!(here.key("a").await.unwrap().unwrap().revoked_us, Some(5));
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_user_takes_the_keys_that_are_bound_to_it() {
    let sessions = SqliteSessionService::connect("sqlite::memory:")
        .await
        .unwrap();
    let store = sessions.store().keys();
    let others = [
        ApiKey {
            user: Some("grace".to_owned()),
            ..key("b")
        },
        ApiKey {
            app: Some("other".to_owned()),
            ..key("c")
        },
        ApiKey {
            app: None,
            ..key("d")
        },
        ApiKey {
            user: None,
            ..key("e")
        },
    ];
    store.add(&key("a")).await.unwrap();
    for other in &others {
        store.add(other).await.unwrap();
    }
    sessions.erase_user("shop", "ada").await.unwrap();
    assert_eq!(store.keys().await.unwrap(), others);
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn that_there_was_a_key_is_not_forgotten() {
    let sessions = SqliteSessionService::connect("sqlite::memory:")
        .await
        .unwrap();
    let store = sessions.store().keys();
    assert!(!store.had_any().await.unwrap());
    sessions.erase_user("shop", "ada").await.unwrap();
    assert!(!store.had_any().await.unwrap());
    store.add(&key("a")).await.unwrap();
    store.revoke("a", 5).await.unwrap();
    assert!(store.had_any().await.unwrap());
    for _ in 0..2 {
        sessions.erase_user("shop", "ada").await.unwrap();
        assert!(store.had_any().await.unwrap());
    }
    // What is left is no key, and tells nothing.
    assert_eq!(store.keys().await.unwrap(), []);
    assert_eq!(store.key("").await.unwrap(), None);
    assert!(!store.revoke("", 5).await.unwrap());
    store.add(&key("a")).await.unwrap();
    assert_eq!(store.keys().await.unwrap(), [key("a")]);
}
