//! Text vectors of 256 signed bytes, compared in integer arithmetic.

use super::DIMS;

/// The meaning of a text as a direction in 256 dimensions. A text without known words has the zero
/// vector.
///
/// Each component is a signed byte. The length has no meaning: two vectors are compared by their
/// cosine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StaticVector {
    /// The components, from -127 to 127.
    numbers: [i8; DIMS],
    /// The inverse length of the components; 0 for the zero vector.
    scale: f32,
}

impl StaticVector {
    /// The zero vector. Its cosine with every vector is 0.
    pub const ZERO: StaticVector = StaticVector {
        numbers: [0; DIMS],
        scale: 0.0,
    };

    /// Returns the direction of these numbers; zero if all are 0 or one is not finite.
    pub fn from_floats(floats: &[f32; DIMS]) -> StaticVector {
        let largest = floats.iter().fold(0_f32, |most, it| most.max(it.abs()));
        let step = 127.0 / largest;
        if !step.is_normal() || floats.iter().any(|it| !it.is_finite()) {
            return StaticVector::ZERO;
        }
        let mut numbers = [0; DIMS];
        for (number, float) in numbers.iter_mut().zip(floats) {
            // Round to the nearest integer; calling `round` for each number would be slower.
            let steps = float * step;
            *number = (steps + 0.5_f32.copysign(steps)) as i32 as i8;
        }
        StaticVector::from_numbers(numbers)
    }

    /// Returns the direction of a weighted sum of vectors.
    pub fn mixed<'a>(parts: impl IntoIterator<Item = (f32, &'a StaticVector)>) -> StaticVector {
        let mut sum = [0.0; DIMS];
        for (weight, vector) in parts {
            add(&mut sum, weight * vector.scale, &vector.numbers);
        }
        StaticVector::from_floats(&sum)
    }

    /// Returns the vector as bytes, for a store.
    pub fn to_bytes(&self) -> [u8; DIMS] {
        self.numbers.map(i8::cast_unsigned)
    }

    /// Parses stored bytes; `None` if there are not 256 of them or one is -128.
    pub fn from_bytes(bytes: &[u8]) -> Option<StaticVector> {
        let bytes: &[u8; DIMS] = bytes.try_into().ok()?;
        let numbers = bytes.map(u8::cast_signed);
        let all_small = !numbers.contains(&i8::MIN);
        all_small.then(|| StaticVector::from_numbers(numbers))
    }

    /// Returns the components, as a row of the matrix that [`scan`] reads.
    pub fn numbers(&self) -> &[i8; DIMS] {
        &self.numbers
    }

    /// Returns the factor that scales the components to unit length; 0 if all are 0.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Whether the text has no known words.
    pub fn is_zero(&self) -> bool {
        self.scale == 0.0
    }

    /// Returns the cosine of two vectors, from -1 to 1; 0 if one of them is zero.
    pub fn dot(&self, other: &StaticVector) -> f32 {
        let product = product(&self.numbers.map(i16::from), &other.numbers);
        cosine(product, self.scale * other.scale)
    }

    fn from_numbers(numbers: [i8; DIMS]) -> StaticVector {
        let square = product(&numbers.map(i16::from), &numbers);
        let scale = if square == 0 {
            0.0
        } else {
            1.0 / (square as f32).sqrt()
        };
        StaticVector { numbers, scale }
    }
}

/// Computes the cosine of `query` with each vector of `matrix`, a sequence of vectors.
///
/// # Panics
///
/// If `matrix`, `scales` and `out` do not hold the same number of vectors.
pub fn scan(query: &StaticVector, matrix: &[i8], scales: &[f32], out: &mut [f32]) {
    let (rows, rest) = matrix.as_chunks::<DIMS>();
    assert!(
        rest.is_empty(),
        "the size of the matrix must be a multiple of the dimensions"
    );
    assert_eq!(rows.len(), scales.len(), "each vector must have a scale");
    assert_eq!(
        rows.len(),
        out.len(),
        "the output must have room for each cosine"
    );
    let wide = query.numbers.map(i16::from);
    for ((row, scale), out) in rows.iter().zip(scales).zip(out) {
        *out = cosine(product(&wide, row), query.scale * scale);
    }
}

/// Adds a row to a sum. The order of additions is fixed, so that every machine gets the same sum.
pub(super) fn add(sum: &mut [f32; DIMS], scale: f32, row: &[i8; DIMS]) {
    for (sum, number) in sum.iter_mut().zip(row) {
        *sum += scale * f32::from(*number);
    }
}

