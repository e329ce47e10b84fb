//! Semantic similarity: compares the query's vector with a small vector per memory.
//!
//! The vectors are contiguous in RAM, so that one pass compares them all. The context vector of a
//! memory is the weighted sum of its vector and its neighbors' vectors. The index stores only the
//! length of the context vector, because its dot product with a query is the same weighted sum of
//! the dot products of those vectors.

use super::{
    documents::Documents,
    postings::Slot,
    sessions::NONE,
    window::{AFTER, BEFORE, Window},
};

/// Turns a text into a small vector in this process, without IO.
pub trait LocalEmbedder: Send + Sync {
    /// Returns the number of dimensions of its vectors.
    fn dims(&self) -> usize;

    /// Returns the vector of a text and the factor that scales it to its true length. A text
    /// without known words has a vector of zeros. The first dimensions must carry the most
    /// information, as after a principal component analysis: the index uses at most 192 of them.
    fn embed(&self, text: &str) -> (Vec<i8>, f32);

    /// Whether the model can interpret a query. If not, the search uses only words, because random
    /// similarities would distort the ranking.
    fn knows(&self, _query: &str) -> bool {
        true
    }
}

impl<M: LocalEmbedder + ?Sized> LocalEmbedder for &M {
    fn dims(&self) -> usize {
        (**self).dims()
    }

    fn embed(&self, text: &str) -> (Vec<i8>, f32) {
        (**self).embed(text)
    }

    fn knows(&self, query: &str) -> bool {
        (**self).knows(query)
    }
}

/// Maximum number of dimensions in use. The last 64 of 256 dimensions would take a quarter of the
/// time and memory without improving results.
const MOST_DIMS: usize = 192;

/// The vectors of all memories, by slot.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    dims: usize,
    /// The length of a row of the matrix: `dims`, padded with zeros to a multiple of [`LANES`].
    stride: usize,
    matrix: Vec<i8>,
    /// The inverse length of each vector; 0 for a zero vector or none.
    inverse_lengths: Vec<f32>,
    /// The inverse length of each context vector; 0 for a zero vector or none.
    context_inverse_lengths: Vec<f32>,
}

impl Vectors {
    pub(crate) fn new(dims: usize) -> Vectors {
        let dims = dims.min(MOST_DIMS);
        Vectors {
            dims,
            stride: dims.next_multiple_of(LANES),
            ..Vectors::default()
        }
    }

    /// Sets the vector of a slot. A vector that is too short counts as none.
    pub(crate) fn set(&mut self, slot: Slot, vector: &[i8]) {
        let at = slot as usize;
        if self.inverse_lengths.len() <= at {
            self.inverse_lengths.resize(at + 1, 0.0);
            self.context_inverse_lengths.resize(at + 1, 0.0);
            self.matrix.resize((at + 1) * self.stride, 0);
        }
        let row = &mut self.matrix[at * self.stride..(at + 1) * self.stride];
        if let Some(vector) = vector.get(..self.dims) {
            for (number, given) in row.iter_mut().zip(vector) {
                *number = (*given).max(-LARGEST);
            }
        } else {
            row.fill(0);
        }
        self.inverse_lengths[at] = inverse_length(row);
    }

    /// Clears a slot.
    pub(crate) fn clear(&mut self, slot: Slot) {
        if (slot as usize) < self.inverse_lengths.len() {
            self.set(slot, &[]);
            self.context_inverse_lengths[slot as usize] = 0.0;
        }
    }

    fn row(&self, slot: Slot) -> &[i8] {
        let at = slot as usize;
        &self.matrix[at * self.stride..at * self.stride + self.dims]
    }

    /// Recomputes the length of a memory's context vector.
    pub(crate) fn update_context(&mut self, slot: Slot, documents: &Documents, window: &Window) {
        let mut sum = vec![0.0_f32; self.dims];
        for_each_in_window(slot, documents, window, |at, weight| {
            let weight = weight * self.inverse_lengths[at as usize];
            if weight > 0.0 {
                for (sum, part) in sum.iter_mut().zip(self.row(at)) {
                    *sum += weight * f32::from(*part);
                }
            }
        });
        let length = sum.iter().map(|it| it * it).sum::<f32>().sqrt();
        self.context_inverse_lengths[slot as usize] = if length > 0.0 { 1.0 / length } else { 0.0 };
    }

