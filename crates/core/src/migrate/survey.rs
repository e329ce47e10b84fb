//! Detects writes to the source: surveys at the beginning and at the end must be equal.

use std::{collections::BTreeMap, ops::AddAssign};

use sha2::{Digest as _, Sha256};

use super::outcome::MigrationCounts;

/// Maximum clock difference of two stores. Data that expires within this time may exist on one side
/// only.
pub(super) const SLACK_US: i64 = 60_000_000;

/// A survey of one side.
#[derive(Debug, Clone, Default)]
pub(super) struct SideSurvey {
    pub(super) counts: MigrationCounts,
    /// The sum of the hashes of the records that do not expire. It does not depend on their order.
    sum: u64,
    /// The sums of the hashes of expiring records, by minute of expiry. They are separate, so that
    /// an expired record does not count as a change.
    expiring: BTreeMap<i64, u64>,
    /// Whether any record was added.
    has_records: bool,
}

impl SideSurvey {
    /// Adds a record. `parts` are the fields that reveal a write to it.
    pub(super) fn add(&mut self, parts: &[&[u8]], expires_us: Option<i64>) {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let first = hash.finalize();
        let first = first[..8].iter();
        let value = first.fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let sum = match expires_us {
            Some(expires_us) => self.expiring.entry(minute(expires_us)).or_default(),
            None => &mut self.sum,
        };
        *sum = sum.wrapping_add(value);
        self.has_records = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_records
    }

    /// Describes the change between this survey and a later one, if there is one.
    pub(super) fn describe_change(&self, later: &SideSurvey, now_us: i64) -> Option<String> {
        let from = minute(now_us.saturating_add(SLACK_US)) + 1;
        let remaining = |survey: &SideSurvey| {
            let expiring = survey.expiring.range(from..);
            expiring.fold(survey.sum, |sum, (_, value)| sum.wrapping_add(*value))
        };
        if remaining(self) == remaining(later) {
            return None;
        }
        Some(match self.counts == later.counts {
            true => "its content has changed".to_owned(),
            false => format!("it had {} and now has {}", self.counts, later.counts),
        })
    }
}

impl AddAssign for SideSurvey {
    fn add_assign(&mut self, other: SideSurvey) {
        self.counts += other.counts;
        self.sum = self.sum.wrapping_add(other.sum);
        for (minute, value) in other.expiring {
            let sum = self.expiring.entry(minute).or_default();
            *sum = sum.wrapping_add(value);
        }
        self.has_records |= other.has_records;
    }
}

fn minute(at_us: i64) -> i64 {
    at_us.div_euclid(60_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: i64 = 1_000 * 60_000_000;

    fn survey(records: &[(&str, Option<i64>)]) -> SideSurvey {
        let mut survey = SideSurvey::default();
        for (record, expires_us) in records {
            survey.add(&[record.as_bytes()], *expires_us);
        }
        survey
    }

    #[test]
    fn survey_detects_changes_and_ignores_order() {
        let before = survey(&[("a", None), ("b", None)]);
        assert_eq!(
            before.describe_change(&survey(&[("b", None), ("a", None)]), NOW_US),
            None
        );
        assert!(
            before
                .describe_change(&survey(&[("a", None)]), NOW_US)
                .is_some()
        );
        assert!(
            before
                .describe_change(&survey(&[("a", None), ("c", None)]), NOW_US)
                .is_some()
        );
        assert!(SideSurvey::default().is_empty() && !before.is_empty());
    }

    #[test]
    fn survey_ignores_sessions_that_expire_soon() {
        let soon = Some(NOW_US + SLACK_US / 2);
        let late = Some(NOW_US + 10 * SLACK_US);
        let before = survey(&[("a", None), ("b", soon), ("c", late)]);
        let after = survey(&[("a", None), ("c", late)]);
        assert_eq!(before.describe_change(&after, NOW_US), None);
        assert!(
            before
                .describe_change(&survey(&[("a", None), ("b", soon)]), NOW_US)
                .is_some()
        );
    }
}
