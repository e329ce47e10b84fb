//! A JSON number as it was written.

use std::{fmt, sync::Arc};

/// A JSON number of any size and precision that keeps its text.
///
/// Two numbers are equal when they have the same value and the same kind: `1.5` equals `1.50`,
/// but `1` does not equal `1.0`.
#[derive(Clone)]
pub struct Number(Repr);

#[derive(Clone)]
enum Repr {
    /// An integer whose text is what Rust prints for it.
    Int(i64),
    /// Any other number, as its text.
    Text(Arc<str>),
}

impl Number {
    /// Creates a number from a text that the reader has checked.
    pub(crate) fn from_json_text(text: &str) -> Number {
        // `-0` stays text, because Rust would print it as `0`. A text of more than 18 bytes also
        // stays text.
        if text.len() <= 18
            && text != "-0"
            && let Ok(int) = text.parse::<i64>()
        {
            return Number(Repr::Int(int));
        }
        Number(Repr::Text(text.into()))
    }

    /// Returns the value as `i64`, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Int(int) => Some(*int),
            Repr::Text(text) => text.parse().ok(),
        }
    }

    /// Returns the value as `u64`, if it is an integer that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match &self.0 {
            Repr::Int(int) => u64::try_from(*int).ok(),
            Repr::Text(text) => text.parse().ok(),
        }
    }

    /// Returns the nearest `f64`; `None` when it is too large for one.
    pub fn as_f64(&self) -> Option<f64> {
        match &self.0 {
            Repr::Int(int) => Some(*int as f64),
            Repr::Text(text) => text.parse().ok().filter(|f: &f64| f.is_finite()),
        }
    }

    /// Whether the number is written without fraction and exponent.
    pub fn is_integer(&self) -> bool {
        match &self.0 {
            Repr::Int(_) => true,
            Repr::Text(text) => text.bytes().all(|b| b == b'-' || b.is_ascii_digit()),
        }
    }

    /// Whether JSON can represent the number. False only for a `NaN` or infinity that was set in
    /// Rust.
    pub(crate) fn is_finite(&self) -> bool {
        match &self.0 {
            Repr::Int(_) => true,
            Repr::Text(text) => text.bytes().any(|b| b.is_ascii_digit()),
        }
    }

    pub(crate) fn push_to(&self, out: &mut String) {
        use fmt::Write as _;
        match &self.0 {
            // Writing to a String cannot fail.
            Repr::Int(int) => drop(write!(out, "{int}")),
            Repr::Text(text) => out.push_str(text),
        }
    }

    /// Returns the sign, the significant digits without outer zeros, and the power of ten of the
    /// last digit.
    fn decimal(&self) -> (bool, String, i128) {
        let text = self.to_string();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(i128::MAX / 2)),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let power = exponent - fraction.len() as i128;
        let significant = digits.trim_start_matches('0');
        let trimmed = significant.trim_end_matches('0');
        if trimmed.is_empty() {
            return (negative, String::new(), 0);
        }
        let power = power + (significant.len() - trimmed.len()) as i128;
        (negative, trimmed.to_owned(), power)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        match (&self.0, &other.0) {
            (Repr::Int(a), Repr::Int(b)) => a == b,
            (Repr::Text(a), Repr::Text(b)) if a == b => true,
            _ => {
                self.is_integer() == other.is_integer()
                    && self.is_finite()
                    && other.is_finite()
                    && self.decimal() == other.decimal()
            }
        }
    }
}

impl From<i64> for Number {
    fn from(int: i64) -> Number {
        Number(Repr::Int(int))
    }
}

impl From<u64> for Number {
    fn from(int: u64) -> Number {
        match i64::try_from(int) {
            Ok(int) => Number(Repr::Int(int)),
            Err(_) => Number(Repr::Text(int.to_string().into())),
        }
    }
}

impl From<f64> for Number {
    /// Creates the number with the shortest text that reads back to the same float, in ADK's
    /// spelling (`1e+16`). Accepts a `NaN` or infinity too; writing the value then fails and names
    /// its path.
    fn from(float: f64) -> Number {
        let mut text = String::new();
        push_float(&mut text, float);
        Number(Repr::Text(text.into()))
    }
}

/// Appends the text that [`Number::from`] gives a float.
pub(crate) fn push_float(out: &mut String, float: f64) {
    use fmt::Write as _;
    // Fast path for timestamps, which are nearly all floats that are written.
    if (1e-3..1e15).contains(&float.abs()) {
        return out.push_str(zmij::Buffer::new().format_finite(float));
    }
    let begin = out.len();
    // Rust switches to exponents below 1e-4, ADK below 1e-5. Writing to a String cannot fail.
    match (1e-5..1e-4).contains(&float.abs()) {
        true => drop(write!(out, "{float}")),
        false => drop(write!(out, "{float:?}")),
    }
    if let Some(at) = out[begin..].find('e')
        && out.as_bytes().get(begin + at + 1) != Some(&b'-')
    {
        out.insert(begin + at + 1, '+');
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    fn number(text: &str) -> Number {
        Number::from_json_text(text)
    }

    #[test]
    fn numbers_keep_their_source_text() {
        for text in [
            "0",
            "-0",
            "1",
            "1.0",
            "-1.50",
            "1e5",
            "1E+400",
            "123456789012345678901234567890",
            "-9223372036854775808",
            "9223372036854775807",
        ] {
            assert_eq!(number(text).to_string(), text);
        }
    }

    #[test]
    fn numbers_are_equal_by_value_and_kind() {
        assert_eq!(number("1.5"), number("1.50"));
        assert_eq!(number("100.0"), number("1e2"));
        assert_eq!(number("9223372036854775807"), Number::from(i64::MAX));
        assert_ne!(number("1"), number("1.0"));
        assert_ne!(number("0.1"), number("0.10000000000000000001"));
        assert_ne!(
            number("123456789012345678901234567890"),
            number("123456789012345678901234567891")
        );
        assert_ne!(number("1.0"), number("-1.0"));
    }

    #[test]
    fn floats_from_rust_print_as_floats() {
        for (float, text) in [
            (1.0, "1.0"),
            (1e16, "1e+16"),
            (1e-4, "0.0001"),
            (1e-5, "0.00001"),
            (-9.9e-5, "-0.000099"),
            (9.9e-6, "9.9e-6"),
            (1e-6, "1e-6"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(Number::from(float).to_string(), text);
        }
        assert!(!Number::from(f64::NAN).is_finite());
        assert!(!Number::from(f64::NEG_INFINITY).is_finite());
    }

    /// If two shortest texts are equally near to the float, ADK writes the one with the even last
    /// digit. Rust's own formatting does not always choose it.
    #[test]
    fn float_is_written_as_the_shortest_text_that_round_trips() {
        assert_eq!(
            Number::from(3_529_185_789_416_165.0 / 4.0).to_string(),
            "882296447354041.2"
        );
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200_000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let near_a_time = 1.7e9 + (seed >> 11) as f64 / 1e7;
            let any = f64::from_bits(seed ^ (seed >> 29));
            for float in [near_a_time, -near_a_time, (seed >> 40) as f64 / 1e3, any] {
                if (1e-3..1e15).contains(&float.abs()) {
                    let (text, plain) = (Number::from(float).to_string(), format!("{float:?}"));
                    assert_eq!(text.len(), plain.len(), "{text} and {plain}");
                    assert_eq!(text.parse(), Ok(float), "{text} and {plain}");
                }
            }
        }
    }
}