    /// Compares the query's vector with all memories; `None` if the vector is zero or too short.
    pub(crate) fn compare(
        &self,
        vector: &[i8],
        documents: &Documents,
        window: &Window,
    ) -> Option<Similarities> {
        let query = NarrowVector::from_vector(vector.get(..self.dims)?)?;
        let rows = self
            .matrix
            .chunks_exact(self.stride)
            .zip(&self.inverse_lengths);
        let length = query.inverse_length;
        let own = rows.map(|(row, inverse)| query.dot(row) as f32 * inverse * length);
        let own: Vec<f32> = own.collect();
        let mut in_context = sums_around(&own, documents, window);
        for (sum, inverse) in in_context.iter_mut().zip(&self.context_inverse_lengths) {
            *sum *= inverse;
        }
        Some(Similarities { own, in_context })
    }

    /// Returns the size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let lengths = &self.inverse_lengths;
        self.matrix.capacity() + lengths.capacity() * 8
    }
}

/// The similarities of memories to a query: cosines, by slot.
pub(crate) struct Similarities {
    /// The similarity of each memory's own words.
    pub(crate) own: Vec<f32>,
    /// The similarity of each memory together with its neighbors.
    pub(crate) in_context: Vec<f32>,
}

/// Returns for each slot the weighted sum of its value and its neighbors' values.
///
/// Most neighbors arrived in sequence and have adjacent slots, so one vectorized pass computes
/// their sums. The other sums follow the links between neighbors.
fn sums_around(values: &[f32], documents: &Documents, window: &Window) -> Vec<f32> {
    const WINDOW: usize = BEFORE + 1 + AFTER;
    let mut sums = vec![0.0; values.len()];
    if let Some(inner) = values.len().checked_sub(WINDOW - 1) {
        let at = |distance: usize| &values[distance..distance + inner];
        let (own, before) = (at(3), [at(2), at(1), at(0)]);
        let after = [at(4), at(5)];
        for (index, sum) in sums[BEFORE..BEFORE + inner].iter_mut().enumerate() {
            // Add in the same order as `for_each_in_window`, because float sums depend on the
            // order.
            let mut all = window.own * own[index];
            all += window.before[0] * before[0][index];
            all += window.before[1] * before[1][index];
            all += window.before[2] * before[2][index];
            all += window.after[0] * after[0][index];
            all += window.after[1] * after[1][index];
            *sum = all;
        }
    }
    let mut by_links = |slot: usize| {
        let mut sum = 0.0;
        for_each_in_window(slot as Slot, documents, window, |at, weight| {
            sum += weight * values[at as usize];
        });
        sums[slot] = sum;
    };
    // Number of consecutive slots, up to this one, that each directly follow the slot of their
    // neighbor.
    let mut in_a_row = 0;
    for (slot, before) in documents.before[..values.len()].iter().enumerate() {
        let follows = slot > 0 && *before == slot as Slot - 1;
        in_a_row = if follows { in_a_row + 1 } else { 0 };
        if in_a_row < WINDOW - 1 && slot >= AFTER {
            by_links(slot - AFTER);
        }
    }
    (values.len().saturating_sub(AFTER)..values.len()).for_each(by_links);
    sums
}

/// Calls `take` with the slot and weight of a memory and of each neighbor. Uses plain loops,
/// because a chain of iterators is several times slower.
#[inline]
fn for_each_in_window(
    slot: Slot,
    documents: &Documents,
    window: &Window,
    mut take: impl FnMut(Slot, f32),
) {
    take(slot, window.own);
    let mut at = slot;
    for weight in window.before {
        at = documents.before[at as usize];
        if at == NONE {
            break;
        }
        take(at, weight);
    }
    at = slot;
    for weight in window.after {
        at = documents.after[at as usize];
        if at == NONE {
            break;
        }
        take(at, weight);
    }
}

/// Returns the inverse length of a vector; 0 for a zero vector.
fn inverse_length<N: Copy + Into<i32>>(vector: &[N]) -> f32 {
    let squares: i32 = vector
        .iter()
        .map(|it| -> i32 { (*it).into() })
        .map(|it| it * it)
        .sum();
    if squares == 0 {
        0.0
    } else {
        1.0 / (squares as f32).sqrt()
    }
}

/// The largest absolute value of a vector component.
const LARGEST: i8 = 127;
/// Number of components multiplied at a time.
const LANES: usize = 16;

