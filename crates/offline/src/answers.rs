//! The texts of the offline model.
//!
//! The model introduces itself in the first answer of a conversation. It marks answers to questions
//! but not acknowledgments.

use crate::{
    intent::Courtesy,
    passages::{Passage, Source, Speaker},
    search::Match,
};

/// Ends every answer to a question.
const MARK: &str = "(offline model: I only quote what I was told)";
/// Ends the first answer of a conversation.
const INTRODUCTION: &str = "I am the offline model: ask me, and I quote what I was told.";
const NOTED: &str = "Noted: \"";
/// Maximum number of quoted characters in an acknowledgment or overview.
const NOTED_MAX: usize = 120;
/// Maximum number of quoted characters in an answer to a question.
const QUOTED_MAX: usize = 1_000;
/// Maximum number of statements in an overview.
pub(super) const OVERVIEW_MAX: usize = 3;

/// Whether this module wrote a text.
pub(super) fn is_own(text: &str) -> bool {
    text.starts_with(NOTED) || text.contains(MARK) || text.contains(INTRODUCTION)
}

/// Answers a statement.
pub(super) fn acknowledgment(statement: &str, has_spoken: bool) -> String {
    let noted = format!("{NOTED}{}\"", truncate(statement, NOTED_MAX));
    with_introduction(noted, has_spoken)
}

/// Answers a greeting, thanks, or a farewell.
pub(super) fn courtesy(courtesy: Courtesy, has_spoken: bool) -> String {
    let text = match courtesy {
        Courtesy::Greeting => "Hello!",
        Courtesy::Thanks => "You are welcome.",
        Courtesy::Farewell => "Good bye!",
    };
    with_introduction(text.to_owned(), has_spoken)
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

/// Answers a question by quoting its best match.
pub(super) fn quotation(found: &Match<'_, '_>) -> String {
    let who = speaker_phrase(found.passage);
    let source = source_phrase(found.passage);
    let quote = truncate(found.quote, QUOTED_MAX);
    match found.is_sure {
        true => format!("{who}{source}: \"{quote}\" {MARK}"),
        false => {
            let who = match found.passage.speaker {
                Speaker::User => "you told me".to_owned(),
                _ => who,
            };
            format!(
                "I know nothing exact about that. The nearest is what {who}{source}: \"{quote}\" {MARK}"
            )
        }
    }
}

/// Answers a question without a match. `failure` is the error of the memory search.
pub(super) fn unknown(failure: Option<&str>) -> String {
    match failure {
        None => format!("I know nothing about that yet. Tell me, and I can quote it. {MARK}"),
        Some(failure) => {
            let failure = truncate(failure, NOTED_MAX);
            format!(
                "I know nothing about that here, and memory could not be searched: {failure}. {MARK}"
            )
        }
    }
}

/// Answers a question about everything by quoting the latest statements.
pub(super) fn overview(latest_first: &[(&Passage<'_>, &str)]) -> String {
    let quotes = latest_first.iter().map(|(passage, statement)| {
        let statement = truncate(statement, NOTED_MAX);
        format!("\"{statement}\"{}", source_phrase(passage))
    });
    let quotes: Vec<String> = quotes.collect();
    match quotes.is_empty() {
        true => unknown(None),
        false => format!("The latest that you told me: {}. {MARK}", quotes.join("; ")),
    }
}

/// Adds the introduction to the first answer of a conversation.
fn with_introduction(text: String, has_spoken: bool) -> String {
    match has_spoken {
        true => text,
        false => format!("{text} {INTRODUCTION}"),
    }
}

fn speaker_phrase(passage: &Passage<'_>) -> String {
    match passage.speaker {
        Speaker::User => "You told me".to_owned(),
        Speaker::Agent => "I said".to_owned(),
        Speaker::Named(name) => format!("{name} said"),
        Speaker::Unknown => "I was told".to_owned(),
    }
}

fn source_phrase(passage: &Passage<'_>) -> String {
    match passage.source {
        Source::CurrentMessage => " just now".to_owned(),
        Source::Conversation => " earlier in this conversation".to_owned(),
        Source::Memory { time, session } => {
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

/// Returns the text on one line, truncated to `chars_max` characters.
fn truncate(text: &str, chars_max: usize) -> String {
    let mut short = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if count > 0 {
            short.push(' ');
            count += 1;
        }
        for c in word.chars() {
            if count == chars_max {
                return short.trim_end().to_owned() + "…";
            }
            short.push(c);
            count += 1;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_answers_are_recognized() {
        let answers = [
            acknowledgment("x", true),
            courtesy(Courtesy::Greeting, false),
            no_text(true),
            introduction(),
            unknown(None),
            unknown(Some("no service")),
            overview(&[]),
        ];
        for answer in answers {
            assert!(is_own(&answer), "{answer}");
        }
        assert!(!is_own("I noted: \"x\""));
    }

    #[test]
    fn long_text_is_truncated_between_characters() {
        assert_eq!(truncate("a\n b", 3), "a b");
        assert_eq!(truncate("äöü", 2), "äö…");
        assert_eq!(truncate("ab cd", 3), "ab…");
        assert_eq!(truncate("", 3), "");
    }

    #[test]
    fn quoted_time_is_shortened_to_the_day() {
        assert_eq!(day("2026-11-16T08:00:00.5"), "2026-11-16");
        assert_eq!(day("last Tuesday"), "last Tuesday");
    }
}
