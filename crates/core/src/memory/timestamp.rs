//! The time of a memory as text: ISO 8601 from float seconds and back. Always UTC.

use crate::calendar::{date_of_day, day_of_date};

const SECONDS_OF_DAY: i64 = 86_400;

/// Formats a time as ADK writes it in the UTC time zone: `2023-11-14T22:13:20`, with six decimal
/// places if the seconds have a fraction, and without an offset.
///
/// Returns `None` for a time that is not a number or outside the years 1 to 9999.
pub fn timestamp_text(seconds: f64) -> Option<String> {
    if !(-1e12..1e12).contains(&seconds) {
        return None;
    }
    let mut whole = seconds.trunc() as i64;
    // Round the fraction alone, half to even: scaling the whole seconds too would lose digits.
    let mut micros = (seconds.fract() * 1e6).round_ties_even() as i64;
    whole += micros.div_euclid(1_000_000);
    micros = micros.rem_euclid(1_000_000);
    let (year, month, day) = date_of_day(whole.div_euclid(SECONDS_OF_DAY));
    if !(1..=9999).contains(&year) {
        return None;
    }
    let second = whole.rem_euclid(SECONDS_OF_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    Some(match micros {
        0 => text,
        _ => format!("{text}.{micros:06}"),
    })
}

/// Parses an ISO 8601 text into seconds since 1970: a date, or date and time, with or without an
/// offset.
pub(super) fn seconds_of_text(text: &str) -> Option<f64> {
    let mut rest = text.as_bytes();
    let year = take_number(&mut rest, 4)?;
    take(&mut rest, b'-')?;
    let month = take_number(&mut rest, 2)?;
    take(&mut rest, b'-')?;
    let day = take_number(&mut rest, 2)?;
    let days = day_of_date(year, month, day);
    if date_of_day(days) != (year, month, day) || year == 0 {
        return None;
    }
    let mut micros = days * SECONDS_OF_DAY * 1_000_000;
    if !rest.is_empty() {
        take(&mut rest, b'T').or_else(|| take(&mut rest, b' '))?;
        micros += take_time(&mut rest)?;
    }
    rest.is_empty().then(|| crate::ports::seconds(micros))
}

/// Reads the microseconds of `22:13`, `22:13:20` or `22:13:20.25`, minus the offset after it.
fn take_time(rest: &mut &[u8]) -> Option<i64> {
    let mut seconds = take_hours_and_minutes(rest)? * 60;
    let mut micros = 0;
    if take(rest, b':').is_some() {
        seconds += take_number(rest, 2).filter(|second| *second < 60)?;
        if take(rest, b'.').is_some() {
            micros = take_fraction(rest)?;
        }
    }
    let offset = match rest.split_first() {
        Some((b'Z' | b'z', _)) => {
            *rest = &rest[1..];
            0
        }
        Some((sign @ (b'+' | b'-'), _)) => {
            let ahead = if *sign == b'+' { 1 } else { -1 };
            *rest = &rest[1..];
            ahead * take_hours_and_minutes(rest)? * 60
        }
        _ => 0,
    };
    Some((seconds - offset) * 1_000_000 + micros)
}

fn take_hours_and_minutes(rest: &mut &[u8]) -> Option<i64> {
    let hour = take_number(rest, 2).filter(|hour| *hour < 24)?;
    take(rest, b':')?;
    let minute = take_number(rest, 2).filter(|minute| *minute < 60)?;
    Some(hour * 60 + minute)
}

/// Reads the decimal places as microseconds; more than six are truncated.
fn take_fraction(rest: &mut &[u8]) -> Option<i64> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, after) = rest.split_at(digits);
    *rest = after;
    let padded = fraction.iter().copied().chain([b'0'; 6]).take(6);
    (digits > 0).then(|| padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

fn take_number(rest: &mut &[u8], digits: usize) -> Option<i64> {
    let (number, after) = rest.split_at_checked(digits)?;
    *rest = after;
    number.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

fn take(rest: &mut &[u8], expected: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[expected])?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_formatted_as_in_python() {
        // Results of Python's datetime.fromtimestamp(…).isoformat() in UTC.
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00"),
            (-0.0, "1970-01-01T00:00:00"),
            (1_700_000_000.25, "2023-11-14T22:13:20.250000"),
            (1_709_164_800.0, "2024-02-29T00:00:00"),
            (951_868_799.999_999_9, "2000-03-01T00:00:00"),
            (-0.25, "1969-12-31T23:59:59.750000"),
            (-1e-7, "1970-01-01T00:00:00"),
            (0.000_000_5, "1970-01-01T00:00:00"),
            (0.000_001_5, "1970-01-01T00:00:00.000002"),
            (0.000_002_5, "1970-01-01T00:00:00.000002"),
            (-62_135_510_400.0, "0001-01-02T00:00:00"),
            (253_402_300_799.0, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(timestamp_text(seconds).as_deref(), Some(text), "{seconds}");
        }
        for seconds in [
            f64::NAN,
            f64::INFINITY,
            -1e300,
            253_402_300_800.0,
            -62_135_596_801.0,
        ] {
            assert_eq!(timestamp_text(seconds), None, "{seconds}");
        }
    }

    #[test]
    fn timestamps_of_all_dates_round_trip() {
        let (first, last) = (day_of_date(1, 1, 1), day_of_date(9999, 12, 31));
        assert_eq!((first, last), (-719_162, 2_932_896));
        // Eleven has no common factor with the number of days in 400 years, so every day of that
        // cycle is tested.
        for day in (first..=last).step_by(11) {
            let seconds = (day * SECONDS_OF_DAY) as f64;
            let text = timestamp_text(seconds).unwrap();
            assert_eq!(seconds_of_text(&text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn iso_time_in_other_formats_is_parsed() {
        for (text, seconds) in [
            ("2023-11-14", 1_699_920_000.0),
            ("2023-11-14 22:13", 1_699_999_980.0),
            ("2023-11-14T22:13:20Z", 1_700_000_000.0),
            ("2023-11-14T23:43:20.5+01:30", 1_700_000_000.5),
            ("2023-11-14T20:13:20.123456789-02:00", 1_700_000_000.123_456),
        ] {
            assert_eq!(seconds_of_text(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2023-02-29",
            "0000-01-01",
            "2023-13-01",
            "2023-11-14T",
            "2023-11-14T24:00",
            "2023-11-14T22:60",
            "2023-11-14T22:13:60",
            "2023-11-14T22:13:20.",
            "2023-11-14T22:13:20+1",
            "2023-11-14T22:13:20ZZ",
            "２023-11-14",
        ] {
            assert_eq!(seconds_of_text(text), None, "{text}");
        }
    }
}
