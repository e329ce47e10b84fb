//! Parses English time expressions in a query into spans of days: "yesterday", "last week", "in
//! March", "on 5 May 2023", "two months ago", "last summer".
//!
//! At each word, the parser tries the rules for longer expressions first. Words that no rule
//! matches are ordinary words of the query.

use super::calendar::{Day, date_of, day_at, month_named, month_start, weekday_named, weekday_of};

/// The days from `from` up to, but not including, `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Day,
    pub(crate) to: Day,
}

impl Span {
    fn new(from: Day, to: Day) -> Span {
        Span { from, to }
    }

    /// Returns the days at most `reach` days before or after `day`.
    fn around(day: Day, reach: i64) -> Span {
        Span::new(day - reach, day + reach + 1)
    }

    /// Returns how well a day fits: 1 inside the span, falling to 0 at about half the span's length
    /// outside it, because people remember times only roughly.
    pub(crate) fn fit(self, day: Day) -> f32 {
        let outside = (self.from - day).max(day - self.to + 1).max(0);
        let reach = ((self.to - self.from) / 2).clamp(1, 30) + 1;
        (1.0 - outside as f32 / reach as f32).max(0.0)
    }
}

/// The times that a query names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) spans: Vec<Span>,
    /// Indexes of the words of relative times, such as "last week" or "two days ago". A search
    /// skips these words, because memories seldom contain them.
    pub(crate) relative: Vec<usize>,
}

/// A time expression that a rule found.
struct TimeMatch {
    /// Number of words in the expression.
    words: usize,
    spans: Vec<Span>,
    is_relative: bool,
}

fn time_match(words: usize, span: Span, is_relative: bool) -> Option<TimeMatch> {
    Some(TimeMatch {
        words,
        spans: vec![span],
        is_relative,
    })
}

/// A rule, which parses the words from the cursor on.
type Rule = fn(&WordCursor<'_>) -> Option<TimeMatch>;

/// All rules. Those for longer expressions come first.
const RULES: &[Rule] = &[
    numeric_date,
    day_month_year,
    month_day_year,
    season,
    some_time_ago,
    last_n_units,
    last_or_this,
    single_words,
    weekday,
    year,
];

/// A position in the words of a query.
struct WordCursor<'a> {
    words: &'a [&'a str],
    at: usize,
    today: Day,
}

impl<'a> WordCursor<'a> {
    /// Returns the word at this offset from the cursor; empty beyond the end.
    fn word(&self, offset: usize) -> &'a str {
        self.words.get(self.at + offset).copied().unwrap_or("")
    }

    fn number(&self, offset: usize) -> Option<u32> {
        self.word(offset).parse().ok()
    }

    fn year(&self, offset: usize) -> Option<i32> {
        let year = self.number(offset)?;
        (1900..2200).contains(&year).then_some(year as i32)
    }

    fn day_of_month(&self, offset: usize) -> Option<u8> {
        let day = self.number(offset)?;
        (1..=31).contains(&day).then_some(day as u8)
    }

    /// Returns the word before the cursor, skipping "the".
    fn before(&self) -> &'a str {
        let mut before = self.words[..self.at].iter().rev();
        match before.next() {
            Some(&"the") => before.next().copied().unwrap_or(""),
            other => other.copied().unwrap_or(""),
        }
    }

    /// Whether the word before the cursor is one that often precedes a time.
    fn is_after_preposition(&self) -> bool {
        const PREPOSITIONS: &[&str] = &[
            "around", "back", "by", "during", "early", "from", "in", "last", "late", "mid", "of",
            "on", "since", "this", "until", "year",
        ];
        PREPOSITIONS.contains(&self.before())
    }
}

/// Finds the times in the lowercase words of a query that is asked on the day `today`.
pub(crate) fn find_times(words: &[&str], today: Day) -> Times {
    let mut times = Times::default();
    let mut at = 0;
    while at < words.len() {
        let cursor = WordCursor { words, at, today };
        match RULES.iter().find_map(|rule| rule(&cursor)) {
            Some(found) => {
                times.spans.extend(found.spans);
                if found.is_relative {
                    times.relative.extend(at..at + found.words);
                }
                at += found.words;
            }
            None => at += 1,
        }
    }
    times
}

