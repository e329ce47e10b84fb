//! API keys: every API key store behaves the same.

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

/// An API key store, the sessions in the same database, and a guard that keeps the database alive.
struct KeyFixture {
    name: &'static str,
    store: Arc<dyn KeyStore>,
    sessions: Arc<dyn SessionLog>,
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

/// Opens the API key stores that share a database with sessions. If `twice`, opens each two times,
/// as two processes would.
async fn open_databases(twice: bool) -> Vec<KeyFixture> {
    #[allow(unused_mut, reason = "unused without a database feature")]
    let mut fixtures = Vec::new();
    let times = if twice { 2 } else { 1 };
    #[cfg(feature = "sqlite")]
    {
        let folder = Arc::new(retain_testkit::scratch::folder());
        let uri = format!("sqlite:///{}", folder.path().join("s.db").display());
        for _ in 0..times {
            let sessions = SqliteSessionService::connect(&uri).await;
            let sessions = sessions.expect("a database");
            fixtures.push(KeyFixture {
                name: "sqlite",
                store: Arc::new(sessions.store().keys()),
                sessions: Arc::new(sessions),
                _guard: Some(folder.clone()),
            });
        }
    }
    #[cfg(feature = "postgres")]
    if retain_testkit::postgres::is_there() {
        let database = Arc::new(TestDatabase::new().await);
        for _ in 0..times {
            let sessions = PostgresSessionService::connect(&database.uri()).await;
            let sessions = sessions.expect("a database");
            fixtures.push(KeyFixture {
                name: "postgres",
                store: Arc::new(sessions.store().keys()),
                sessions: Arc::new(sessions),
                _guard: Some(database.clone()),
            });
        }
    }
    fixtures
}

async fn open_stores() -> Vec<KeyFixture> {
    let mut stores = open_databases(false).await;
    stores.push(KeyFixture {
        name: "in memory",
        store: Arc::new(InMemoryKeyStore::default()),
        sessions: Arc::new(InMemorySessionService::new()),
        _guard: None,
    });
    stores
}

#[tokio::test(flavor = "multi_thread")]
async fn key_store_returns_keys_as_added() {
    for fixture in open_stores().await {
        let (name, store) = (fixture.name, &fixture.store);
        assert_eq!(store.key("a").await.unwrap(), None, "{name}");
        let unbound = ApiKey {
            app: None,
            user: None,
            expires_us: None,
            ..key("b")
        };
        store.add(&key("a")).await.unwrap();
        store.add(&unbound).await.unwrap();
        assert_eq!(store.key("a").await.unwrap(), Some(key("a")), "{name}");
        assert_eq!(store.keys().await.unwrap(), [key("a"), unbound], "{name}");
        // Ids are case-sensitive.
        assert_eq!(store.key("A").await.unwrap(), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn add_rejects_a_duplicate_id_and_a_key_without_scopes() {
    for fixture in open_stores().await {
        let (name, store) = (fixture.name, &fixture.store);
        store.add(&key("a")).await.unwrap();
        let other = ApiKey {
            hash: [0; 32],
            ..key("a")
        };
        assert!(store.add(&other).await.is_err(), "{name}");
        assert_eq!(store.keys().await.unwrap(), [key("a")], "{name}");
        let without_scopes = ApiKey {
            scopes: vec![],
            ..key("c")
        };
        assert!(store.add(&without_scopes).await.is_err(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_revoke_keeps_the_first_time() {
    for fixture in open_stores().await {
        let (name, store) = (fixture.name, &fixture.store);
        store.add(&key("a")).await.unwrap();
        assert!(!store.revoke("b", 5).await.unwrap(), "{name}");
        assert!(store.revoke("a", 5).await.unwrap(), "{name}");
        assert!(store.revoke("a", 9).await.unwrap(), "{name}");
        let found = store.key("a").await.unwrap().unwrap();
        assert_eq!(found.revoked_us, Some(5), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_never_goes_backward() {
    for fixture in open_stores().await {
        let (name, store) = (fixture.name, &fixture.store);
        store.add(&key("a")).await.unwrap();
        for (now_us, expected) in [(7, 7), (3, 7), (8, 8)] {
            store.note_use("a", now_us).await.unwrap();
            let found = store.key("a").await.unwrap().unwrap();
            assert_eq!(found.last_used_us, Some(expected), "{name}");
        }
        store.note_use("missing", 1).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_by_another_process_is_visible_immediately() {
    for pair in open_databases(true).await.chunks(2) {
        // Two connections behave like two processes.
        let (here, there) = (&pair[0].store, &pair[1].store);
        let name = pair[0].name;
        there.add(&key("a")).await.unwrap();
        assert_eq!(here.key("a").await.unwrap(), Some(key("a")), "{name}");
        there.revoke("a", 5).await.unwrap();
        let revoked = here.key("a").await.unwrap().unwrap().revoked_us;
        assert_eq!(revoked, Some(5), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_user_erases_only_keys_bound_to_the_user() {
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
    for fixture in open_databases(false).await {
        fixture.store.add(&key("a")).await.unwrap();
        for other in &others {
            fixture.store.add(other).await.unwrap();
        }
        fixture.sessions.erase_user("shop", "ada").await.unwrap();
        assert_eq!(
            fixture.store.keys().await.unwrap(),
            others,
            "{}",
            fixture.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn had_any_stays_true_after_the_keys_are_erased() {
    for fixture in open_databases(false).await {
        let (name, store) = (fixture.name, &fixture.store);
        let erase = || fixture.sessions.erase_user("shop", "ada");
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
        // The marker row that remains is not returned as a key.
        assert_eq!(store.keys().await.unwrap(), [], "{name}");
        assert_eq!(store.key("").await.unwrap(), None, "{name}");
        assert!(!store.revoke("", 5).await.unwrap(), "{name}");
        store.add(&key("a")).await.unwrap();
        assert_eq!(store.keys().await.unwrap(), [key("a")], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn note_had_any_records_that_keys_existed() {
    for fixture in open_stores().await {
        let (name, store) = (fixture.name, &fixture.store);
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
