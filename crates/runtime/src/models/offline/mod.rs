//! `OfflineModel`: answers without a network or an API key by quoting what it was told.
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

use std::sync::Arc;

use futures_util::stream;
use retain_core::{Content, FunctionCall, JsonMap, LlmResponse, UsageMetadata};

use super::{LlmRequest, Model, ModelCapabilities, ModelStream};
use crate::tools::LOAD_MEMORY;
use conversation::{Conversation, Memory, Message};
use finding::Topic;
use passages::{Passage, Speaker};

/// The error code if the answer does not fit the requested schema.
const REFUSED: &str = "OFFLINE_MODEL_CANNOT_FOLLOW_SCHEMA";

/// A model that needs no network: it acknowledges statements and answers questions by quoting a
/// sentence that it was told.
///
/// It searches recalled memories, the results of `load_memory` and the conversation. If it finds no
/// answer and `load_memory` is available, it calls that tool.
///
/// It quotes, with date and session if known, or says that it knows nothing; it never invents an
/// answer. The same request always has the same answer.
///
/// ```
/// use std::sync::Arc;
/// use retain_runtime::{LlmAgent, OfflineModel, Runner};
/// # use retain_stores::InMemorySessionService;
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sessions = Arc::new(InMemorySessionService::new());
/// let agent = LlmAgent::builder("assistant").model(OfflineModel::new()).build()?;
/// let runner = Runner::builder().app_name("app").agent(agent).session_service(sessions);
/// let runner = runner.auto_create_session(true).build()?;
///
/// runner.run("ada", Some("s1"), "I live in Oslo.").await?.answer().await?;
/// let answer = runner.run("ada", Some("s1"), "Where do I live?").await?.answer().await?;
/// assert!(answer.starts_with(r#"You told me earlier in this conversation: "I live in Oslo.""#));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

/// The model's reaction to a request.
#[derive(Debug, PartialEq)]
enum Reply {
    Says(String),
    Calls(FunctionCall),
}

impl OfflineModel {
    /// Creates the model, which has no settings.
    pub fn new() -> OfflineModel {
        OfflineModel
    }
}

impl Model for OfflineModel {
    fn name(&self) -> &str {
        "offline"
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities {
            output_schema_and_tools: true,
            pairs_calls_by_id: false,
        }
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let whole = match reply(&request) {
            Reply::Calls(call) => LlmResponse::of(Content::new("model", vec![call.into()])),
            Reply::Says(text) => in_form(&request, text),
        };
        let content = whole.content.as_ref();
        let said = content.map(Content::text_concat).unwrap_or_default();
        let pieces = said.split_inclusive(' ').filter(|_| stream).map(piece);
        let mut responses: Vec<_> = pieces.map(Ok).collect();
        responses.push(Ok(finished(&request, &said, whole)));
        Box::pin(stream::iter(responses))
    }
}

/// Chooses the reaction to a request.
fn reply(request: &LlmRequest) -> Reply {
    let conversation = Conversation::read(request);
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
fn in_form(request: &LlmRequest, text: String) -> LlmResponse {
    let config = &request.config;
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
                "The offline model has one text to give and makes nothing up, but {why}."
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
fn finished(request: &LlmRequest, said: &str, whole: LlmResponse) -> LlmResponse {
    let texts = request.contents.iter().flat_map(|content| content.parts());
    let texts = texts.filter_map(|part| part.text.as_deref());
    let prompt = texts.chain(request.config.system_instruction.as_deref());
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