/// The query's vector, prepared for many dot products.
///
/// Its components are scaled down so that the sum of products in each lane fits into 16 bits. The
/// compiler then processes eight lanes at a time on every machine. The scaling changes a cosine by
/// about 0.001.
struct NarrowVector {
    numbers: Vec<[i16; LANES]>,
    inverse_length: f32,
}

impl NarrowVector {
    /// Scales a vector down; `None` if it is zero.
    fn from_vector(vector: &[i8]) -> Option<NarrowVector> {
        let mut sums = [0_i32; LANES];
        for lanes in vector.chunks(LANES) {
            for (sum, number) in sums.iter_mut().zip(lanes) {
                *sum += i32::from(*number).abs();
            }
        }
        let most = i32::from(i16::MAX) / i32::from(LARGEST);
        // Leave room for rounding, which may add 0.5 per component of a lane.
        let room = most - vector.len().div_ceil(2 * LANES) as i32;
        let largest = sums.iter().copied().max().unwrap_or(0);
        let scale = (room.max(1) as f32 / largest.max(1) as f32).min(1.0);
        let narrow = |it: &i8| (f32::from(*it) * scale).round() as i16;
        let mut numbers = vec![[0_i16; LANES]; vector.len().div_ceil(LANES)];
        for (lanes, given) in numbers.iter_mut().zip(vector.chunks(LANES)) {
            for (lane, given) in lanes.iter_mut().zip(given) {
                *lane = narrow(given);
            }
        }
        let inverse_length = inverse_length(numbers.as_flattened());
        (inverse_length > 0.0).then_some(NarrowVector {
            numbers,
            inverse_length,
        })
    }

    /// Returns the dot product with a vector that has no component below -[`LARGEST`].
    #[inline]
    fn dot(&self, row: &[i8]) -> i32 {
        let (row, _) = row.as_chunks::<LANES>();
        let mut sums = [0_i16; LANES];
        for (numbers, row) in self.numbers.iter().zip(row) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(numbers[lane].wrapping_mul(i16::from(row[lane])));
            }
        }
        sums.iter().map(|it| i32::from(*it)).sum()
    }
}

#[cfg(test)]
mod tests {
    use retain_testkit::random::Random;

    use super::*;
    use crate::index::documents::Row;

    fn numbers(random: &mut Random, count: usize) -> Vec<i8> {
        // Chooses extreme values often, because they overflow first.
        let number = |_| match random.below(4) {
            0 => i8::MIN,
            1 => i8::MAX,
            _ => random.below(255) as u8 as i8,
        };
        (0..count).map(number).collect()
    }

    #[test]
    fn narrow_dot_products_do_not_overflow() {
        let mut random = Random::new(11);
        for count in [1, 15, 16, 17, 64, 192, 250].repeat(20) {
            let cut = |it: i8| it.max(-LARGEST);
            let a: Vec<i8> = numbers(&mut random, count).into_iter().map(cut).collect();
            let b = numbers(&mut random, count).into_iter().map(cut).collect();
            // The largest sum: a vector in the same direction, with every component at its maximum.
            let farthest = a.iter().map(|it| it.signum() * LARGEST).collect();
            let Some(narrowed) = NarrowVector::from_vector(&a) else {
                assert!(a.iter().all(|it| *it == 0));
                continue;
            };
            for mut row in [a.clone(), b, farthest] {
                let plain = narrowed.numbers.as_flattened().iter().zip(&row);
                let plain: i32 = plain.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                let as_floats =
                    |it: &[i8]| -> Vec<f32> { it.iter().map(|n| f32::from(*n)).collect() };
                let expected = cosine(&as_floats(&a), &as_floats(&row));
                let scale = narrowed.inverse_length * inverse_length(&row);
                row.resize(count.next_multiple_of(LANES), 0);
                assert_eq!(narrowed.dot(&row), plain, "{count} numbers, seed 11");
                let found = plain as f32 * scale;
                assert!(
                    expected.is_nan() || (found - expected).abs() < 0.02,
                    "{count} numbers, seed 11: {found} {expected}"
                );
            }
        }
    }

