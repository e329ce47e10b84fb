//! Scales similarities by their distribution, to tell relevant memories from chance matches.
//!
//! Typical similarities differ between models: 0.7 to 0.9 for one, 0 to 0.5 for another. So a
//! similarity counts by its distance from the mean over all of the user's memories, in standard
//! deviations. One more memory barely changes the mean, and a filter does not change it.

use super::{UserIndex, postings::Slot};

/// The distribution of similarities to a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    mean: f32,
    /// The distance above the mean that counts as 1.
    full: f32,
}

/// Number of standard deviations above the mean that count as 1.
const OUTSTANDING: f32 = 6.0;
/// Approximate size of the sample. If there are no more memories than this, all are in the sample.
const SAMPLE_SIZE: usize = 2_048;
/// The prior distribution, and its weight as a number of memories. A few memories alone do not show
/// which similarities are typical of the model.
const EXPECTED_MEAN: f64 = 0.1;
const EXPECTED_SPREAD: f64 = 0.12;
const EXPECTED_COUNT: f64 = 20.0;
/// The integer that represents a similarity of 1: integer sums do not depend on the order of
/// addition.
const WHOLE: f32 = 65_536.0;

/// The sampled memories.
#[derive(Debug)]
pub(crate) struct Sample {
    slots: Vec<Slot>,
}

impl Sample {
    pub(crate) fn from_index(index: &UserIndex) -> Sample {
        // A power of two, so that one more memory rarely changes the sample.
        let one_in = (index.len() / SAMPLE_SIZE).next_power_of_two().min(1 << 8);
        let limit = (1 << 8) / one_in;
        let documents = &index.documents;
        let keys = documents.sample_keys.iter().zip(0..);
        let sampled = keys.filter(|(key, _)| usize::from(**key) < limit);
        let is_used = |slot: &Slot| documents.worth[*slot as usize] != 0;
        Sample {
            slots: sampled.map(|(_, slot)| slot).filter(is_used).collect(),
        }
    }
}

impl Scale {
    /// Estimates the distribution of `similarities`, a list indexed by slot, from the sampled slots.
    /// Ignores missing and non-finite values.
    pub(crate) fn from_sample(sample: &Sample, similarities: &[f32]) -> Scale {
        let (mut count, mut sum, mut squares) = (0_u32, 0_i64, 0_i64);
        for slot in &sample.slots {
            let value = similarities.get(*slot as usize).copied();
            if let Some(value) = value.filter(|it| it.is_finite()) {
                let whole = (value.clamp(-1.0, 1.0) * WHOLE) as i64;
                count += 1;
                sum += whole;
                squares += whole * whole;
            }
        }
        Scale::from_sums(f64::from(count), sum as f64, squares as f64)
    }

    fn from_sums(count: f64, sum: f64, squares: f64) -> Scale {
        let whole = f64::from(WHOLE);
        let expected_square = EXPECTED_MEAN.powi(2) + EXPECTED_SPREAD.powi(2);
        let count = count + EXPECTED_COUNT;
        let mean = (sum / whole + EXPECTED_COUNT * EXPECTED_MEAN) / count;
        let square = (squares / (whole * whole) + EXPECTED_COUNT * expected_square) / count;
        let spread = (square - mean * mean).max(1e-4).sqrt();
        Scale {
            mean: mean as f32,
            full: OUTSTANDING * spread as f32,
        }
    }

    /// Scales a similarity to 0..1: 0 for the mean or less, 1 for values far above it.
    #[inline]
    pub(crate) fn level(&self, similarity: f32) -> f32 {
        let level = (similarity - self.mean) / self.full;
        // NaN becomes 0, because it is not above 0.
        if level > 0.0 { level.min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(values: &[f32]) -> Scale {
        let whole = |it: &f32| f64::from(it * WHOLE);
        let sum = values.iter().map(whole).sum();
        let squares = values.iter().map(|it| whole(it).powi(2)).sum();
        Scale::from_sums(values.len() as f64, sum, squares)
    }

    #[test]
    fn similarity_is_scaled_to_the_range_of_the_model() {
        let low: Vec<f32> = (0..1_000).map(|it| 0.1 + (it % 10) as f32 * 0.01).collect();
        let high: Vec<f32> = low.iter().map(|it| it + 0.7).collect();
        let (low, high) = (scale(&low), scale(&high));
        assert_eq!(low.level(0.9), 1.0);
        assert_eq!(low.level(0.1), 0.0);
        assert!(high.level(0.8) < 0.05, "0.8 is typical of this model");
        assert_eq!(high.level(f32::NAN), 0.0);
    }

    #[test]
    fn similarity_of_a_single_memory_is_scaled_by_the_prior() {
        assert!(scale(&[0.8]).level(0.8) > 0.5);
        assert!(scale(&[0.1]).level(0.1) < 0.05);
        assert!(scale(&[]).level(0.5) > 0.4);
    }
}
