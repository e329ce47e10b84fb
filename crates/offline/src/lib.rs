//! The offline model: answers without a network or an API key, by quoting messages and memories.
//! The runtime wraps it as `OfflineModel`.
//!
//! `conversation` parses a request into passages, `search` finds the passage that answers the
//! question, and `answers` formats the answer.

mod answers;
mod conversation;
mod intent;
mod passages;
mod schema;
mod search;
mod stop_words;
#[cfg(test)]
mod tests;
mod words;

use retain_core::{
    Content, FunctionCall, GenerateContentConfig, JsonMap, LlmResponse, UsageMetadata,
    prompt_text::LOAD_MEMORY,
};

use conversation::{Conversation, MemorySearch, Message};
use passages::{Passage, Speaker};
use search::Topic;

/// The error code if the answer does not fit the requested schema.
const SCHEMA_ERROR: &str = "OFFLINE_MODEL_CANNOT_FOLLOW_SCHEMA";

/// The model's reply to a request.
#[derive(Debug, PartialEq)]
enum Reply {
    Text(String),
    Call(FunctionCall),
}

/// Returns the response to a request. With `stream`, one partial response per word comes first.
/// Equal requests have equal responses.
pub fn respond(
    contents: &[&Content],
    config: &GenerateContentConfig,
    stream: bool,
) -> Vec<LlmResponse> {
    let response = match choose_reply(contents, config) {
        Reply::Call(call) => LlmResponse::from_content(Content::new("model", vec![call.into()])),
        Reply::Text(text) => apply_schema(config, text),
    };
    let content = response.content.as_ref();
    let text = content.map(Content::text_concat).unwrap_or_default();
    let words = text.split_inclusive(' ').filter(|_| stream);
    let mut responses: Vec<_> = words.map(partial_response).collect();
    responses.push(with_metadata(contents, config, &text, response));
    responses
}

/// Chooses the reply to a request.
fn choose_reply(contents: &[&Content], config: &GenerateContentConfig) -> Reply {
    let conversation = Conversation::read(contents, config);
    match &conversation.message {
        Some(message) if !message.is_empty() => reply_to_message(&conversation, message),
        message => Reply::Text(answers::no_text(message.is_some())),
    }
}

fn reply_to_message(conversation: &Conversation<'_>, message: &Message<'_>) -> Reply {
    let (questions, statements) = message.questions_and_statements();
    if questions.is_empty() {
        let text = message.text();
        let answer = match intent::courtesy(&text) {
            Some(courtesy) => answers::courtesy(courtesy, conversation.has_spoken),
            None => answers::acknowledgment(&text, conversation.has_spoken),
        };
        return Reply::Text(answer);
    }
    let statements = statements.join(" ");
    match reply_to_question(conversation, &questions.join(" ")) {
        Reply::Text(answer)
            if !statements.is_empty() && intent::courtesy(&statements).is_none() =>
        {
            // The answer already identifies the model, so omit the introduction.
            let acknowledgment = answers::acknowledgment(&statements, true);
            Reply::Text(format!("{acknowledgment} {answer}"))
        }
        reply => reply,
    }
}

fn reply_to_question(conversation: &Conversation<'_>, question: &str) -> Reply {
    let topic = Topic::from_question(question);
    let found = topic.find(&conversation.passages);
    if let Some(found) = found.filter(|found| found.is_sure) {
        return Reply::Text(answers::quotation(&found));
    }
    if is_about_the_model(&topic, question) {
        return Reply::Text(answers::introduction());
    }
    if conversation.memory == MemorySearch::NotCalled {
        let query = match topic.words.is_empty() {
            true => question.to_owned(),
            false => topic.words.join(" "),
        };
        let args = JsonMap::from([("query", query)]);
        return Reply::Call(FunctionCall::new(LOAD_MEMORY, args));
    }
    let failure = match conversation.memory {
        MemorySearch::Called(failure) => failure,
        _ => None,
    };
    Reply::Text(match found {
        Some(found) => answers::quotation(&found),
        None if is_about_everything(&topic, question) => {
            answers::overview(&latest_first(&conversation.passages))
        }
        None => answers::unknown(failure),
    })
}

