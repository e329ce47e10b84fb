//! A request as the offline model reads it: the last message, the passages that an answer may
//! quote, and the state of memory search.

use retain_core::{
    Content, GenerateContentConfig, Json,
    prompt_text::{LOAD_MEMORY, QUOTED_AGENT_PREAMBLE, is_own_instruction},
};

use crate::{
    intent::is_question,
    passages::{Passage, Passages, Source, Speaker, is_of_load_memory, is_recalled},
    words::sentences,
};

/// The parsed request.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    /// The user's last message, if any.
    pub(super) message: Option<Message<'a>>,
    /// Passages that an answer may quote.
    pub(super) passages: Vec<Passage<'a>>,
    /// The state of memory search.
    pub(super) memory: MemorySearch<'a>,
    /// Whether the agent has spoken before.
    pub(super) has_spoken: bool,
}

/// The state of memory search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemorySearch<'a> {
    /// The request does not declare `load_memory`.
    Undeclared,
    /// The request declares `load_memory`, and the model has not called it in this turn.
    NotCalled,
    /// The model called `load_memory` in this turn. Holds the error if the search failed.
    Called(Option<&'a str>),
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
                    passages.add_search_results(response);
                }
            }
            if texts(content).next().is_some_and(is_recalled) {
                texts(content).for_each(|text| passages.add_recalled_block(text));
            } else if is_message(content) && Some(at) != current {
                let source = Source::Conversation;
                texts(content).for_each(|text| passages.add_message(text, Speaker::User, source));
            } else if is_model(content) {
                has_spoken |= texts(content).next().is_some();
                let source = Source::Conversation;
                texts(content).for_each(|text| passages.add_message(text, Speaker::Agent, source));
            }
        }
        let message = current.map(|at| Message(texts(contents[at]).collect()));
        for text in message.iter().flat_map(|message| &message.0) {
            passages.add_message(text, Speaker::User, Source::CurrentMessage);
        }
        Conversation {
            message,
            passages: passages.all,
            memory: memory_search(config, &contents[current.unwrap_or(0)..]),
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

/// Determines from the contents of this turn whether the model has searched memory.
fn memory_search<'a>(config: &GenerateContentConfig, turn: &[&'a Content]) -> MemorySearch<'a> {
    let mut calls = turn.iter().flat_map(|content| content.function_calls());
    if calls.any(|call| call.name.as_deref() == Some(LOAD_MEMORY)) {
        let responses = turn.iter().flat_map(|content| content.function_responses());
        let response = responses
            .filter(|response| is_of_load_memory(response))
            .last();
        let response = response.and_then(|response| response.response.as_ref());
        let error = response.and_then(|response| response.get("error"));
        return MemorySearch::Called(error.and_then(Json::as_str));
    }
    match is_declared(config, LOAD_MEMORY) {
        true => MemorySearch::NotCalled,
        false => MemorySearch::Undeclared,
    }
}

fn is_declared(config: &GenerateContentConfig, name: &str) -> bool {
    let tools = config.tools.iter().flatten();
    let mut declared = tools.flat_map(|tool| tool.function_declarations.iter().flatten());
    declared.any(|declaration| declaration.name.as_deref() == Some(name))
}

/// Whether the user wrote the content. The runtime also inserts texts with the user role.
fn is_message(content: &Content) -> bool {
    let is_inserted =
        |text| is_recalled(text) || is_own_instruction(text) || text == QUOTED_AGENT_PREAMBLE;
    !is_model(content)
        && !content.parts().is_empty()
        && content.function_responses().next().is_none()
        && !texts(content).next().is_some_and(is_inserted)
}

fn is_model(content: &Content) -> bool {
    content.role.as_deref() == Some("model")
}

/// Returns the non-blank texts of a content, except thoughts.
fn texts(content: &Content) -> impl Iterator<Item = &str> {
    let parts = content.parts().iter();
    let parts = parts.filter(|part| part.thought != Some(true));
    let texts = parts.filter_map(|part| part.text.as_deref());
    texts.filter(|text| !text.trim().is_empty())
}
