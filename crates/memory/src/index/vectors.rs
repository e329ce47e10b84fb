//! Meaning: a small vector of each memory, compared with that of the question.
//!
//! The vectors lie one after the other in memory, so that comparing all of them is one walk. What a
//! memory means together with its neighbours is no vector of its own: the likeness of a sum is the sum of
//! likenesses, divided by the sum's length, and only that length is kept.

use super::{documents::Documents, postings::Slot, sessions::NONE, window::Window};

/// What turns a text into a small vector, in the process and without waiting.
pub trait Meaning: Send + Sync {
    /// How long its vectors are.
    fn dims(&self) -> usize;

    /// The vector of a text, and the factor that makes it as long as it should be. A text of which
    /// nothing is known has a vector of zeros. The first numbers say the most, as after an analysis of
    /// principal components: the index looks at no more than 192 of them.
    fn embed(&self, text: &str) -> (Vec<i8>, f32);
}

impl<M: Meaning + ?Sized> Meaning for &M {
    fn dims(&self) -> usize {
        (**self).dims()
    }

    fn embed(&self, text: &str) -> (Vec<i8>, f32) {
        (**self).embed(text)
    }
}

/// Of 256 numbers the last quarter costs a quarter of the time and room, and finds nothing more.
const MOST_DIMS: usize = 192;

/// The vectors of all memories, by slot.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    dims: usize,
    matrix: Vec<i8>,
    /// 1 / the length of each; 0 where there is none.
    inverse_lengths: Vec<f32>,
    /// 1 / the length of each one's sum with its neighbours.
    context_inverse_lengths: Vec<f32>,
}

impl Vectors {
    pub(crate) fn new(dims: usize) -> Vectors {
        Vectors {
            dims: dims.min(MOST_DIMS),
            ..Vectors::default()
        }
    }

    /// Sets the vector of a slot. One that is too short is none.
    pub(crate) fn set(&mut self, slot: Slot, vector: &[i8]) {
        let at = slot as usize;
        if self.inverse_lengths.len() <= at {
            self.inverse_lengths.resize(at + 1, 0.0);
            self.context_inverse_lengths.resize(at + 1, 0.0);
            self.matrix.resize((at + 1) * self.dims, 0);
        }
        let row = &mut self.matrix[at * self.dims..(at + 1) * self.dims];
        if let Some(vector) = vector.get(..self.dims) {
            for (number, given) in row.iter_mut().zip(vector) {
                *number = (*given).max(-LARGEST);
            }
        } else {
            row.fill(0);
        }
        self.inverse_lengths[at] = inverse_length(row);
    }

    /// Empties a slot.
    pub(crate) fn clear(&mut self, slot: Slot) {
        if (slot as usize) < self.inverse_lengths.len() {
            self.set(slot, &[]);
            self.context_inverse_lengths[slot as usize] = 0.0;
        }
    }

    fn row(&self, slot: Slot) -> &[i8] {
        let at = slot as usize;
        &self.matrix[at * self.dims..(at + 1) * self.dims]
    }

    /// Works the length of a memory's sum with its neighbours out anew.
    pub(crate) fn mix(&mut self, slot: Slot, documents: &Documents, window: &Window) {
        let mut sum = vec![0.0_f32; self.dims];
        each_around(slot, documents, window, |at, weight| {
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

    /// Compares all with a text's vector; nothing if it says nothing.
    pub(crate) fn compared_with(&self, vector: &[i8]) -> Option<Likeness<'_>> {
        let vector = vector.get(..self.dims)?;
        let own = inverse_length(vector);
        if own == 0.0 {
            return None;
        }
        let wide: Vec<i16> = vector
            .iter()
            .map(|it| i16::from((*it).max(-LARGEST)))
            .collect();
        let rows = self
            .matrix
            .chunks_exact(self.dims)
            .zip(&self.inverse_lengths);
        let own = rows.map(|(row, inverse)| dot(&wide, row) as f32 * inverse * own);
        Some(Likeness {
            own: own.collect(),
            context_inverse_lengths: &self.context_inverse_lengths,
        })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let lengths = &self.inverse_lengths;
        self.matrix.capacity() + lengths.capacity() * 8
    }
}

/// How like memories are to a question.
pub(crate) struct Likeness<'a> {
    /// The cosine, by slot.
    own: Vec<f32>,
    context_inverse_lengths: &'a [f32],
}

impl Likeness<'_> {
    /// Of a memory's own words.
    #[inline]
    pub(crate) fn own(&self, slot: Slot) -> f32 {
        self.own[slot as usize]
    }

    /// The same for all, by slot.
    pub(crate) fn own_of_all(&self) -> &[f32] {
        &self.own
    }

    /// Of a memory and its neighbours together.
    pub(crate) fn in_context(&self, slot: Slot, documents: &Documents, window: &Window) -> f32 {
        let mut sum = 0.0;
        each_around(slot, documents, window, |at, weight| {
            sum += weight * self.own(at);
        });
        sum * self.context_inverse_lengths[slot as usize]
    }
}