/// Parses "2023-05-08" and "5/8/2023". If the order of day and month is ambiguous, returns both
/// days.
fn numeric_date(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    if let (Some(year), Some(month @ 1..=12), Some(day)) =
        (cursor.year(0), cursor.number(1), cursor.day_of_month(2))
    {
        let day = day_at(year, month as u8, day);
        return time_match(3, Span::around(day, 0), false);
    }
    let (first, second) = (cursor.day_of_month(0)?, cursor.day_of_month(1)?);
    let year = cursor.year(2)?;
    let mut spans = Vec::new();
    for (month, day) in [(first, second), (second, first)] {
        let span = Span::around(day_at(year, month, day), 0);
        if month <= 12 && !spans.contains(&span) {
            spans.push(span);
        }
    }
    Some(TimeMatch {
        words: 3,
        spans,
        is_relative: false,
    })
}

/// Parses "5 May 2023" and "5th of May".
fn day_month_year(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let day = cursor.day_of_month(0)?;
    let of = usize::from(cursor.word(1) == "of");
    let month = month_named(cursor.word(1 + of))?;
    dated(cursor, 2 + of, month, Some(day))
}

/// Parses "May 5 2023", "May 5", "May 2023" and "in May".
fn month_day_year(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let month = month_named(cursor.word(0))?;
    if let Some(day) = cursor.day_of_month(1) {
        return dated(cursor, 2, month, Some(day));
    }
    // "may" and "march" are also ordinary words.
    let is_only_a_month = !matches!(cursor.word(0), "may" | "march");
    let of = usize::from(cursor.word(1) == "of");
    if is_only_a_month || cursor.is_after_preposition() || cursor.year(1 + of).is_some() {
        return dated(cursor, 1, month, None);
    }
    None
}

/// Returns the match of a month, or of a day in it. If the next words do not name a year, the most
/// recent such month or day counts.
fn dated(cursor: &WordCursor<'_>, words: usize, month: u8, day: Option<u8>) -> Option<TimeMatch> {
    let of = usize::from(cursor.word(words) == "of");
    let named = cursor.year(words + of);
    let first = day.unwrap_or(1);
    let year = named.unwrap_or_else(|| latest_year(cursor.today, month, first));
    let from = day_at(year, month, first);
    let to = match day {
        Some(_) => from + 1,
        None => month_start(date_of(from), 1),
    };
    let words = words + if named.is_some() { of + 1 } else { 0 };
    time_match(words, Span::new(from, to), false)
}

/// Returns the most recent year in which this date is not after `today`.
fn latest_year(today: Day, month: u8, day: u8) -> i32 {
    let year = date_of(today).year;
    if day_at(year, month, day) > today {
        year - 1
    } else {
        year
    }
}

/// Parses "last summer", "summer of 2022" and "in winter": seasons of the northern hemisphere.
fn season(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let prefix = usize::from(matches!(cursor.word(0), "last" | "this"));
    let first_month: u8 = match cursor.word(prefix) {
        "spring" => 3,
        "summer" => 6,
        "autumn" | "fall" => 9,
        "winter" => 12,
        _ => return None,
    };
    let of = usize::from(cursor.word(prefix + 1) == "of");
    let named = cursor.year(prefix + 1 + of);
    if prefix == 0 && named.is_none() && !cursor.is_after_preposition() {
        return None;
    }
    let mut year = named.unwrap_or_else(|| latest_year(cursor.today, first_month, 1));
    let span_of = |year: i32| {
        let start = date_of(day_at(year, first_month, 1));
        Span::new(month_start(start, 0), month_start(start, 3))
    };
    if cursor.word(0) == "last" && named.is_none() && span_of(year).to > cursor.today {
        year -= 1;
    }
    let words = prefix + 1 + if named.is_some() { of + 1 } else { 0 };
    time_match(words, span_of(year), false)
}

/// Parses a unit of time, singular or plural.
fn unit(word: &str) -> Option<Unit> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "day" => Unit::Day,
        "week" => Unit::Week,
        "weekend" => Unit::Weekend,
        "month" => Unit::Month,
        "year" => Unit::Year,
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Day,
    Week,
    Weekend,
    Month,
    Year,
}

/// Parses "two", "a" or "a couple of". Returns the number, the length of the phrase in words, and
/// whether the number is approximate.
fn amount(cursor: &WordCursor<'_>, offset: usize) -> Option<(i64, usize, bool)> {
    const NUMBERS: [&str; 12] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let article = usize::from(cursor.word(offset) == "a");
    let word = cursor.word(offset + article);
    let of = usize::from(cursor.word(offset + article + 1) == "of");
    match word {
        "couple" => Some((2, article + 1 + of, true)),
        "few" => Some((3, article + 1 + of, true)),
        "several" => Some((4, 1, true)),
        _ if article == 1 || word == "an" => Some((1, 1, false)),
        _ => {
            let named = NUMBERS.iter().position(|it| *it == word);
            let number = named.map(|it| it as i64 + 1).or(word.parse().ok())?;
            (1..1_000).contains(&number).then_some((number, 1, false))
        }
    }
}

