//! The passages that the offline model may quote, each with its speaker and time.
//!
//! They come from three sources: the block of recalled memories that `preload_memory` inserts into
//! the contents, the results of `load_memory`, and the conversation itself.

use retain_core::{
    FunctionResponse, Json, MemoryEntry,
    prompt_text::{
        LOAD_MEMORY, RECALL_CLOSING, RECALL_INDENT, RECALL_INTRODUCTION, RECALL_OPENING,
        RECALL_UNNAMED,
    },
};

use crate::answers::is_own;

/// A passage of text, with its speaker and time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Passage<'a> {
    pub(super) text: &'a str,
    pub(super) speaker: Speaker<'a>,
    pub(super) source: Source<'a>,
    /// Sort key: later passages compare greater.
    pub(super) recency: Recency,
}

/// The speaker of a passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker<'a> {
    User,
    /// This agent, in this conversation.
    Agent,
    /// Another named author.
    Named(&'a str),
    Unknown,
}

/// The source of a passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// The message that the model answers.
    CurrentMessage,
    /// An earlier message of this conversation.
    Conversation,
    /// A memory, usually of another session.
    Memory {
        time: Option<&'a str>,
        session: Option<&'a str>,
    },
}

/// Orders passages: memories first, then the conversation; each by time, then by position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recency {
    is_conversation: bool,
    seconds: f64,
    index: i64,
}

impl Recency {
    pub(super) fn cmp(&self, other: &Recency) -> std::cmp::Ordering {
        let source = self.is_conversation.cmp(&other.is_conversation);
        source
            .then(self.seconds.total_cmp(&other.seconds))
            .then(self.index.cmp(&other.index))
    }
}

/// Collects passages in content order.
#[derive(Debug, Default)]
pub(super) struct Passages<'a> {
    pub(super) all: Vec<Passage<'a>>,
}

impl<'a> Passages<'a> {
    /// Adds a text of this conversation.
    pub(super) fn add_message(&mut self, text: &'a str, speaker: Speaker<'a>, source: Source<'a>) {
        // The texts of the offline model contain no facts of their own.
        if speaker == Speaker::Agent && is_own(text) {
            return;
        }
        let recency = Recency {
            is_conversation: true,
            seconds: 0.0,
            index: self.next_index(),
        };
        self.all.push(Passage {
            text,
            speaker,
            source,
            recency,
        });
    }

    /// Adds the entries of `text` if it is a block of recalled memories.
    pub(super) fn add_recalled_block(&mut self, text: &'a str) {
        let inside = text
            .split_once(RECALL_OPENING)
            .map_or("", |(_, inside)| inside);
        let inside = inside
            .rsplit_once(RECALL_CLOSING)
            .map_or(inside, |(it, _)| it);
        let (mut time, mut entry_start) = (None, None);
        let mut at = 0;
        for line in inside.split_inclusive('\n') {
            // An indented or empty line continues the text before it.
            let continues = line.starts_with(RECALL_INDENT) || line.trim().is_empty();
            if !continues && let Some(from) = entry_start.take() {
                self.add_recalled_entry(time.take(), &inside[from..at]);
            }
            match line.strip_prefix("Time: ") {
                Some(text) => time = Some(text.trim()),
                None if entry_start.is_none() && !line.trim().is_empty() => entry_start = Some(at),
                None => {}
            }
            at += line.len();
        }
        if let Some(from) = entry_start {
            self.add_recalled_entry(time, &inside[from..]);
        }
    }

    /// Adds an entry of the block: `author: text`, or only text.
    fn add_recalled_entry(&mut self, time: Option<&'a str>, entry: &'a str) {
        let entry = entry.trim();
        let is_name = |name: &str| {
            let name = name.strip_suffix(" (tool)").unwrap_or(name);
            !name.is_empty() && !name.contains(char::is_whitespace)
        };
        match entry.split_once(": ").filter(|(name, _)| is_name(name)) {
            Some((RECALL_UNNAMED, text)) => self.add_memory(text, None, time, None),
            Some((name, text)) => self.add_memory(text, Some(name), time, None),
            None => self.add_memory(entry, None, time, None),
        }
    }

    /// Adds the results of `load_memory`.
    pub(super) fn add_search_results(&mut self, response: &'a FunctionResponse) {
        let answer = response.response.as_ref();
        let result = answer.and_then(|answer| answer.get("result").and_then(Json::as_object));
        let found = result.or(answer).and_then(|found| found.get("memories"));
        for memory in found.and_then(Json::as_array).unwrap_or_default() {
            let text_of = |key: &str| memory.get(key).and_then(Json::as_str);
            let session = memory["custom_metadata"].get("session_id");
            let session = session.and_then(Json::as_str);
            let parts = memory["content"]["parts"].as_array().unwrap_or_default();
            for part in parts.iter().filter(|part| part["thought"] != true) {
                if let Some(text) = part.get("text").and_then(Json::as_str) {
                    self.add_memory(text, text_of("author"), text_of("timestamp"), session);
                }
            }
        }
    }

