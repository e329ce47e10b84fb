//! Scale similarities by their distribution, to tell relevant ones from chance.
//!
//! Models differ in their typical similarity: one gives 0.7 to 0.9, another 0 to 0.5. So a
//! similarity is measured in standard deviations above the mean of the user's memories, which
//! barely changes with one memory and not at all with filters.

use super::{UserIndex, postings::Slot};

/// Mean and standard deviation of a similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    mean: f32,
    full: f32,
}

/// This many standard deviations above the mean count as 1.
const OUTSTANDING: f32 = 6.0;
/// Size of the sample. With more memories than this, about this many are sampled.
const ENOUGH: usize = 2_048;
/// The prior distribution and its weight in memories. It is needed because a few memories do not
/// show the typical similarity.
const EXPECTED_MEAN: f64 = 0.1;
const EXPECTED_SPREAD: f64 = 0.12;
const EXPECTED_COUNT: f64 = 20.0;
/// Similarities are added as integers, so that the sum does not depend on the order.
const WHOLE: f32 = 65_536.0;

/// The sampled memories.
#[derive(Debug)]
pub(crate) struct Sample {
    slots: Vec<Slot>,
}

impl Sample {
    pub(crate) fn of(index: &UserIndex) -> Sample {
        // A power of two, so that one more memory rarely changes the sample.
        let one_in = (index.len() / ENOUGH).next_power_of_two().min(1 << 8);
        let looked_at = (1 << 8) / one_in;
        let documents = &index.documents;
        let lots = documents.lots.iter().zip(0..);
        let drawn = lots.filter(|(lot, _)| usize::from(**lot) < looked_at);
        let is_there = |slot: &Slot| documents.worth[*slot as usize] != 0;
        Sample {
            slots: drawn.map(|(_, slot)| slot).filter(is_there).collect(),
        }
    }
}

impl Scale {
    /// The scale of similarities by slot. Missing values and NaN do not count.
    pub(crate) fn of(sample: &Sample, likeness: &[f32]) -> Scale {
        let (mut count, mut sum, mut squares) = (0_u32, 0_i64, 0_i64);
        for slot in &sample.slots {
            let value = likeness.get(*slot as usize).copied();
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

    /// 0 for the average or less, 1 for values far above it.
    #[inline]
    pub(crate) fn level(&self, likeness: f32) -> f32 {
        let level = (likeness - self.mean) / self.full;
        // NaN is not above 0.
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
        assert!(high.level(0.8) < 0.05, "usual there");
        assert_eq!(high.level(f32::NAN), 0.0);
    }

    #[test]
    fn similarity_of_a_single_memory_is_scaled_by_the_prior() {
        assert!(scale(&[0.8]).level(0.8) > 0.5);
        assert!(scale(&[0.1]).level(0.1) < 0.05);
        assert!(scale(&[]).level(0.5) > 0.4);
    }
}
