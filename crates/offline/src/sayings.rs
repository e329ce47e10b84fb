//! The texts of the offline model.
//!
//! The model introduces itself in the first answer of a conversation and marks every answer to a
//! question, but not each acknowledgment.

use crate::{
    finding::Found,
    intent::Courtesy,
    passages::{Passage, Speaker, Told},
};

/// Ends every answer to a question.
const MARK: &str = "(offline model: I only quote what I was told)";
/// Ends the first answer of a conversation.
const INTRODUCTION: &str = "I am the offline model: ask me, and I quote what I was told.";
const NOTED: &str = "Noted: \"";
/// Maximum number of quoted characters in acknowledgments and (`QUOTED_MAX`) in answers.
const NOTED_MAX: usize = 120;
const QUOTED_MAX: usize = 1_000;
/// Maximum number of statements in an overview.
pub(super) const OVERVIEW_MAX: usize = 3;

/// Whether a text was written by this module.
pub(super) fn is_own(text: &str) -> bool {
    text.starts_with(NOTED) || text.contains(MARK) || text.contains(INTRODUCTION)
}

/// Answers a statement.
pub(super) fn noted(statement: &str, has_spoken: bool) -> String {
    let noted = format!("{NOTED}{}\"", shortened(statement, NOTED_MAX));
    introduced(noted, has_spoken)
}

/// Answers a greeting, thanks, or a farewell.
pub(super) fn courtesy(courtesy: Courtesy, has_spoken: bool) -> String {
    let said = match courtesy {
        Courtesy::Greeting => "Hello!",
        Courtesy::Thanks => "You are welcome.",
        Courtesy::Farewell => "Good bye!",
    };
    introduced(said.to_owned(), has_spoken)
}

/// Answers a question about the model.
pub(super) fn introduction() -> String {
    INTRODUCTION.to_owned()
}

/// Answers a message without text.
pub(super) fn no_text(is_media: bool) -> String {
    let why = match is_media {
        true => "I can only read text, and there is none in your message.",
        false => "Nobody has said anything yet.",
    };
    format!("{why} {MARK}")
}

/// Answers a question with a matching passage.
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

/// Answers a question without a match. `failure` is the error of the memory search.
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

/// Answers a question about everything known, with the latest statements.
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

/// Adds the introduction to the first answer of a conversation.
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

/// Returns the date of an ISO 8601 time, or any other text unchanged.
fn day(time: &str) -> &str {
    match time.split_once('T') {
        Some((day, _)) if day.len() == 10 => day,
        _ => time,
    }
}

/// Returns the text on one line, truncated to `letters_max` characters.
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
    fn own_answers_are_recognized() {
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
    fn long_text_is_truncated_between_characters() {
        assert_eq!(shortened("a\n b", 3), "a b");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("ab cd", 3), "ab…");
        assert_eq!(shortened("", 3), "");
    }

    #[test]
    fn quoted_time_is_shortened_to_the_day() {
        assert_eq!(day("2026-11-16T08:00:00.5"), "2026-11-16");
        assert_eq!(day("last Tuesday"), "last Tuesday");
    }
}
