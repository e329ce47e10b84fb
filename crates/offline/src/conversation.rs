//! A request as the offline model reads it: the last message, known passages, and available memory.

use retain_core::{
    Content, GenerateContentConfig, Json,
    prompt_text::{LOAD_MEMORY, QUOTED_AGENT_PREAMBLE, is_own_instruction},
};

use crate::{
    intent::is_question,
    passages::{Passage, Passages, Speaker, Told, is_of_load_memory, is_recalled},
    words::sentences,
};

/// The parsed request.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    /// The user's last message, if any.
    pub(super) message: Option<Message<'a>>,
    /// Passages that an answer may quote.
    pub(super) passages: Vec<Passage<'a>>,
    pub(super) memory: Memory<'a>,
    /// Whether the agent has spoken before.
    pub(super) has_spoken: bool,
}

/// The state of memory search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Memory<'a> {
    /// `load_memory` is not declared.
    Absent,
    /// `load_memory` is declared and was not called in this turn.
    Unasked,
    /// `load_memory` was called in this turn; holds the error if the search failed.
    Asked(Option<&'a str>),
}

/// The texts of a message; empty if it has only media.
#[derive(Debug)]
pub(super) struct Message<'a>(Vec<&'a str>);

impl<'a> Conversation<'a> {
    /// Parses a request.
    pub(super) fn read(
        contents: &[&'a Content],
        config: &GenerateContentConfig,
    ) -> Conversation<'a> {
        let current = contents.iter().rposition(|content| is_message(content));
        let mut passages = Passages::default();
        let mut has_spoken = false;
        for (at, content) in contents.iter().enumerate() {
            for response in content.function_responses() {
                if is_of_load_memory(response) {
                    passages.add_found(response);
                }
            }
            if texts(content).next().is_some_and(is_recalled) {
                texts(content).for_each(|text| passages.add_recalled(text));
            } else if is_message(content) && Some(at) != current {
                texts(content).for_each(|text| passages.add_turn(text, Speaker::User, Told::Here));
            } else if is_model(content) {
                has_spoken |= texts(content).next().is_some();
                texts(content).for_each(|text| passages.add_turn(text, Speaker::Agent, Told::Here));
            }
        }
        let message = current.map(|at| Message(texts(contents[at]).collect()));
        for text in message.iter().flat_map(|message| &message.0) {
            passages.add_turn(text, Speaker::User, Told::JustNow);
        }
        Conversation {
            message,
            passages: passages.all,
            memory: memory(config, &contents[current.unwrap_or(0)..]),
            has_spoken,
        }
    }
}

impl<'a> Message<'a> {
    /// Whether the message has no text.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the whole text.
    pub(super) fn text(&self) -> String {
        self.0.join(" ")
    }

    /// Splits the message into questions and statements.
    pub(super) fn questions_and_statements(&self) -> (Vec<&'a str>, Vec<&'a str>) {
        let all = self.0.iter().flat_map(|text| sentences(text));
        all.map(|(_, sentence)| sentence)
            .partition(|it| is_question(it))
    }
}

/// Returns the state of memory search after the events of this turn.
fn memory<'a>(config: &GenerateContentConfig, turn: &[&'a Content]) -> Memory<'a> {
    let mut calls = turn.iter().flat_map(|content| content.function_calls());
    if calls.any(|call| call.name.as_deref() == Some(LOAD_MEMORY)) {
        let responses = turn.iter().flat_map(|content| content.function_responses());
        let response = responses
            .filter(|response| is_of_load_memory(response))
            .last();
        let response = response.and_then(|response| response.response.as_ref());
        let error = response.and_then(|response| response.get("error"));
        return Memory::Asked(error.and_then(Json::as_str));
    }
    match is_declared(config, LOAD_MEMORY) {
        true => Memory::Unasked,
        false => Memory::Absent,
    }
}

fn is_declared(config: &GenerateContentConfig, name: &str) -> bool {
    let tools = config.tools.iter().flatten();
    let mut declared = tools.flat_map(|tool| tool.function_declarations.iter().flatten());
    declared.any(|declaration| declaration.name.as_deref() == Some(name))
}

/// Whether a content is a message of the user.
fn is_message(content: &Content) -> bool {
    let is_put_there =
        |text| is_recalled(text) || is_own_instruction(text) || text == QUOTED_AGENT_PREAMBLE;
    !is_model(content)
        && !content.parts().is_empty()
        && content.function_responses().next().is_none()
        && !texts(content).next().is_some_and(is_put_there)
}

fn is_model(content: &Content) -> bool {
    content.role.as_deref() == Some("model")
}

/// Returns the non-blank texts of a content, without thoughts.
fn texts(content: &Content) -> impl Iterator<Item = &str> {
    let spoken = content.parts().iter();
    let spoken = spoken.filter(|part| part.thought != Some(true));
    let texts = spoken.filter_map(|part| part.text.as_deref());
    texts.filter(|text| !text.trim().is_empty())
}