    fn add_memory(
        &mut self,
        text: &'a str,
        author: Option<&'a str>,
        time: Option<&'a str>,
        session: Option<&'a str>,
    ) {
        let speaker = match author {
            Some("user") => Speaker::User,
            Some(name) if !name.is_empty() => Speaker::Named(name),
            _ => Speaker::Unknown,
        };
        if speaker != Speaker::User && is_own(text) {
            return;
        }
        let recency = Recency {
            is_conversation: false,
            seconds: time.and_then(seconds_of).unwrap_or(f64::NEG_INFINITY),
            // Memory returns the best match first, so earlier entries win among equals.
            index: -self.next_index(),
        };
        self.all.push(Passage {
            text,
            speaker,
            source: Source::Memory { time, session },
            recency,
        });
    }

    fn next_index(&self) -> i64 {
        i64::try_from(self.all.len()).unwrap_or(i64::MAX)
    }
}

/// Whether a text is the block of recalled memories.
pub(super) fn is_recalled(text: &str) -> bool {
    text.starts_with(RECALL_INTRODUCTION) && text.contains(RECALL_OPENING)
}

/// Whether a response is a result of `load_memory`.
pub(super) fn is_of_load_memory(response: &FunctionResponse) -> bool {
    response.name.as_deref() == Some(LOAD_MEMORY)
}

fn seconds_of(time: &str) -> Option<f64> {
    let entry = MemoryEntry {
        timestamp: Some(time.to_owned()),
        ..MemoryEntry::default()
    };
    entry.timestamp_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recalled(lines: &str) -> Vec<(String, String, Option<String>)> {
        let block = format!("{RECALL_INTRODUCTION}\n{RECALL_OPENING}\n{lines}\n{RECALL_CLOSING}\n");
        assert!(is_recalled(&block));
        let mut passages = Passages::default();
        passages.add_recalled_block(&block);
        let entry = |passage: &Passage<'_>| {
            let Source::Memory { time, .. } = passage.source else {
                panic!("the source of a recalled passage must be memory");
            };
            let speaker = format!("{:?}", passage.speaker);
            (
                speaker,
                passage.text.to_owned(),
                time.map(ToOwned::to_owned),
            )
        };
        passages.all.iter().map(entry).collect()
    }

    fn entry(speaker: &str, text: &str, time: Option<&str>) -> (String, String, Option<String>) {
        (
            speaker.to_owned(),
            text.to_owned(),
            time.map(ToOwned::to_owned),
        )
    }

    #[test]
    fn recalled_block_is_split_into_entries() {
        let lines = "Time: 2026-11-16T08:00:00\nuser: I like tea.\n  And Time: none.\n\
                     \n  Time: 2026-11-15T08:00:00\nTime: 2026-11-17T08:00:00\nhelper: Noted.\n\
                     helper: Twice.\n  user: I like mud.";
        let (monday, tuesday) = (Some("2026-11-16T08:00:00"), Some("2026-11-17T08:00:00"));
        let expected = [
            entry(
                "User",
                "I like tea.\n  And Time: none.\n\n  Time: 2026-11-15T08:00:00",
                monday,
            ),
            entry("Named(\"helper\")", "Noted.", tuesday),
            entry("Named(\"helper\")", "Twice.\n  user: I like mud.", None),
        ];
        assert_eq!(recalled(lines), expected);
    }

    #[test]
    fn unindented_lines_are_entries_when_times_are_missing() {
        let expected = [
            entry("User", "I like tea.", None),
            entry("Unknown", "The sky is: blue", None),
            entry("Unknown", "user: I like mud.", None),
            entry("Named(\"web (tool)\")", "It rains.", None),
        ];
        let lines = "user: I like tea.\nThe sky is: blue\nunknown: user: I like mud.\nweb (tool): It rains.";
        assert_eq!(recalled(lines), expected);
    }

    #[test]
    fn truncated_block_is_read_to_its_end() {
        let mut passages = Passages::default();
        passages.add_recalled_block("<PAST_CONVERSATIONS>\nTime: \nuser: x");
        passages.add_recalled_block("<PAST_CONVERSATIONS>");
        passages.add_recalled_block("");
        assert_eq!(passages.all.len(), 1);
    }

    #[test]
    fn load_memory_results_have_author_time_and_session() {
        let answer = Json::parse(
            r#"{"result": {"memories": [{"content": {"parts": [{"text": "I like tea."}, {}]},
                "author": "user", "timestamp": "then", "custom_metadata": {"session_id": "s1"}}, 7]}}"#,
        );
        let answer = answer.unwrap();
        let response =
            FunctionResponse::new("1", "load_memory", answer.as_object().unwrap().clone());
        let mut passages = Passages::default();
        passages.add_search_results(&response);
        let [found] = passages.all.as_slice() else {
            panic!("exactly one memory must have a text");
        };
        assert_eq!((found.text, found.speaker), ("I like tea.", Speaker::User));
        let source = Source::Memory {
            time: Some("then"),
            session: Some("s1"),
        };
        assert_eq!(found.source, source);
        let empty = FunctionResponse::default();
        passages.add_search_results(&empty);
        assert_eq!(passages.all.len(), 1);
    }
}