/// A memory and its neighbours, with their weights. Plain loops: this runs for most memories of a
/// search, and a chain of iterators takes several times as long.
#[inline]
fn each_around(
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

fn inverse_length(vector: &[i8]) -> f32 {
    let squares: i32 = vector
        .iter()
        .map(|it| i32::from(*it) * i32::from(*it))
        .sum();
    if squares == 0 {
        0.0
    } else {
        1.0 / (squares as f32).sqrt()
    }
}

/// Two products of numbers up to this, together, fit into 16 bits.
const LARGEST: i8 = 127;
/// So many numbers are taken at a time.
const STRIDE: usize = 32;

/// The sum of products. Pairs of them are added in 16 bits before they are widened: so the compiler
/// works on eight at a time on every machine. Both have no number below -[`LARGEST`].
#[inline]
fn dot(question: &[i16], row: &[i8]) -> i32 {
    let (question, question_rest) = question.as_chunks::<STRIDE>();
    let (row, row_rest) = row.as_chunks::<STRIDE>();
    let mut lanes = [0_i32; STRIDE / 2];
    for (a, b) in question.iter().zip(row) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let first = a[lane].wrapping_mul(i16::from(b[lane]));
            let second = a[lane + STRIDE / 2].wrapping_mul(i16::from(b[lane + STRIDE / 2]));
            *sum += i32::from(first.wrapping_add(second));
        }
    }
    let rest = question_rest.iter().zip(row_rest);
    let rest: i32 = rest.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    lanes.iter().sum::<i32>() + rest
}

#[cfg(test)]
mod tests {
    use retain_testkit::random::Random;

    use super::*;
    use crate::index::documents::Row;

    fn numbers(random: &mut Random, count: usize) -> Vec<i8> {
        // Often the largest there are, where sums would overflow first.
        let number = |_| match random.below(4) {
            0 => i8::MIN,
            1 => i8::MAX,
            _ => random.below(255) as u8 as i8,
        };
        (0..count).map(number).collect()
    }

    #[test]
    fn products_are_exact_for_any_length() {
        let mut random = Random::new(11);
        for count in [0, 1, 31, 32, 33, 64, 192, 250] {
            let cut = |it: i8| it.max(-LARGEST);
            let a: Vec<i8> = numbers(&mut random, count).into_iter().map(cut).collect();
            let b: Vec<i8> = numbers(&mut random, count).into_iter().map(cut).collect();
            let wide: Vec<i16> = a.iter().map(|it| i16::from(*it)).collect();
            let plain = a.iter().zip(&b).map(|(a, b)| i32::from(*a) * i32::from(*b));
            assert_eq!(
                dot(&wide, &b),
                plain.sum::<i32>(),
                "{count} numbers, seed 11"
            );
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

    /// The mixed vector is never made; this makes it.
    fn mixed(rows: &[Vec<i8>], at: i64, window: &Window) -> Vec<f32> {
        let places = [0, -1, -2, -3, 1, 2];
        let weights = std::iter::once(&window.own)
            .chain(&window.before)
            .chain(&window.after);
        let mut sum = vec![0.0; rows[0].len()];
        for (distance, weight) in places.iter().zip(weights) {
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
    fn likeness_in_context_is_that_of_the_mixed_vector() {
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
        (0..9).for_each(|slot| vectors.mix(slot, &documents, &window));
        let question: Vec<i8> = rows[4].iter().rev().copied().collect();
        let likeness = vectors.compared_with(&question).unwrap();
        let as_floats = |it: &[i8]| -> Vec<f32> { it.iter().map(|n| f32::from(*n)).collect() };
        for slot in 0..9 {
            let own = cosine(&as_floats(&question), &as_floats(&rows[slot as usize]));
            assert!((likeness.own(slot) - own).abs() < 1e-5);
            let mixed = mixed(&rows, i64::from(slot), &window);
            let expected = cosine(&as_floats(&question), &mixed);
            let found = likeness.in_context(slot, &documents, &window);
            assert!(
                (found - expected).abs() < 1e-5,
                "slot {slot}: {found} {expected}"
            );
        }
    }

    #[test]
    fn vectors_of_nothing_are_like_nothing() {
        let mut vectors = Vectors::new(256);
        vectors.set(0, &[1; 256]);
        vectors.set(1, &[0; 256]);
        vectors.set(2, &[1; 3]);
        let likeness = vectors.compared_with(&[1; 256]).unwrap();
        assert!((likeness.own(0) - 1.0).abs() < 1e-6);
        assert_eq!((likeness.own(1), likeness.own(2)), (0.0, 0.0));
        assert!(vectors.compared_with(&[0; 256]).is_none());
        assert!(vectors.compared_with(&[1; 3]).is_none());
        vectors.clear(0);
        assert_eq!(vectors.compared_with(&[1; 256]).unwrap().own(0), 0.0);
    }
}
