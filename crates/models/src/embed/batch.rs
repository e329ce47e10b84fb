//! Splits texts into batches within a provider's limits.

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    /// Maximum number of texts.
    pub(super) texts: usize,
    /// Maximum total size in bytes. Providers limit tokens, and a text has at most as many tokens
    /// as bytes.
    pub(super) bytes: usize,
}

/// Splits the texts into batches, in order. A text that exceeds the limit gets its own batch.
pub(super) fn batches(texts: &[String], limits: BatchLimits) -> Vec<&[String]> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        let is_full = at - start >= limits.texts || bytes + text.len() > limits.bytes;
        if is_full && at > start {
            batches.push(&texts[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += text.len();
    }
    if start < texts.len() {
        batches.push(&texts[start..]);
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_every_text_once_within_limits() {
        let limits = BatchLimits {
            texts: 3,
            bytes: 10,
        };
        let lengths = |texts: &[usize]| {
            let texts: Vec<String> = texts.iter().map(|len| "x".repeat(*len)).collect();
            let batches = batches(&texts, limits);
            let all: Vec<String> = batches.concat();
            assert_eq!(all, texts);
            batches.iter().map(|batch| batch.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1, 1, 1, 1]), [3, 1]);
        assert_eq!(lengths(&[5, 5, 1]), [2, 1]);
        assert_eq!(lengths(&[50]), [1]);
        assert_eq!(lengths(&[1, 50, 1, 1]), [1, 1, 2]);
        assert_eq!(lengths(&[0, 0, 0, 0, 0, 0]), [3, 3]);
    }
}