/// Returns the dot product. The components of `wide` are between -127 and 127.
///
/// Sums of two products fit into 16 bits, because 2 * 127 * 128 is below 2^15. The compiler can
/// then process eight at a time on every x86-64. A plain loop takes twice as long.
fn product(wide: &[i16; DIMS], row: &[i8; DIMS]) -> i32 {
    let (wide, _) = wide.as_chunks::<32>();
    let (row, _) = row.as_chunks::<32>();
    let mut sums = [0_i32; 16];
    for (wide, row) in wide.iter().zip(row) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let one = wide[lane].wrapping_mul(i16::from(row[lane]));
            let other = wide[lane + 16].wrapping_mul(i16::from(row[lane + 16]));
            *sum += i32::from(one.wrapping_add(other));
        }
    }
    sums.iter().sum()
}

/// Computes a cosine from a dot product and the product of the scales. Clamps the result, because
/// rounding can make it larger than 1.
fn cosine(product: i32, scale: f32) -> f32 {
    (product as f32 * scale).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use retain_testkit::random::Random;

    use super::*;

    fn random_numbers(random: &mut Random) -> [i8; DIMS] {
        // Chooses extreme values often, because they overflow first.
        std::array::from_fn(|_| match random.below(4) {
            0 => 127,
            1 => -127,
            _ => random.below(255) as u8 as i8,
        })
        .map(|it: i8| it.max(-127))
    }

    fn slow_product(a: &[i8; DIMS], b: &[i8; DIMS]) -> i64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| i64::from(*a) * i64::from(*b)).sum()
    }

    #[test]
    fn dot_products_are_exact() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (a, mut b) = (random_numbers(&mut random), random_numbers(&mut random));
            b[random.below(256) as usize] = i8::MIN;
            let fast = product(&a.map(i16::from), &b);
            assert_eq!(i64::from(fast), slow_product(&a, &b), "seed {seed}");
        }
        for (a, b) in [(127, 127), (-127, i8::MIN), (127, i8::MIN), (-127, 127)] {
            let (a, b) = ([a; DIMS], [b; DIMS]);
            let fast = product(&a.map(i16::from), &b);
            assert_eq!(i64::from(fast), slow_product(&a, &b));
        }
    }

    #[test]
    fn scan_equals_single_dot_products() {
        let mut random = Random::new(7);
        let mut vector = || StaticVector::from_numbers(random_numbers(&mut random));
        let (query, mut vectors) = (vector(), vec![StaticVector::ZERO]);
        vectors.extend((0..50).map(|_| vector()));
        let matrix: Vec<i8> = vectors.iter().flat_map(|it| *it.numbers()).collect();
        let scales: Vec<f32> = vectors.iter().map(StaticVector::scale).collect();
        let mut out = vec![9.0; vectors.len()];
        scan(&query, &matrix, &scales, &mut out);
        let single: Vec<f32> = vectors.iter().map(|it| query.dot(it)).collect();
        assert_eq!(out, single);
        assert_eq!(out[0], 0.0);
    }

    #[test]
    fn vector_components_are_rounded_to_the_nearest_step() {
        let mut floats = [0.0; DIMS];
        floats[..6].copy_from_slice(&[1270.0, -1270.0, 14.9, 15.1, -14.9, -15.1]);
        let vector = StaticVector::from_floats(&floats);
        assert_eq!(vector.numbers()[..7], [127, -127, 1, 2, -1, -2, 0]);
    }

    #[test]
    fn zero_or_non_finite_floats_become_the_zero_vector() {
        assert_eq!(StaticVector::from_floats(&[0.0; DIMS]), StaticVector::ZERO);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut floats = [1.0; DIMS];
            floats[200] = odd;
            assert!(StaticVector::from_floats(&floats).is_zero(), "{odd}");
        }
        assert!(!StaticVector::from_floats(&[1e-30; DIMS]).is_zero());
        assert!(!StaticVector::from_floats(&[1e30; DIMS]).is_zero());
    }

    #[test]
    fn vector_bytes_round_trip() {
        let mut random = Random::new(11);
        let vector = StaticVector::from_numbers(random_numbers(&mut random));
        let bytes = vector.to_bytes();
        assert_eq!(StaticVector::from_bytes(&bytes), Some(vector));
        assert_eq!(StaticVector::from_bytes(&bytes[1..]), None);
        assert_eq!(StaticVector::from_bytes(&[0x80; DIMS]), None);
        let zero = StaticVector::from_bytes(&[0; DIMS]).unwrap();
        assert!(zero.is_zero() && zero.dot(&vector) == 0.0);
    }

    #[test]
    fn mixed_vector_lies_between_its_parts() {
        let mut random = Random::new(13);
        let mut vector = || StaticVector::from_numbers(random_numbers(&mut random));
        let (a, b) = (vector(), vector());
        let mixed = StaticVector::mixed([(1.0, &a), (0.5, &b)]);
        assert!(mixed.dot(&a) > mixed.dot(&b) && mixed.dot(&b) > a.dot(&b));
        assert!(StaticVector::mixed([]).is_zero());
        let opposite = StaticVector::mixed([(-1.0, &a)]);
        assert!(opposite.dot(&a) < -0.999);
    }
}
