//! How like memories are to a question in general, so that a likeness can be told from chance.
//!
//! Models differ in what they call alike: with one, everything is between 0.7 and 0.9, with another
//! between 0 and 0.5. So a likeness is measured by how far it stands out from the mean of the user's
//! memories, in standard deviations. That hardly changes with one memory more or less, and not at all with
//! which of them the filters allow.

use super::{UserIndex, postings::Slot};

/// The mean and the spread of a likeness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    mean: f32,
    full: f32,
}

/// Standing out by this many standard deviations is as like as can be.
const OUTSTANDING: f32 = 6.0;
/// Up to this many memories all are looked at; of more, about so many, chosen by their numbers.
const ENOUGH: usize = 2_048;
/// What is expected of memories before any was seen, and how many memories that is worth: with two
/// memories nothing can be said about the usual likeness.
const EXPECTED_MEAN: f64 = 0.1;
const EXPECTED_SPREAD: f64 = 0.12;
const EXPECTED_COUNT: f64 = 20.0;
/// Likenesses are added as whole numbers: the sum is the same in whatever order memories came.
const WHOLE: f32 = 65_536.0;

/// The memories that speak for all of the user's.
#[derive(Debug)]
pub(crate) struct Sample {
    slots: Vec<Slot>,
}

impl Sample {
    pub(crate) fn of(index: &UserIndex) -> Sample {
        // In steps of two, so that one memory more hardly ever changes who is looked at.
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
    /// The scale of likenesses that are known by slot. Those beyond the end, and what is no number, do
    /// not count.
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

    /// 0 for what is like the average or less, 1 for what stands out as far as can be.
    #[inline]
    pub(crate) fn level(&self, likeness: f32) -> f32 {
        let level = (likeness - self.mean) / self.full;
        // What is not a number is not above 0.
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
    fn what_stands_out_is_on_top_whatever_the_model_calls_alike() {
        let low: Vec<f32> = (0..1_000).map(|it| 0.1 + (it % 10) as f32 * 0.01).collect();
        let high: Vec<f32> = low.iter().map(|it| it + 0.7).collect();
        let (low, high) = (scale(&low), scale(&high));
        assert_eq!(low.level(0.9), 1.0);
        assert_eq!(low.level(0.1), 0.0);
        assert!(high.level(0.8) < 0.05, "usual there");
        assert_eq!(high.level(f32::NAN), 0.0);
    }

    #[test]
    fn a_single_memory_is_judged_by_what_is_expected() {
        assert!(scale(&[0.8]).level(0.8) > 0.5);
        assert!(scale(&[0.1]).level(0.1) < 0.05);
        assert!(scale(&[]).level(0.5) > 0.4);
    }
}
