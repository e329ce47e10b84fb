//! The embeddings of documents, if an embedder is configured.
//!
//! A document is not compared if it has no vector, or if an earlier embedder made its vector with
//! another number of dimensions. Stored vectors have length 1, so that a cosine is a dot product.

use super::postings::Slot;

/// The vectors by slot; empty for a document without a vector.
#[derive(Debug, Default)]
pub(crate) struct Embeddings {
    by_slot: Vec<Box<[f32]>>,
}

impl Embeddings {
    /// Sets the vector of a slot. A zero vector counts as none.
    pub(crate) fn set(&mut self, slot: Slot, vector: Vec<f32>) {
        let at = slot as usize;
        if vector.is_empty() && at >= self.by_slot.len() {
            return;
        }
        if at >= self.by_slot.len() {
            self.by_slot.resize_with(at + 1, Box::default);
        }
        self.by_slot[at] = of_length_one(vector).unwrap_or_default().into();
    }

    /// Clears a slot.
    pub(crate) fn clear(&mut self, slot: Slot) {
        if let Some(vector) = self.by_slot.get_mut(slot as usize) {
            *vector = Box::default();
        }
    }

    /// Returns the cosine of `query` with each vector, by slot; NaN if the two cannot be compared.
    /// Returns an empty list if `query` is zero or not finite.
    pub(crate) fn similarities(&self, query: &[f32]) -> Vec<f32> {
        let Some(query) = of_length_one(query.to_vec()) else {
            return Vec::new();
        };
        let similarity = |it: &[f32]| {
            if it.len() == query.len() {
                dot(&query, it)
            } else {
                f32::NAN
            }
        };
        self.by_slot.iter().map(|it| similarity(it)).collect()
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.by_slot.iter().map(|it| it.len() * 4 + 32).sum()
    }
}

/// Scales a vector to length 1; `None` if its length is zero or not finite.
fn of_length_one(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let squares: f64 = vector.iter().map(|it| f64::from(*it).powi(2)).sum();
    let length = squares.sqrt();
    if !length.is_normal() {
        return None;
    }
    for number in &mut vector {
        *number = (f64::from(*number) / length) as f32;
    }
    Some(vector)
}

/// Computes the dot product in lanes, so that the compiler uses SIMD.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_that_are_zero_or_of_another_length_have_no_similarity() {
        let mut embeddings = Embeddings::default();
        embeddings.set(0, vec![0.0, 2.0]);
        embeddings.set(2, vec![1.0; 3]);
        embeddings.set(3, vec![f32::NAN, 1.0]);
        embeddings.set(4, vec![0.0, 0.0]);
        embeddings.set(5, vec![1e30, 1e30]);
        embeddings.set(9, Vec::new());
        let found = embeddings.similarities(&[0.0, 5.0]);
        assert_eq!(found[0], 1.0);
        assert!(found[1..5].iter().all(|it| it.is_nan()), "{found:?}");
        assert!((found[5] - 0.5_f32.sqrt()).abs() < 1e-6);
        assert_eq!(found.len(), 6, "an empty vector allocates no slots");
        assert!(embeddings.similarities(&[0.0, 0.0]).is_empty());
        embeddings.clear(0);
        embeddings.set(5, Vec::new());
        assert!(
            embeddings
                .similarities(&[0.0, 5.0])
                .iter()
                .all(|it| it.is_nan())
        );
    }

    #[test]
    fn dot_product_equals_the_sequential_sum() {
        for count in [1, 15, 16, 17, 40] {
            let a: Vec<f32> = (0..count).map(|it| it as f32).collect();
            let plain: f32 = a.iter().map(|it| it * it).sum();
            assert_eq!(dot(&a, &a), plain, "{count} numbers");
        }
    }
}
