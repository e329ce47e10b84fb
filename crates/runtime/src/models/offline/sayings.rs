//! What the offline model says, in words.
//!
//! It says what it is in its first sentence of a conversation and in every answer to a question,
//! and not each time that it takes note of something.

use super::{
    finding::Found,
    intent::Courtesy,
    passages::{Passage, Speaker, Told},
};

/// Stands behind every answer to a question.
const MARK: &str = "(offline model: I only quote what I was told)";
/// Stands in the first sentence of a conversation.
const INTRODUCTION: &str = "I am the offline model: ask me, and I quote what I was told.";
const NOTED: &str = "Noted: \"";
/// What is noted is quoted up to so many letters; what is answered, up to so many.
const NOTED_MAX: usize = 120;
const QUOTED_MAX: usize = 1_000;
/// So many statements are an overview.
pub(super) const OVERVIEW_MAX: usize = 3;

/// Whether a text is one of these sayings.
pub(super) fn is_own(text: &str) -> bool {
    text.starts_with(NOTED) || text.contains(MARK) || text.contains(INTRODUCTION)
}

/// To a statement.
pub(super) fn noted(statement: &str, has_spoken: bool) -> String {
    let noted = format!("{NOTED}{}\"", shortened(statement, NOTED_MAX));
    introduced(noted, has_spoken)
}

/// To a greeting, thanks, or good bye.
pub(super) fn courtesy(courtesy: Courtesy, has_spoken: bool) -> String {
    let said = match courtesy {
        Courtesy::Greeting => "Hello!",
        Courtesy::Thanks => "You are welcome.",
        Courtesy::Farewell => "Good bye!",
    };
    introduced(said.to_owned(), has_spoken)
}

/// To a question about the model.
pub(super) fn introduction() -> String {
    INTRODUCTION.to_owned()
}

/// To a message without text.
pub(super) fn no_text(is_media: bool) -> String {
    let why = match is_media {
        true => "I can only read text, and there is none in your message.",
        false => "Nobody has said anything yet.",
    };
    format!("{why} {MARK}")
}

/// To a question that a passage answers.
pub(super) fn answered(found: &Found<'_, '_>) -> String {
    let (who, told, quote) = (who(found.passage), told(found.passage), found.quote);
    let quote = shortened(quote, QUOTED_MAX);
    match found.is_sure {
        true => format!("{who}{told}: \"{quote}\" {MARK}"),
        false => {
            let who = match found.passage.speaker {
                Speaker::User => "you told me".to_owned(),
                _ => who,
            };
            format!(
                "I know nothing exact about that. The nearest is what {who}{told}: \"{quote}\" {MARK}"
            )
        }
    }
}

/// To a question that nothing answers. `failure` is why memory could not be searched.
pub(super) fn unknown(failure: Option<&str>) -> String {
    match failure {
        None => format!("I know nothing about that yet. Tell me, and I can quote it. {MARK}"),
        Some(failure) => {
            let failure = shortened(failure, NOTED_MAX);
            format!(
                "I know nothing about that here, and memory could not be searched: {failure}. {MARK}"
            )
        }
    }
}

/// To a question about everything: the latest statements.
pub(super) fn overview(latest_first: &[(&Passage<'_>, &str)]) -> String {
    let said = latest_first.iter().map(|(passage, statement)| {
        let statement = shortened(statement, NOTED_MAX);
        format!("\"{statement}\"{}", told(passage))
    });
    let said: Vec<String> = said.collect();
    match said.is_empty() {
        true => unknown(None),
        false => format!("The latest that you told me: {}. {MARK}", said.join("; ")),
    }
}

/// The first saying of a conversation tells who speaks.
fn introduced(said: String, has_spoken: bool) -> String {
    match has_spoken {
        true => said,
        false => format!("{said} {INTRODUCTION}"),
    }
}

fn who(passage: &Passage<'_>) -> String {
    match passage.speaker {
        Speaker::User => "You told me".to_owned(),
        Speaker::Agent => "I said".to_owned(),
        Speaker::Named(name) => format!("{name} said"),
        Speaker::Unknown => "I was told".to_owned(),
    }
}

fn told(passage: &Passage<'_>) -> String {
    match passage.told {
        Told::JustNow => " just now".to_owned(),
        Told::Here => " earlier in this conversation".to_owned(),
        Told::Elsewhere { time, session } => {
            let day = time.filter(|time| !time.is_empty()).map(day);
            let day = day.map(|day| format!(" on {day}")).unwrap_or_default();
            let session = session.map(|session| format!(" in session {session}"));
            format!("{day}{}", session.unwrap_or_default())
        }
    }
}

/// The day of an ISO 8601 time; any other text as it is.
fn day(time: &str) -> &str {
    match time.split_once('T') {
        Some((day, _)) if day.len() == 10 => day,
        _ => time,
    }
}

/// A text on one line, cut off where it gets long.
fn shortened(text: &str, letters_max: usize) -> String {
    let mut short = String::new();
    let mut letters = 0;
    for word in text.split_whitespace() {
        if letters > 0 {
            short.push(' ');
            letters += 1;
        }
        for letter in word.chars() {
            if letters == letters_max {
                return short.trim_end().to_owned() + "…";
            }
            short.push(letter);
            letters += 1;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sayings_are_known_again() {
        let sayings = [
            noted("x", true),
            courtesy(Courtesy::Greeting, false),
            no_text(true),
            introduction(),
            unknown(None),
            unknown(Some("no service")),
            overview(&[]),
        ];
        for saying in sayings {
            assert!(is_own(&saying), "{saying}");
        }
        assert!(!is_own("I noted: \"x\""));
    }

    #[test]
    fn long_texts_are_cut_off_between_letters() {
        assert_eq!(shortened("a\n b", 3), "a b");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("ab cd", 3), "ab…");
        assert_eq!(shortened("", 3), "");
    }

    #[test]
    fn a_day_is_enough() {
        assert_eq!(day("2026-11-16T08:00:00.5"), "2026-11-16");
        assert_eq!(day("last Tuesday"), "last Tuesday");
    }
}
