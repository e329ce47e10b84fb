//! Damages of a PostgreSQL database.

use std::sync::Arc;

use retain_core::{Migration, MigrationSide};
use retain_stores::{PostgresOptions, PostgresStore};
use retain_testkit::{
    TestClock,
    postgres::{TestDatabase, is_there},
};

use super::{
    cases::{CASES, DamageCase},
    check_and_repair, store, texts,
};
use crate::sqlite::migration::fixture;

async fn open(database: &TestDatabase, clock: &TestClock) -> MigrationSide {
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
async fn check_reports_every_damage_and_repair_restores_what_the_log_gives() {
    if !is_there() {
        return;
    }
    let folder = retain_testkit::scratch::folder();
    let (source, clock) = (folder.path().join("source.db"), TestClock::default());
    fixture::fill(&source, &clock).await;
    let intact = fixture::side(fixture::open(&source, &clock).await);
    let template = TestDatabase::new().await;
    let filled = open(&template, &clock).await;
    let migration = Migration::new(intact.clone(), filled.clone());
    let migration = migration.with_clock(Arc::new(clock.clone()));
    migration.run().await.unwrap();
    assert_eq!(texts(&store(&filled).check().await.unwrap()), "");
    drop((migration, filled));
    for cases in groups() {
        let database = template.copy().await;
        let client = database.client().await;
        for case in &cases {
            let done = client.batch_execute(case.postgres).await;
            done.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
        let damaged = open(&database, &clock).await;
        check_and_repair(&cases, &damaged, &intact).await;
    }
}

/// The damages that hide another one. They get a database of their own.
const ALONE: [&str; 9] = [
    "artifact without its bytes",
    "changed index",
    "log of a session that is marked for deletion",
    "missing column",
    "missing table",
    "missing version of an artifact",
    "number that a new memory would reuse",
    "revision before that of a memory",
    "wrong number of tombstones",
];

/// Groups the damages that one database can have together, because a database takes long to copy.
fn groups() -> Vec<Vec<&'static DamageCase>> {
    let is_alone = |case: &&DamageCase| ALONE.contains(&case.name);
    let (alone, others): (Vec<_>, Vec<_>) = CASES.iter().partition(is_alone);
    assert_eq!(alone.len(), ALONE.len());
    let mut groups: Vec<Vec<_>> = alone.into_iter().map(|case| vec![case]).collect();
    let (repairable, permanent): (Vec<&DamageCase>, Vec<_>) =
        others.into_iter().partition(|case| case.is_repairable);
    let (lossy, lossless) = repairable.into_iter().partition(|case| case.loses_data);
    groups.extend([lossy, lossless, permanent]);
    groups
}
