//! Parses the compiled-in table and verifies its checksum.
//!
//! `scripts/distill-static-vectors` writes the table and documents its layout.

use super::{DIMS, StaticVectorsError};

const MAGIC: &[u8; 8] = b"RETAINSV";
const VERSION: u32 = 1;
const HEADER: usize = 32;
/// Maximum number of rows. A token id has two bytes, one value of which marks an empty slot of the
/// hash table.
const MOST_ROWS: usize = u16::MAX as usize;

/// The parts of a verified table.
#[derive(Debug)]
pub(super) struct Table {
    /// The scale of each row.
    pub(super) scales: Vec<f32>,
    /// The components, `DIMS` per row.
    pub(super) rows: &'static [u8],
    /// One token per line, in the order of the rows.
    pub(super) vocabulary: &'static str,
    pub(super) checksum: u64,
}

impl Table {
    pub(super) fn read(file: &'static [u8]) -> Result<Table, StaticVectorsError> {
        Table::read_parts(file).ok_or(StaticVectorsError::Corrupt)
    }

    fn read_parts(file: &'static [u8]) -> Option<Table> {
        let (header, body) = file.split_at_checked(HEADER)?;
        let number = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let is_supported = header.starts_with(MAGIC)
            && number(8)? == VERSION
            && usize::try_from(number(12)?) == Ok(DIMS);
        let rows = usize::try_from(number(16)?).ok()?;
        let vocabulary = usize::try_from(number(20)?).ok()?;
        let expected = u64::from_le_bytes(*header.last_chunk()?);
        if !is_supported || rows > MOST_ROWS || checksum(body) != expected {
            return None;
        }
        let (scales, body) = body.split_at_checked(rows * 4)?;
        let (rows, body) = body.split_at_checked(rows * DIMS)?;
        if body.len() != vocabulary {
            return None;
        }
        let vocabulary = std::str::from_utf8(body).ok()?;
        let (scales, _) = scales.as_chunks::<4>();
        Some(Table {
            scales: scales.iter().map(|it| f32::from_le_bytes(*it)).collect(),
            rows,
            vocabulary,
            checksum: expected,
        })
    }

    /// Returns the components of a row and their scale.
    pub(super) fn row(&self, row: usize) -> Option<(&[u8; DIMS], f32)> {
        let (rows, _) = self.rows.as_chunks::<DIMS>();
        Some((rows.get(row)?, *self.scales.get(row)?))
    }
}

/// Computes a checksum over groups of eight bytes, the last one padded with zeros. It detects
/// corruption but not tampering.
fn checksum(body: &[u8]) -> u64 {
    let (words, rest) = body.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(last);
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for word in words.iter().chain(&last) {
        sum = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        sum ^= sum >> 32;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rows: &[[u8; DIMS]], scales: &[f32], vocabulary: &str) -> Vec<u8> {
        let mut body: Vec<u8> = scales.iter().flat_map(|it| it.to_le_bytes()).collect();
        body.extend(rows.iter().flatten());
        body.extend(vocabulary.bytes());
        let mut file = MAGIC.to_vec();
        let numbers = [1, DIMS, rows.len(), vocabulary.len()];
        file.extend(numbers.iter().flat_map(|it| (*it as u32).to_le_bytes()));
        file.extend(checksum(&body).to_le_bytes());
        file.extend(body);
        file
    }

    fn small() -> Vec<u8> {
        file(&[[1; DIMS], [2; DIMS]], &[0.5, 0.25], "one\ntwo\n")
    }

    fn read(file: Vec<u8>) -> Result<Table, StaticVectorsError> {
        Table::read(file.leak())
    }

    #[test]
    fn valid_table_is_parsed() {
        let table = read(small()).unwrap();
        assert_eq!(table.row(1), Some((&[2; DIMS], 0.25)));
        assert_eq!(table.row(2), None);
        assert_eq!(table.vocabulary, "one\ntwo\n");
    }

    #[test]
    fn every_corrupt_byte_is_detected() {
        for at in 0..small().len() {
            let mut file = small();
            file[at] ^= 0x40;
            assert_eq!(read(file).unwrap_err(), StaticVectorsError::Corrupt, "{at}");
        }
    }

    #[test]
    fn truncated_table_is_corrupt() {
        for length in 0..small().len() {
            let file = small()[..length].to_vec();
            let error = read(file).unwrap_err();
            assert_eq!(error, StaticVectorsError::Corrupt, "{length}");
        }
        let mut longer = small();
        longer.push(0);
        assert_eq!(read(longer).unwrap_err(), StaticVectorsError::Corrupt);
    }
}