/// Parses "two months ago" and "a few days ago".
fn some_time_ago(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let (count, words, is_approximate) = amount(cursor, 0)?;
    let unit = unit(cursor.word(words))?;
    if !matches!(cursor.word(words + 1), "ago" | "back" | "earlier") {
        return None;
    }
    let today = date_of(cursor.today);
    let span = match unit {
        Unit::Day => Span::around(cursor.today - count, i64::from(is_approximate)),
        Unit::Week | Unit::Weekend => Span::around(cursor.today - 7 * count, 3),
        Unit::Month => {
            let day = month_start(today, -count) + i64::from(today.day) - 1;
            Span::around(day, 15)
        }
        Unit::Year => {
            let year = today.year - count as i32;
            Span::new(day_at(year, 1, 1), day_at(year + 1, 1, 1))
        }
    };
    time_match(words + 2, span, true)
}

/// Parses "last two weeks" and "past few days".
fn last_n_units(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    if !matches!(cursor.word(0), "last" | "past" | "previous") {
        return None;
    }
    let (count, words, _) = amount(cursor, 1)?;
    let unit = unit(cursor.word(1 + words))?;
    let from = match unit {
        Unit::Day => cursor.today - count,
        Unit::Week | Unit::Weekend => cursor.today - 7 * count,
        Unit::Month => cursor.today - 61 * count / 2,
        Unit::Year => cursor.today - 1461 * count / 4,
    };
    time_match(2 + words, Span::new(from, cursor.today + 1), true)
}

/// Parses "last week", "this month", "last night" and "last Friday".
fn last_or_this(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let back = match cursor.word(0) {
        "last" | "past" | "previous" => 1,
        "this" => 0,
        _ => return None,
    };
    let today = cursor.today;
    let monday = today - i64::from(weekday_of(today));
    match cursor.word(1) {
        "night" | "evening" | "afternoon" | "morning" => {
            return time_match(2, Span::around(today - back, 0), true);
        }
        word => {
            if let Some(weekday) = weekday_named(word) {
                return time_match(2, Span::around(latest(today - back, weekday), 0), true);
            }
        }
    }
    let span = match unit(cursor.word(1))? {
        Unit::Day => return None,
        Unit::Week => Span::new(monday - 7 * back, monday - 7 * back + 7),
        Unit::Weekend => {
            // On a Saturday or Sunday, "last weekend" is the weekend before.
            let saturday = monday - 2 + 7 * (1 - back);
            Span::new(saturday, saturday + 2)
        }
        Unit::Month => Span::new(
            month_start(date_of(today), -back),
            month_start(date_of(today), 1 - back),
        ),
        Unit::Year => {
            let year = date_of(today).year - back as i32;
            Span::new(day_at(year, 1, 1), day_at(year + 1, 1, 1))
        }
    };
    time_match(2, span, true)
}

/// Returns the last day, no later than `day`, that is this weekday.
fn latest(day: Day, weekday: u8) -> Day {
    day - (i64::from(weekday_of(day)) - i64::from(weekday)).rem_euclid(7)
}

/// Parses "yesterday", "today", "recently" and "day before yesterday".
fn single_words(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let today = cursor.today;
    if (cursor.word(0), cursor.word(1), cursor.word(2)) == ("day", "before", "yesterday") {
        return time_match(3, Span::around(today - 2, 0), true);
    }
    let span = match cursor.word(0) {
        "yesterday" => Span::around(today - 1, 0),
        "today" | "tonight" => Span::around(today, 0),
        "recently" | "lately" => Span::new(today - 14, today + 1),
        _ => return None,
    };
    time_match(1, span, true)
}

/// Parses "on Friday" as the most recent Friday.
fn weekday(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let weekday = weekday_named(cursor.word(0))?;
    if cursor.before() != "on" || cursor.word(0).ends_with('s') {
        return None;
    }
    time_match(1, Span::around(latest(cursor.today, weekday), 0), false)
}

/// Parses the year of "in 2023".
fn year(cursor: &WordCursor<'_>) -> Option<TimeMatch> {
    let year = cursor.year(0)?;
    if !cursor.is_after_preposition() {
        return None;
    }
    time_match(
        1,
        Span::new(day_at(year, 1, 1), day_at(year + 1, 1, 1)),
        false,
    )
}

