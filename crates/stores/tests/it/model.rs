//! Random operations on each store, compared with a simple model. A failure prints its seed.

use std::ops::Range;

use retain_testkit::model::run_model_test;

const OPERATIONS: usize = 1500;

fn seeds() -> Range<u64> {
    match std::env::var_os("RETAIN_LONG") {
        Some(_) => 1..500,
        None => 1..7,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_matches_the_model() {
    for seed in seeds() {
        run_model_test(crate::stores::in_memory().await, seed, OPERATIONS).await;
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_matches_the_model() {
    if !retain_testkit::postgres::is_there() {
        return;
    }
    for seed in seeds() {
        run_model_test(crate::stores::postgres().await, seed, OPERATIONS).await;
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_matches_the_model() {
    for seed in seeds() {
        run_model_test(crate::stores::sqlite().await, seed, OPERATIONS).await;
    }
}