    fn table(count: usize) -> Documents {
        let mut documents = Documents::default();
        for seq in 0..count as u64 {
            let row = Row {
                seq,
                order: seq,
                timestamp: 0.0,
                author: NONE,
                words: 1,
                fingerprint: 0,
                terms: Box::default(),
            };
            documents.insert(row, 1);
            if seq > 0 {
                documents.link(seq as Slot - 1, seq as Slot);
            }
        }
        documents
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    /// Computes a context vector, which the index itself never does.
    fn context_vector(rows: &[Vec<i8>], at: i64, window: &Window) -> Vec<f32> {
        let distances = [0, -1, -2, -3, 1, 2];
        let weights = std::iter::once(&window.own)
            .chain(&window.before)
            .chain(&window.after);
        let mut sum = vec![0.0; rows[0].len()];
        for (distance, weight) in distances.iter().zip(weights) {
            let row = usize::try_from(at + distance)
                .ok()
                .and_then(|it| rows.get(it));
            for (sum, number) in sum.iter_mut().zip(row.into_iter().flatten()) {
                let length = inverse_length(row.unwrap());
                *sum += weight * length * f32::from(*number);
            }
        }
        sum
    }

    #[test]
    fn context_similarity_equals_the_cosine_of_the_context_vector() {
        let mut random = Random::new(5);
        let rows: Vec<Vec<i8>> = (0..9).map(|_| numbers(&mut random, 48)).collect();
        let rows: Vec<Vec<i8>> = rows
            .into_iter()
            .map(|it| it.into_iter().map(|n| n.max(-127)).collect())
            .collect();
        let documents = table(rows.len());
        let window = Window::WORDS;
        let mut vectors = Vectors::new(48);
        for (slot, row) in (0..).zip(&rows) {
            vectors.set(slot, row);
        }
        (0..9).for_each(|slot| vectors.update_context(slot, &documents, &window));
        let query: Vec<i8> = rows[4].iter().rev().copied().collect();
        let similarities = vectors.compare(&query, &documents, &window).unwrap();
        let as_floats = |it: &[i8]| -> Vec<f32> { it.iter().map(|n| f32::from(*n)).collect() };
        for slot in 0..9 {
            let own = cosine(&as_floats(&query), &as_floats(&rows[slot]));
            assert!((similarities.own[slot] - own).abs() < 0.01);
            let context = context_vector(&rows, slot as i64, &window);
            let expected = cosine(&as_floats(&query), &context);
            let found = similarities.in_context[slot];
            assert!(
                (found - expected).abs() < 0.01,
                "slot {slot}: {found} {expected}"
            );
        }
    }

    #[test]
    fn zero_vectors_have_no_similarity() {
        let mut vectors = Vectors::new(256);
        vectors.set(0, &[1; 256]);
        vectors.set(1, &[0; 256]);
        vectors.set(2, &[1; 3]);
        let documents = table(3);
        let compared = |vectors: &Vectors, vector: &[i8]| {
            let similarities = vectors.compare(vector, &documents, &Window::WORDS);
            similarities.map(|it| it.own)
        };
        let own = compared(&vectors, &[1; 256]).unwrap();
        assert!((own[0] - 1.0).abs() < 1e-6);
        assert_eq!((own[1], own[2]), (0.0, 0.0));
        assert!(compared(&vectors, &[0; 256]).is_none());
        assert!(compared(&vectors, &[1; 3]).is_none());
        vectors.clear(0);
        assert_eq!(compared(&vectors, &[1; 256]).unwrap()[0], 0.0);
    }

    #[test]
    fn context_sums_by_slice_and_by_links_are_equal() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let count = random.below(60) as usize;
            let mut documents = table(count);
            documents.before.fill(NONE);
            documents.after.fill(NONE);
            // The messages of two sessions, in random order and with gaps.
            let mut last = [NONE; 2];
            let mut session = 0;
            for slot in 0..count as Slot {
                if random.chance(15) {
                    session = 1 - session;
                }
                if random.chance(90) {
                    documents.link(last[session], slot);
                }
                last[session] = slot;
            }
            let values: Vec<f32> = (0..count)
                .map(|_| random.below(1_000) as f32 / 999.0)
                .collect();
            let window = Window::WORDS;
            let found = sums_around(&values, &documents, &window);
            for (slot, found) in found.into_iter().enumerate() {
                let mut sum = 0.0;
                for_each_in_window(slot as Slot, &documents, &window, |at, weight| {
                    sum += weight * values[at as usize];
                });
                assert_eq!(found, sum, "seed {seed}, slot {slot} of {count}");
            }
        }
    }
}
