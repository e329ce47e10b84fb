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

/// The cosine of two vectors of the given embedder; none if they cannot be compared.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> Option<f32> {
    if a.is_empty() || a.len() != b.len() {
        return None;
    }
    let (mut dot, mut a_squares, mut b_squares) = (0.0_f32, 0.0_f32, 0.0_f32);
    for (a, b) in a.iter().zip(b) {
        dot += a * b;
        a_squares += a * a;
        b_squares += b * b;
    }
    let cosine = dot / (a_squares.sqrt() * b_squares.sqrt());
    cosine.is_finite().then_some(cosine)
}