/// Whether the question is about the model itself, such as "How are you?".
fn is_about_the_model(topic: &Topic, question: &str) -> bool {
    let says_you = words::words(question).any(|word| intent::is_you(&word));
    says_you && topic.words.is_empty() && !is_about_everything(topic, question)
}

/// Whether the question asks for everything that the model can quote, such as "What do you
/// remember?".
fn is_about_everything(topic: &Topic, question: &str) -> bool {
    topic.words.is_empty() && words::words(question).any(|word| stop_words::is_asking(&word))
}

/// Returns the user's statements, latest first.
fn latest_first<'p, 'a>(passages: &'p [Passage<'a>]) -> Vec<(&'p Passage<'a>, &'p str)> {
    let of_user = |passage: &&Passage<'_>| passage.speaker == Speaker::User;
    let mut passages: Vec<_> = passages.iter().filter(of_user).collect();
    passages.sort_by(|a, b| b.recency.cmp(&a.recency));
    let mut all: Vec<(&Passage<'_>, &str)> = Vec::new();
    for passage in passages {
        let statements = words::sentences(passage.text).into_iter().rev();
        let statements = statements.map(|(_, sentence)| sentence);
        for statement in statements {
            let is_new = || all.iter().all(|(_, earlier)| *earlier != statement);
            if !intent::is_question(statement) && intent::courtesy(statement).is_none() && is_new()
            {
                all.push((passage, statement));
            }
            if all.len() == answers::OVERVIEW_MAX {
                return all;
            }
        }
    }
    all
}

/// Converts the answer to the output schema of the request, if it has one.
fn apply_schema(config: &GenerateContentConfig, text: String) -> LlmResponse {
    let schema = config
        .response_schema
        .as_ref()
        .or(config.response_json_schema.as_ref());
    let Some(schema) = schema else {
        return LlmResponse::from_content(Content::model(text));
    };
    match schema::fill(schema, &text) {
        Ok(json) => LlmResponse::from_content(Content::model(json)),
        Err(why) => LlmResponse {
            error_code: Some(SCHEMA_ERROR.to_owned()),
            error_message: Some(format!(
                "the offline model cannot fill this output schema: {why}"
            )),
            ..LlmResponse::default()
        },
    }
}

fn partial_response(text: &str) -> LlmResponse {
    LlmResponse {
        partial: Some(true),
        model_version: Some("offline".to_owned()),
        ..LlmResponse::from_content(Content::model(text))
    }
}

/// Adds metadata in the form of a real provider to a complete response with `text`.
fn with_metadata(
    contents: &[&Content],
    config: &GenerateContentConfig,
    text: &str,
    response: LlmResponse,
) -> LlmResponse {
    let texts = contents.iter().flat_map(|content| content.parts());
    let texts = texts.filter_map(|part| part.text.as_deref());
    let prompt = texts.chain(config.system_instruction.as_deref());
    let (prompt, answer) = (estimate_tokens(prompt), estimate_tokens([text]));
    LlmResponse {
        model_version: Some("offline".to_owned()),
        finish_reason: Some("STOP".to_owned()),
        usage_metadata: Some(UsageMetadata {
            prompt_token_count: Some(prompt),
            candidates_token_count: Some(answer),
            total_token_count: Some(prompt.saturating_add(answer)),
            ..UsageMetadata::default()
        }),
        ..response
    }
}

/// Estimates the number of tokens at four characters per token.
fn estimate_tokens<'t>(texts: impl IntoIterator<Item = &'t str>) -> i64 {
    let letters: usize = texts.into_iter().map(|text| text.chars().count()).sum();
    i64::try_from(letters.div_ceil(4)).unwrap_or(i64::MAX)
}
