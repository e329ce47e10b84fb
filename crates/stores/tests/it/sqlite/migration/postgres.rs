//! Migration to PostgreSQL and back.

use std::sync::Arc;

use retain_core::{KeyStore as _, MigrationPhase, MigrationSide, SessionStore as _};
use retain_stores::{PostgresOptions, PostgresStore};
use retain_testkit::{
    TestClock,
    postgres::{TestDatabase, is_there},
};

use super::{
    MigrationTest, error_text,
    fixture::{api_key, dump, open, open_source, side},
    no_observer, run_at, stop_migration,
};

async fn open_postgres(database: &TestDatabase, clock: &TestClock) -> MigrationSide {
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
async fn migration_to_postgres_and_back_loses_nothing() {
    if !is_there() {
        return;
    }
    let test = MigrationTest::new().await;
    let database = TestDatabase::new().await;
    let from = open_source(&test.path("from.db"), &test.clock).await;
    let to = open_postgres(&database, &test.clock).await;
    let there = test
        .migrate_between(from, to.clone(), no_observer())
        .await
        .unwrap();
    assert_eq!(there.copied, there.counts);
    let back = side(open(&test.path("back.db"), &test.clock).await);
    let again = test.migrate_between(to, back, no_observer()).await.unwrap();
    assert_eq!(again.counts, there.counts);
    assert_eq!(again.digest, there.digest);
    let before = dump(&test.path("from.db"), &test.clock).await;
    let after = dump(&test.path("back.db"), &test.clock).await;
    assert_eq!(after.len(), before.len());
    for (after, before) in after.iter().zip(&before) {
        assert_eq!(after, before);
    }
    let client = database.client().await;
    let sql = "SELECT id FROM retain_sessions WHERE NOT in_order";
    let out_of_order = client.query(sql, &[]).await.unwrap();
    let out_of_order: Vec<String> = out_of_order.iter().map(|row| row.get(0)).collect();
    assert_eq!(out_of_order, ["long"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_stopped_at_any_step_resumes_in_postgres() {
    if !is_there() {
        return;
    }
    let test = MigrationTest::new().await;
    let whole = test.migrate_to("whole.db", no_observer()).await.unwrap();
    let steps = whole.counts.total();
    // A prime stride covers all kinds of records.
    for step in (1..steps).step_by(31) {
        let database = TestDatabase::new().await;
        let open_sides = || async {
            let from = open_source(&test.path("from.db"), &test.clock).await;
            (from, open_postgres(&database, &test.clock).await)
        };
        let (from, to) = open_sides().await;
        let stop = run_at(MigrationPhase::Copy, step, stop_migration);
        let error = error_text(test.migrate_between(from, to, stop).await);
        assert!(
            error.contains("reading or writing stopped"),
            "{step}: {error}"
        );
        let (from, to) = open_sides().await;
        let rest = test.migrate_between(from, to, no_observer()).await.unwrap();
        assert!(rest.copied.total() < steps, "{step}: started over");
        assert_eq!(rest.digest, whole.digest, "{step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_over_postgres_keeps_had_any_of_the_key_store() {
    if !is_there() {
        return;
    }
    let folder = retain_testkit::scratch::folder();
    let test = MigrationTest {
        folder,
        clock: TestClock::default(),
    };
    let store = open(&test.path("from.db"), &test.clock).await;
    let mut key = api_key("a");
    key.user = Some("ada".to_owned());
    store.keys().add(&key).await.unwrap();
    store.erase_user("app", "ada").await.unwrap();
    drop(store);
    let database = TestDatabase::new().await;
    let from = open_source(&test.path("from.db"), &test.clock).await;
    let to = open_postgres(&database, &test.clock).await;
    test.migrate_between(from, to.clone(), no_observer())
        .await
        .unwrap();
    let back = open(&test.path("back.db"), &test.clock).await;
    let keys = back.keys();
    test.migrate_between(to, side(back), no_observer())
        .await
        .unwrap();
    assert!(keys.had_any().await.unwrap());
    assert_eq!(keys.keys().await.unwrap(), []);
}
