//! Migration to PostgreSQL and back: another engine loses nothing either.

use std::sync::Arc;

use retain_core::{KeyStore as _, MigrationPhase, MigrationSide, SessionStore as _};
use retain_stores::{PostgresOptions, PostgresStore};
use retain_testkit::{
    TestClock,
    postgres::{TestDatabase, is_there},
};

use super::{
    Move, at, nobody, stopped, told,
    world::{api_key, everything, open, side, source},
};

async fn server(database: &TestDatabase, clock: &TestClock) -> MigrationSide {
    let options = PostgresOptions::from_uri(&database.uri()).unwrap();
    let options = options.with_clock(Arc::new(clock.clone()));
    let store = PostgresStore::open(options).await.unwrap();
    MigrationSide {
        memory: Some(Arc::new(store.memory())),
        artifacts: Some(Arc::new(store.artifacts())),
        keys: Some(Arc::new(store.keys())),
        sessions: Some(Arc::new(store)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_migrates_to_postgres_and_back() {
    if !is_there() {
        return;
    }
    let it = Move::new().await;
    let database = TestDatabase::new().await;
    let from = source(&it.path("from.db"), &it.clock).await;
    let to = server(&database, &it.clock).await;
    let there = it.between(from, to.clone(), nobody()).await.unwrap();
    assert_eq!(there.copied, there.counts);
    let back = side(open(&it.path("back.db"), &it.clock).await);
    let again = it.between(to, back, nobody()).await.unwrap();
    assert_eq!(again.counts, there.counts);
    assert_eq!(again.digest, there.digest);
    let before = everything(&it.path("from.db"), &it.clock).await;
    let after = everything(&it.path("back.db"), &it.clock).await;
    assert_eq!(after.len(), before.len());
    for (after, before) in after.iter().zip(&before) {
        assert_eq!(after, before);
    }
    let client = database.client().await;
    let sql = "SELECT id FROM retain_sessions WHERE NOT in_order";
    let jumbled = client.query(sql, &[]).await.unwrap();
    let jumbled: Vec<String> = jumbled.iter().map(|row| row.get(0)).collect();
    assert_eq!(jumbled, ["long"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_migration_resumes_in_postgres() {
    if !is_there() {
        return;
    }
    let it = Move::new().await;
    let whole = it.to("whole.db", nobody()).await.unwrap();
    let steps = whole.counts.total();
    // A prime stride covers all kinds.
    for step in (1..steps).step_by(31) {
        let database = TestDatabase::new().await;
        let ends = || async {
            let from = source(&it.path("from.db"), &it.clock).await;
            (from, server(&database, &it.clock).await)
        };
        let (from, to) = ends().await;
        let stop = at(MigrationPhase::Copy, step, stopped);
        let error = told(it.between(from, to, stop).await);
        assert!(error.starts_with("stopped"), "{step}: {error}");
        let (from, to) = ends().await;
        let rest = it.between(from, to, nobody()).await.unwrap();
        assert!(rest.copied.total() < steps, "{step}: begun anew");
        assert_eq!(rest.digest, whole.digest, "{step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_over_postgres_keeps_had_any_keys() {
    if !is_there() {
        return;
    }
    let folder = retain_testkit::scratch::folder();
    let it = Move {
        folder,
        clock: TestClock::default(),
    };
    let store = open(&it.path("from.db"), &it.clock).await;
    let mut key = api_key("a");
    key.user = Some("ada".to_owned());
    store.keys().add(&key).await.unwrap();
    store.erase_user("app", "ada").await.unwrap();
    drop(store);
    let database = TestDatabase::new().await;
    let from = source(&it.path("from.db"), &it.clock).await;
    let to = server(&database, &it.clock).await;
    it.between(from, to.clone(), nobody()).await.unwrap();
    let back = open(&it.path("back.db"), &it.clock).await;
    let keys = back.keys();
    it.between(to, side(back), nobody()).await.unwrap();
    assert!(keys.had_any().await.unwrap());
    assert_eq!(keys.keys().await.unwrap(), []);
}
