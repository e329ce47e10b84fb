//! Dates in UTC, as terms of a memory and for time expressions in a query.

use retain_core::calendar::{date_of_day, day_of_date};

/// A day, counted from 1 January 1970.
pub(crate) type Day = i64;

const SECONDS_OF_A_DAY: f64 = 86_400.0;
/// Maximum distance from 1970, in days, at which a time has a date: the years from about -2700 to
/// about 6600.
const FARTHEST_DAY: f64 = 1_700_000.0;

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i32,
    /// 1 to 12.
    pub(crate) month: u8,
    /// 1 to 31.
    pub(crate) day: u8,
}

/// Returns the day of a time in seconds since 1970. A time of 0 means unset and has no day.
pub(crate) fn day_of(timestamp: f64) -> Option<Day> {
    let day = (timestamp / SECONDS_OF_A_DAY).floor();
    (timestamp != 0.0 && day.abs() < FARTHEST_DAY).then_some(day as Day)
}

/// Returns the date of a day.
pub(crate) fn date_of(day: Day) -> Date {
    let (year, month, day) = date_of_day(day);
    Date {
        year: year as i32,
        month: month as u8,
        day: day as u8,
    }
}

/// Returns the day of a date. A day past the end of the month, such as 31 April, falls into the
/// next month.
pub(crate) fn day_at(year: i32, month: u8, day: u8) -> Day {
    day_of_date(year.into(), month.into(), day.into())
}

/// Returns the weekday of a day; 0 is Monday.
pub(crate) fn weekday_of(day: Day) -> u8 {
    (day + 3).rem_euclid(7) as u8
}

/// Returns the first day of the month `months_later` months after `date` (before it, if negative).
pub(crate) fn month_start(date: Date, months_later: i64) -> Day {
    let months = i64::from(date.year) * 12 + i64::from(date.month) - 1 + months_later;
    day_at(
        months.div_euclid(12) as i32,
        months.rem_euclid(12) as u8 + 1,
        1,
    )
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Returns the number of a month with this English name, 1 to 12.
pub(crate) fn month_named(word: &str) -> Option<u8> {
    let index = MONTHS.iter().position(|it| *it == word)?;
    Some(index as u8 + 1)
}

/// Returns the weekday with this English name, singular or plural; 0 is Monday.
pub(crate) fn weekday_named(word: &str) -> Option<u8> {
    let word = word.strip_suffix('s').unwrap_or(word);
    let index = WEEKDAYS.iter().position(|it| *it == word)?;
    Some(index as u8)
}

/// A date in four bytes, which the index stores with every memory. 0 means no date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PackedDate(u32);

impl PackedDate {
    pub(crate) fn from_timestamp(timestamp: f64) -> PackedDate {
        let Some(day) = day_of(timestamp) else {
            return PackedDate(0);
        };
        let date = date_of(day);
        let year = u32::from(date.year.clamp(0, i32::from(i16::MAX)) as u16);
        let month_and_day = (u32::from(date.month) << 5) | u32::from(date.day);
        PackedDate(year << 12 | month_and_day << 3 | u32::from(weekday_of(day)))
    }
}

/// A word of a query that a date can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatePart {
    mask: u32,
    value: u32,
}

impl DatePart {
    /// Returns the part of a date that a lowercase word names: a month, a weekday, a year or a day
    /// of the month.
    pub(crate) fn of_word(word: &str) -> Option<DatePart> {
        let part = |mask: u32, shift: u32, value: u32| DatePart {
            mask: mask << shift,
            value: value << shift,
        };
        if let Some(month) = month_named(word) {
            return Some(part(0xF, 8, u32::from(month)));
        }
        if let Some(weekday) = weekday_named(word) {
            return Some(part(0x7, 0, u32::from(weekday)));
        }
        match word.parse::<u32>() {
            Ok(day @ 1..=31) => Some(part(0x1F, 3, day)),
            Ok(year @ 1900..=2199) => Some(part(0xF_FFFF, 12, year)),
            _ => None,
        }
    }

    pub(crate) fn matches(self, date: PackedDate) -> bool {
        date.0 != 0 && date.0 & self.mask == self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_and_dates_round_trip() {
        for day in (-1_000_000..1_000_000).step_by(37) {
            let date = date_of(day);
            assert_eq!(day_at(date.year, date.month, date.day), day, "{date:?}");
        }
        let leap = date_of(day_at(2024, 2, 29));
        assert_eq!((leap.year, leap.month, leap.day), (2024, 2, 29));
        assert_eq!(day_at(1970, 1, 1), 0);
        assert_eq!(weekday_of(day_at(2023, 5, 8)), 0, "a Monday");
        assert_eq!(weekday_of(-1), 2, "Wednesday, 31 December 1969");
    }

    #[test]
    fn month_arithmetic_crosses_years() {
        let date = date_of(day_at(2023, 1, 31));
        assert_eq!(month_start(date, -1), day_at(2022, 12, 1));
        assert_eq!(month_start(date, 13), day_at(2024, 2, 1));
    }

    #[test]
    fn date_word_matches_dates_with_that_month_weekday_day_or_year() {
        // Monday, 8 May 2023.
        let date = PackedDate::from_timestamp(1_683_554_160.0);
        for (word, expected) in [
            ("may", true),
            ("june", false),
            ("monday", true),
            ("mondays", true),
            ("sunday", false),
            ("8", true),
            ("9", false),
            ("2023", true),
            ("2022", false),
        ] {
            let part = DatePart::of_word(word).unwrap();
            assert_eq!(part.matches(date), expected, "{word}");
            assert!(
                !part.matches(PackedDate::from_timestamp(0.0)),
                "time 0 has no date"
            );
            assert!(!part.matches(PackedDate::from_timestamp(f64::NAN)));
        }
        assert_eq!(DatePart::of_word("32"), None);
        assert_eq!(DatePart::of_word("paint"), None);
    }
}
