//! The Gregorian calendar in UTC: days counted from 1970-01-01, and their dates.

/// Days from 0000-03-01 to 1970-01-01. Years begin in March, so that a leap day is the
/// last day of its year.
const DAYS_TO_1970: i64 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const DAYS_OF_ERA: i64 = 146_097;

/// Returns year, month and day of a day counted from 1970-01-01.
pub fn date_of_day(day: i64) -> (i64, i64, i64) {
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(DAYS_OF_ERA);
    let day = day.rem_euclid(DAYS_OF_ERA);
    // Subtract the leap days of the 4-, 100- and 400-year cycles, so that every year has 365 days.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, every five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = match month {
        0..=9 => (month + 3, year),
        _ => (month - 9, year + 1),
    };
    (year + era * 400, month, day)
}

/// Returns the day of a date, counted from 1970-01-01. A day after the end of its month falls into
/// the next month.
pub fn day_of_date(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month {
        3.. => (year, month - 3),
        _ => (year - 1, month + 9),
    };
    let era = year.div_euclid(400);
    let year = year.rem_euclid(400);
    let day = (153 * month + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + 365 * year + year / 4 - year / 100 + day - DAYS_TO_1970
}
