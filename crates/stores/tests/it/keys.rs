//! API keys, the same in every store.

use std::{any::Any, sync::Arc};

use retain_core::{ApiKey, KEY_SECRET_BYTES, KeyScope, KeyStore, KeyText, SessionLog};
#[cfg(feature = "postgres")]
use retain_stores::PostgresSessionService;
#[cfg(feature = "sqlite")]
use retain_stores::SqliteSessionService;
use retain_stores::{InMemoryKeyStore, InMemorySessionService};
#[cfg(feature = "postgres")]
use retain_testkit::postgres::TestDatabase;

fn key(id: &str) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        name: format!("the key \"{id}\""),
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

/// A key store, its sessions, and a guard that keeps the database alive.
struct Kept {
    name: &'static str,
    store: Arc<dyn KeyStore>,
    sessions: Arc<dyn SessionLog>,
    _until_the_end: Option<Arc<dyn Any + Send + Sync>>,
}

/// Key stores on a session database, whose keys are erased with their user. `second` opens it
/// again, as another process would.
async fn databases(second: bool) -> Vec<Kept> {
    #[allow(unused_mut, reason = "without databases there are none")]
    let mut kept = Vec::new();
    let times = if second { 2 } else { 1 };
    #[cfg(feature = "sqlite")]
    {
        let folder = Arc::new(retain_testkit::scratch::folder());
        let uri = format!("sqlite:///{}", folder.path().join("s.db").display());
        for _ in 0..times {
            let sessions = SqliteSessionService::connect(&uri).await;
            let sessions = sessions.expect("a database");
            kept.push(Kept {
                name: "sqlite",
                store: Arc::new(sessions.store().keys()),
                sessions: Arc::new(sessions),
                _until_the_end: Some(folder.clone()),
            });
        }
    }
    #[cfg(feature = "postgres")]
    if retain_testkit::postgres::is_there() {
        let database = Arc::new(TestDatabase::new().await);
        for _ in 0..times {
            let sessions = PostgresSessionService::connect(&database.uri()).await;
            let sessions = sessions.expect("a database");
            kept.push(Kept {
                name: "postgres",
                store: Arc::new(sessions.store().keys()),
                sessions: Arc::new(sessions),
                _until_the_end: Some(database.clone()),
            });
        }
    }
    kept
}

async fn stores() -> Vec<Kept> {
    let mut stores = databases(false).await;
    stores.push(Kept {
        name: "in memory",
        store: Arc::new(InMemoryKeyStore::default()),
        sessions: Arc::new(InMemorySessionService::new()),
        _until_the_end: None,
    });
    stores
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_keys_equal_the_added_keys() {
    for kept in stores().await {
        let (name, store) = (kept.name, &kept.store);
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
        // Ids are case-sensitive.
        assert_eq!(store.key("A").await.unwrap(), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_key_id_is_rejected() {
    for kept in stores().await {
        let (name, store) = (kept.name, &kept.store);
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
async fn revoked_key_stays_revoked() {
    for kept in stores().await {
        let (name, store) = (kept.name, &kept.store);
        store.add(&key("a")).await.unwrap();
        assert!(!store.revoke("b", 5).await.unwrap(), "{name}");
        assert!(store.revoke("a", 5).await.unwrap(), "{name}");
        assert!(store.revoke("a", 9).await.unwrap(), "{name}");
        let found = store.key("a").await.unwrap().unwrap();
        assert_eq!(found.revoked_us, Some(5), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_is_the_latest_time() {
    for kept in stores().await {
        let (name, store) = (kept.name, &kept.store);
        store.add(&key("a")).await.unwrap();
        for (now_us, expected) in [(7, 7), (3, 7), (8, 8)] {
            store.note_use("a", now_us).await.unwrap();
            let found = store.key("a").await.unwrap().unwrap();
            assert_eq!(found.last_used_us, Some(expected), "{name}");
        }
        store.note_use("nobody", 1).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_changed_by_another_process_are_visible_at_once() {
    for both in databases(true).await.chunks(2) {
        // Two connections behave like two processes.
        let (here, there) = (&both[0].store, &both[1].store);
        let name = both[0].name;
        there.add(&key("a")).await.unwrap();
        assert_eq!(here.key("a").await.unwrap(), Some(key("a")), "{name}");
        there.revoke("a", 5).await.unwrap();
        let revoked = here.key("a").await.unwrap().unwrap().revoked_us;
        assert_eq!(revoked, Some(5), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_user_erases_its_bound_keys() {
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
    for kept in databases(false).await {
        kept.store.add(&key("a")).await.unwrap();
        for other in &others {
            kept.store.add(other).await.unwrap();
        }
        kept.sessions.erase_user("shop", "ada").await.unwrap();
        assert_eq!(kept.store.keys().await.unwrap(), others, "{}", kept.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn had_any_stays_true_after_the_keys_are_erased() {
    for kept in databases(false).await {
        let (name, store) = (kept.name, &kept.store);
        let erase = || kept.sessions.erase_user("shop", "ada");
        assert!(!store.had_any().await.unwrap(), "{name}");
        erase().await.unwrap();
        assert!(!store.had_any().await.unwrap(), "{name}");
        store.add(&key("a")).await.unwrap();
        store.revoke("a", 5).await.unwrap();
        assert!(store.had_any().await.unwrap(), "{name}");
        for _ in 0..2 {
            erase().await.unwrap();
            assert!(store.had_any().await.unwrap(), "{name}");
        }
        // The remaining marker is not a key and reveals nothing.
        assert_eq!(store.keys().await.unwrap(), [], "{name}");
        assert_eq!(store.key("").await.unwrap(), None, "{name}");
        assert!(!store.revoke("", 5).await.unwrap(), "{name}");
        store.add(&key("a")).await.unwrap();
        assert_eq!(store.keys().await.unwrap(), [key("a")], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn note_had_any_sets_had_any() {
    for kept in stores().await {
        let (name, store) = (kept.name, &kept.store);
        assert!(!store.had_any().await.unwrap(), "{name}");
        for _ in 0..2 {
            store.note_had_any().await.unwrap();
            assert!(store.had_any().await.unwrap(), "{name}");
        }
        assert_eq!(store.keys().await.unwrap(), [], "{name}");
        store.add(&key("a")).await.unwrap();
        assert_eq!(store.keys().await.unwrap(), [key("a")], "{name}");
    }
}
