//! The offline model: answers without a network or an API key by quoting what it was told. The
//! runtime wraps it as `OfflineModel`.
//!
//! `conversation` parses a request into passages, `finding` searches for the passage that answers
//! the question, and `sayings` formats the answer.

mod conversation;
mod finding;
mod intent;
mod passages;
mod sayings;
mod schema;
mod stop_words;
#[cfg(test)]
mod tests;
mod words;

use retain_core::{
    Content, FunctionCall, GenerateContentConfig, JsonMap, LlmResponse, UsageMetadata,
    prompt_text::LOAD_MEMORY,
};

use conversation::{Conversation, Memory, Message};
use finding::Topic;
use passages::{Passage, Speaker};

/// The error code if the answer does not fit the requested schema.
const REFUSED: &str = "OFFLINE_MODEL_CANNOT_FOLLOW_SCHEMA";

/// The model's reaction to a request.
#[derive(Debug, PartialEq)]
enum Reply {
    Says(String),
    Calls(FunctionCall),
}

/// Returns the responses to a request: with `stream`, first its words as partial responses. The same
/// request always has the same responses.
pub fn respond(
    contents: &[&Content],
    config: &GenerateContentConfig,
    stream: bool,
) -> Vec<LlmResponse> {
    let whole = match reply(contents, config) {
        Reply::Calls(call) => LlmResponse::of(Content::new("model", vec![call.into()])),
        Reply::Says(text) => in_form(config, text),
    };
    let content = whole.content.as_ref();
    let said = content.map(Content::text_concat).unwrap_or_default();
    let pieces = said.split_inclusive(' ').filter(|_| stream).map(piece);
    let mut responses: Vec<_> = pieces.collect();
    responses.push(finished(contents, config, &said, whole));
    responses
}

/// Chooses the reaction to a request.
fn reply(contents: &[&Content], config: &GenerateContentConfig) -> Reply {
    let conversation = Conversation::read(contents, config);
    match &conversation.message {
        Some(message) if !message.is_empty() => to_message(&conversation, message),
        message => Reply::Says(sayings::no_text(message.is_some())),
    }
}

fn to_message(conversation: &Conversation<'_>, message: &Message<'_>) -> Reply {
    let (questions, statements) = message.questions_and_statements();
    if questions.is_empty() {
        let text = message.text();
        let said = match intent::courtesy(&text) {
            Some(courtesy) => sayings::courtesy(courtesy, conversation.has_spoken),
            None => sayings::noted(&text, conversation.has_spoken),
        };
        return Reply::Says(said);
    }
    let statements = statements.join(" ");
    match to_question(conversation, &questions.join(" ")) {
        Reply::Says(said) if !statements.is_empty() && intent::courtesy(&statements).is_none() => {
            // The answer already identifies the model, so omit the introduction.
            Reply::Says(format!("{} {said}", sayings::noted(&statements, true)))
        }
        reply => reply,
    }
}

fn to_question(conversation: &Conversation<'_>, question: &str) -> Reply {
    let topic = Topic::of(question);
    let found = topic.find(&conversation.passages);
    if let Some(found) = found.filter(|found| found.is_sure) {
        return Reply::Says(sayings::answered(&found));
    }
    if is_about_the_model(&topic, question) {
        return Reply::Says(sayings::introduction());
    }
    if conversation.memory == Memory::Unasked {
        let query = match topic.words.is_empty() {
            true => question.to_owned(),
            false => topic.words.join(" "),
        };
        let args = JsonMap::from([("query", query)]);
        return Reply::Calls(FunctionCall::new(LOAD_MEMORY, args));
    }
    let failure = match conversation.memory {
        Memory::Asked(failure) => failure,
        _ => None,
    };
    Reply::Says(match found {
        Some(found) => sayings::answered(&found),
        None if is_about_everything(&topic, question) => {
            sayings::overview(&latest_first(&conversation.passages))
        }
        None => sayings::unknown(failure),
    })
}

/// Whether the question is about the model itself, such as "How are you?".
fn is_about_the_model(topic: &Topic, question: &str) -> bool {
    let says_you = words::words(question).any(|word| intent::is_you(&word));
    says_you && topic.words.is_empty() && !is_about_everything(topic, question)
}

/// Whether the question asks for everything known, such as "What do you remember?".
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
            let is_new = || all.iter().all(|(_, known)| *known != statement);
            if !intent::is_question(statement) && intent::courtesy(statement).is_none() && is_new()
            {
                all.push((passage, statement));
            }
            if all.len() == sayings::OVERVIEW_MAX {
                return all;
            }
        }
    }
    all
}

/// Converts the answer to the output schema of the request, if it has one.
fn in_form(config: &GenerateContentConfig, text: String) -> LlmResponse {
    let schema = config
        .response_schema
        .as_ref()
        .or(config.response_json_schema.as_ref());
    let Some(schema) = schema else {
        return LlmResponse::of(Content::model(text));
    };
    match schema::filled(schema, &text) {
        Ok(filled) => LlmResponse::of(Content::model(filled)),
        Err(why) => LlmResponse {
            error_code: Some(REFUSED.to_owned()),
            error_message: Some(format!(
                "the offline model cannot fill this output schema: {why}"
            )),
            ..LlmResponse::default()
        },
    }
}

fn piece(text: &str) -> LlmResponse {
    LlmResponse {
        partial: Some(true),
        model_version: Some("offline".to_owned()),
        ..LlmResponse::of(Content::model(text))
    }
}

/// Returns the complete response with the metadata that a provider adds.
fn finished(
    contents: &[&Content],
    config: &GenerateContentConfig,
    said: &str,
    whole: LlmResponse,
) -> LlmResponse {
    let texts = contents.iter().flat_map(|content| content.parts());
    let texts = texts.filter_map(|part| part.text.as_deref());
    let prompt = texts.chain(config.system_instruction.as_deref());
    let (prompt, answer) = (tokens(prompt), tokens([said]));
    LlmResponse {
        model_version: Some("offline".to_owned()),
        finish_reason: Some("STOP".to_owned()),
        usage_metadata: Some(UsageMetadata {
            prompt_token_count: Some(prompt),
            candidates_token_count: Some(answer),
            total_token_count: Some(prompt.saturating_add(answer)),
            ..UsageMetadata::default()
        }),
        ..whole
    }
}

/// Estimates the number of tokens at four characters per token.
fn tokens<'t>(texts: impl IntoIterator<Item = &'t str>) -> i64 {
    let letters: usize = texts.into_iter().map(|text| text.chars().count()).sum();
    i64::try_from(letters.div_ceil(4)).unwrap_or(i64::MAX)
}
