//! The number of random test cases, and their seed.

use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::{prelude::ProptestConfig, test_runner::RngSeed};

/// Returns a configuration for `cases` cases, or 100 times as many if `RETAIN_LONG` is set. Prints
/// the seed; set `RETAIN_SEED` to it to repeat the cases. Writes no regression file.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let factor = match std::env::var_os("RETAIN_LONG") {
        Some(_) => 100,
        None => 1,
    };
    let seed = match std::env::var("RETAIN_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => RandomState::new().build_hasher().finish(),
    };
    println!("RETAIN_SEED={seed}");
    ProptestConfig {
        cases: cases * factor,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}
