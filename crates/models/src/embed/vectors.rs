//! Validates and normalizes vectors before they are stored.

use retain_core::Json;
use retain_runtime::ModelError;

use crate::http::malformed;

/// Parses a list of numbers.
pub(super) fn parse_list(list: &Json) -> Result<Vec<f32>, ModelError> {
    let items = list
        .as_array()
        .ok_or_else(|| malformed("the provider returned a vector that is not a list of numbers"))?;
    let number = |item: &Json| item.as_f64().map(|number| number as f32);
    let numbers: Option<Vec<f32>> = items.iter().map(number).collect();
    numbers.ok_or_else(|| {
        malformed("the provider returned a vector with a value that is not a number")
    })
}

/// Checks the number of dimensions and normalizes the vector to length 1. Some models shorten
/// vectors without normalizing them, and a length other than 1 would distort similarities.
pub(super) fn normalize(vector: &mut [f32], dims: usize) -> Result<(), ModelError> {
    if vector.len() != dims {
        let found = vector.len();
        return Err(ModelError::new(format!(
            "the embedding model returned {found} dimensions, expected {dims}; configure the number \
             of dimensions that the model returns"
        ))
        .with_code("WrongDimensions"));
    }
    // Use double precision: squares of very large or small numbers overflow or vanish in `f32`.
    let squares = vector.iter().map(|number| f64::from(*number).powi(2));
    let length = squares.sum::<f64>().sqrt();
    if !(length.is_finite() && length > 0.0) {
        return Err(malformed(
            "the provider returned a vector whose norm is 0 or not finite",
        ));
    }
    for number in vector.iter_mut() {
        *number = (f64::from(*number) / length) as f32;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_normalized() {
        let mut vector = vec![3.0, 4.0];
        normalize(&mut vector, 2).unwrap();
        assert_eq!(vector, [0.6, 0.8]);
        for mut large in [vec![f32::MAX, 0.0], vec![1e-30, 0.0]] {
            normalize(&mut large, 2).unwrap();
            assert_eq!(large, [1.0, 0.0]);
        }
    }

    #[test]
    fn malformed_vectors_are_rejected() {
        assert!(normalize(&mut [0.0, 0.0], 2).is_err());
        assert!(normalize(&mut [f32::NAN, 1.0], 2).is_err());
        assert!(normalize(&mut [f32::INFINITY, 1.0], 2).is_err());
        let error = normalize(&mut [1.0], 2).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("WrongDimensions"));
        for text in ["null", "1", "[null]", r#"["1"]"#, "[1e39]"] {
            let numbers = parse_list(&Json::parse(text).unwrap());
            assert!(
                numbers.is_err() || normalize(&mut numbers.unwrap(), 1).is_err(),
                "{text}"
            );
        }
    }
}
