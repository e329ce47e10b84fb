//! Concurrent writers and readers on every store. Stores with injected faults test the checker.

use std::sync::{Arc, OnceLock};

use retain_stores::InMemoryStore;
use retain_testkit::{
    Harness, Persistence, TestClock,
    broken::{Fault, FaultInjector},
    history::{Report, check_history, usual_operations},
    wrapper::WrappedStore,
};

const SEED: u64 = 20_231_114;

fn assert_no_anomalies(report: &Report) {
    assert!(report.acknowledged > 0 && report.refused > 0 && report.reads > 0);
    let anomalies: Vec<&String> = report.anomalies.iter().take(10).collect();
    assert!(anomalies.is_empty(), "{anomalies:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_history_has_no_anomalies() {
    let harness = crate::stores::in_memory().await;
    assert_no_anomalies(&check_history(harness, SEED, usual_operations()).await);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_history_has_no_anomalies() {
    if !retain_testkit::postgres::is_there() {
        return;
    }
    let harness = crate::stores::postgres().await;
    assert_no_anomalies(&check_history(harness, SEED, usual_operations()).await);
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_history_has_no_anomalies() {
    let harness = crate::stores::sqlite().await;
    assert_no_anomalies(&check_history(harness, SEED, usual_operations()).await);
}

async fn open_faulty(fault: Fault) -> Harness {
    let store = OnceLock::new();
    Harness::new(Persistence::Volatile, move |clock: TestClock| {
        let new = || {
            let store = InMemoryStore::with_clock(Arc::new(clock));
            WrappedStore::with(store, FaultInjector::new(fault, 50))
        };
        std::future::ready(store.get_or_init(new).clone())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn history_check_finds_injected_faults() {
    for fault in Fault::ALL {
        let report = check_history(open_faulty(fault).await, SEED, 20_000).await;
        assert!(!report.anomalies.is_empty(), "{fault:?} was not found");
    }
}
