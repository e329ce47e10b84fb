//! How many random cases are tried, and the seed they come from.

use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::{prelude::ProptestConfig, test_runner::RngSeed};

/// So many cases, with `RETAIN_LONG` a hundred times as many. Prints the seed, which
/// `RETAIN_SEED` repeats, and leaves no file behind.
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
