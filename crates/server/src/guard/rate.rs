//! Rate limits: one token bucket per key.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Maximum number of buckets before full ones, which limit nothing, are removed.
const BUCKETS_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled_us: i64,
}

/// The buckets of all keys.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl Rates {
    /// Checks whether `key` has a token without taking it, or returns the seconds until it has one.
    pub(crate) fn check(&self, key: &str, per_second: f64, now_us: i64) -> Result<(), u64> {
        let capacity = (per_second * 2.0).max(1.0);
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = buckets.get(key);
        let tokens = tokens.map_or(capacity, |it| it.at(now_us, per_second, capacity));
        match tokens < 1.0 {
            true => Err(seconds_until_one(tokens, per_second)),
            false => Ok(()),
        }
    }

    /// Takes a token of `key`, or returns the seconds until there is one.
    pub(crate) fn take(&self, key: &str, per_second: f64, now_us: i64) -> Result<(), u64> {
        let capacity = (per_second * 2.0).max(1.0);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(key) {
            buckets.retain(|_, bucket| bucket.at(now_us, per_second, capacity) < capacity);
        }
        let full = Bucket {
            tokens: capacity,
            filled_us: now_us,
        };
        let bucket = buckets.entry(key.to_owned()).or_insert(full);
        bucket.tokens = bucket.at(now_us, per_second, capacity);
        bucket.filled_us = now_us;
        if bucket.tokens < 1.0 {
            return Err(seconds_until_one(bucket.tokens, per_second));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

fn seconds_until_one(tokens: f64, per_second: f64) -> u64 {
    let seconds = (1.0 - tokens) / per_second.max(1e-9);
    seconds.ceil().clamp(1.0, 3600.0) as u64
}

impl Bucket {
    /// Returns the tokens at this time.
    fn at(&self, now_us: i64, per_second: f64, capacity: f64) -> f64 {
        let passed = now_us.saturating_sub(self.filled_us).max(0) as f64 / 1e6;
        (self.tokens + passed * per_second).min(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_bucket_empties_and_refills() {
        let rates = Rates::default();
        let took = |now_us| rates.take("a", 2.0, now_us);
        assert_eq!([took(0), took(0), took(0), took(0)], [Ok(()); 4]);
        assert_eq!(took(0), Err(1));
        assert_eq!(took(499_999), Err(1));
        assert_eq!(took(500_000), Ok(()));
        assert_eq!(took(500_000), Err(1));
        // A clock that goes backward adds no tokens.
        assert_eq!(took(0), Err(1));
        // Other keys have their own buckets.
        assert_eq!(rates.take("b", 2.0, 0), Ok(()));
    }

    #[test]
    fn full_rate_limit_buckets_are_dropped_when_there_are_many() {
        let rates = Rates::default();
        for key in 0..BUCKETS_MAX {
            rates.take(&key.to_string(), 1.0, 0).unwrap();
        }
        rates.take("one more", 1.0, 10_000_000).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