/// Formats a day for assertions.
#[cfg(test)]
fn format_day(day: Day) -> String {
    let super::calendar::Date { year, month, day } = date_of(day);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the spans that a query names on Wednesday, 14 June 2023, each as its first and last
    /// day.
    fn spans(query: &str) -> Vec<String> {
        let query = query.to_lowercase();
        let words: Vec<&str> = query
            .split(|it: char| !it.is_alphanumeric())
            .filter(|it| !it.is_empty())
            .collect();
        let times = find_times(&words, day_at(2023, 6, 14));
        let format_span = |it: &Span| match it.to - it.from {
            1 => format_day(it.from),
            _ => format!("{} {}", format_day(it.from), format_day(it.to - 1)),
        };
        times.spans.iter().map(format_span).collect()
    }

    #[test]
    fn time_expressions_are_parsed() {
        for (query, expected) in [
            ("What did I do yesterday?", "2023-06-13"),
            ("the day before yesterday", "2023-06-12"),
            ("what happened today", "2023-06-14"),
            ("What did we eat last night?", "2023-06-13"),
            ("this morning", "2023-06-14"),
            ("where was I last week", "2023-06-05 2023-06-11"),
            ("this week", "2023-06-12 2023-06-18"),
            ("last weekend", "2023-06-10 2023-06-11"),
            ("last month", "2023-05-01 2023-05-31"),
            ("this month", "2023-06-01 2023-06-30"),
            ("last year", "2022-01-01 2022-12-31"),
            ("last Friday", "2023-06-09"),
            ("last Wednesday", "2023-06-07"),
            ("on Wednesday", "2023-06-14"),
            ("on Monday", "2023-06-12"),
            ("in March", "2023-03-01 2023-03-31"),
            ("in July", "2022-07-01 2022-07-31"),
            ("in May 2021", "2021-05-01 2021-05-31"),
            ("May of 2021", "2021-05-01 2021-05-31"),
            ("August plans", "2022-08-01 2022-08-31"),
            ("on 5 May 2023", "2023-05-05"),
            ("on the 5 of May", "2023-05-05"),
            ("December 24", "2022-12-24"),
            ("May 5, 2020", "2020-05-05"),
            ("on 2023-05-08", "2023-05-08"),
            ("on 25/12/2022", "2022-12-25"),
            ("two months ago", "2023-03-30 2023-04-29"),
            ("3 days ago", "2023-06-11"),
            ("a few days ago", "2023-06-10 2023-06-12"),
            ("a week ago", "2023-06-04 2023-06-10"),
            ("a couple of weeks ago", "2023-05-28 2023-06-03"),
            ("ten years ago", "2013-01-01 2013-12-31"),
            ("an hour ago", ""),
            ("in the last 3 days", "2023-06-11 2023-06-14"),
            ("the past two weeks", "2023-05-31 2023-06-14"),
            ("last summer", "2022-06-01 2022-08-31"),
            ("this summer", "2023-06-01 2023-08-31"),
            ("last winter", "2022-12-01 2023-02-28"),
            ("in the summer of 2021", "2021-06-01 2021-08-31"),
            ("lately", "2023-05-31 2023-06-14"),
            ("in 2022", "2022-01-01 2022-12-31"),
        ] {
            assert_eq!(spans(query).join(", "), expected, "{query}");
        }
    }

    #[test]
    fn ambiguous_date_is_parsed_in_both_ways() {
        assert_eq!(spans("on 5/8/2023"), ["2023-05-08", "2023-08-05"]);
        assert_eq!(spans("on 5/5/2023"), ["2023-05-05"]);
    }

    #[test]
    fn ordinary_words_are_not_parsed_as_times() {
        for query in [
            "may I march home",
            "who fell in the fall of the tower 2000 times",
            "pay 2023 dollars",
            "what do I do on Fridays",
            "how many days",
            "the last song",
            "this one",
            "day by day",
            "spring rolls",
            "",
        ] {
            let found = spans(query);
            // "in the fall" is also the season.
            let expected: usize = usize::from(query.contains("the fall"));
            assert_eq!(found.len(), expected, "{query}: {found:?}");
        }
    }

    #[test]
    fn only_relative_time_words_are_removed_from_the_query() {
        let words = ["in", "march", "or", "two", "weeks", "ago"];
        let times = find_times(&words, day_at(2023, 6, 14));
        assert_eq!(times.relative, [3, 4, 5]);
        assert_eq!(times.spans.len(), 2);
    }

    #[test]
    fn time_fit_decreases_gradually_outside_the_span() {
        let week = Span::new(100, 107);
        assert_eq!(week.fit(100), 1.0);
        assert_eq!(week.fit(106), 1.0);
        assert!(week.fit(107) < 1.0 && week.fit(107) > week.fit(108));
        assert_eq!(
            week.fit(99),
            week.fit(107),
            "the fit falls equally on both sides"
        );
        assert_eq!(week.fit(200), 0.0);
        assert_eq!(Span::around(5, 0).fit(6), 0.5);
    }
}
