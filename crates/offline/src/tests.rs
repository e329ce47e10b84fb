//! Tests the offline model from the outside: a request in, responses out.

use retain_core::{
    FunctionDeclaration, FunctionResponse, Json, ModelTool, Part,
    prompt_text::{
        QUOTED_AGENT_PREAMBLE, RECALL_CLOSING, RECALL_INTRODUCTION, RECALL_OPENING, own_instruction,
    },
};
use retain_testkit::random::Random;

use super::*;

const MARK: &str = "(offline model: I only quote what I was told)";
const STATEMENT: &str = "My favorite project is Project Alpha.";
const QUESTION: &str = "What is my favorite project?";

/// Builds a conversation, message by message.
#[derive(Default)]
struct Talk {
    contents: Vec<Content>,
    config: GenerateContentConfig,
}

impl Talk {
    fn user(self, text: &str) -> Talk {
        self.content(Content::user(text))
    }

    fn agent(self, text: &str) -> Talk {
        self.content(Content::model(text))
    }

    fn content(mut self, content: Content) -> Talk {
        self.contents.push(content);
        self
    }

    /// Adds the block of recalled memories.
    fn recalled_block(self, lines: &str) -> Talk {
        self.user(&format!(
            "{RECALL_INTRODUCTION}\n{RECALL_OPENING}\n{lines}\n{RECALL_CLOSING}\n"
        ))
    }

    fn with_tool(mut self, name: &str) -> Talk {
        let declaration = FunctionDeclaration {
            name: Some(name.to_owned()),
            ..FunctionDeclaration::default()
        };
        self.config.tools.get_or_insert_default().push(ModelTool {
            function_declarations: Some(vec![declaration]),
            ..ModelTool::default()
        });
        self
    }

    /// Adds a call of `load_memory` with the result `result`.
    fn load_memory_result(self, result: &str) -> Talk {
        let call = FunctionCall::new("load_memory", JsonMap::from([("query", "x")]));
        let result = Json::parse(result).unwrap().as_object().unwrap().clone();
        let response = FunctionResponse::new("1", "load_memory", result);
        self.content(Content::new("model", vec![call.into()]))
            .content(Content::new("user", vec![response.into()]))
    }

    /// Adds a call of `load_memory` that finds one memory with `text`.
    fn memory(self, text: &str) -> Talk {
        let metadata = r#"{"session_id": "s1"}"#;
        self.load_memory_result(&format!(
            r#"{{"result": {{"memories": [{{"content": {{"parts": [{{"text": "{text}"}}]}},
            "author": "user", "timestamp": "2026-11-16T08:00:00", "custom_metadata": {metadata}}}]}}}}"#
        ))
    }

    fn schema(mut self, schema: &str) -> Talk {
        self.config.response_schema = Some(Json::parse(schema).unwrap());
        self
    }

    fn responses(self, stream: bool) -> Vec<LlmResponse> {
        let contents: Vec<&Content> = self.contents.iter().collect();
        respond(&contents, &self.config, stream)
    }

    fn response(self) -> LlmResponse {
        let [response] = <[_; 1]>::try_from(self.responses(false)).unwrap();
        response
    }

    fn answer(self) -> String {
        self.response().content.unwrap().text_concat()
    }

    /// Returns the query of the model's `load_memory` call, if it makes one.
    fn memory_query(self) -> Option<String> {
        let content = self.response().content?;
        let call = content.function_calls().next()?.clone();
        assert_eq!(call.name.as_deref(), Some("load_memory"));
        Some(call.args?["query"].as_str()?.to_owned())
    }
}

#[test]
fn first_statement_is_acknowledged_with_an_introduction() {
    let introduction = "I am the offline model: ask me, and I quote what I was told.";
    let first = format!("Noted: \"{STATEMENT}\" {introduction}");
    assert_eq!(Talk::default().user(STATEMENT).answer(), first);
    let later = Talk::default().user("Hi").agent("Hello!").user(STATEMENT);
    assert_eq!(later.answer(), format!("Noted: \"{STATEMENT}\""));
}

#[test]
fn greetings_and_thanks_are_answered() {
    let talk = || Talk::default().user(STATEMENT).agent("Noted.");
    assert_eq!(talk().user("Hello there!").answer(), "Hello!");
    assert_eq!(talk().user("Thank you!").answer(), "You are welcome.");
    assert_eq!(talk().user("Bye").answer(), "Good bye!");
    assert!(
        Talk::default()
            .user("Hi")
            .answer()
            .starts_with("Hello! I am the offline model")
    );
}

#[test]
fn question_is_answered_from_the_conversation() {
    let talk = Talk::default()
        .user(STATEMENT)
        .agent("Noted.")
        .user(QUESTION);
    let expected = format!("You told me earlier in this conversation: \"{STATEMENT}\" {MARK}");
    assert_eq!(talk.answer(), expected);
}

#[test]
fn question_is_answered_from_recalled_memories() {
    let lines = format!(
        "Time: 2026-11-16T08:00:00\nuser: {STATEMENT}\nTime: 2026-11-16T08:00:01\nbot: Ok."
    );
    let expected = format!("You told me on 2026-11-16: \"{STATEMENT}\" {MARK}");
    assert_eq!(
        Talk::default()
            .recalled_block(&lines)
            .user(QUESTION)
            .answer(),
        expected
    );
    // With tool results, the block of recalled memories follows the user's message.
    assert_eq!(
        Talk::default()
            .user(QUESTION)
            .recalled_block(&lines)
            .answer(),
        expected
    );
}

#[test]
fn unanswered_question_searches_memory_and_quotes_it() {
    let talk = || Talk::default().with_tool(LOAD_MEMORY).user(QUESTION);
    assert_eq!(talk().memory_query().as_deref(), Some("favorite project"));
    let expected = format!("You told me on 2026-11-16 in session s1: \"{STATEMENT}\" {MARK}");
    assert_eq!(talk().memory(STATEMENT).answer(), expected);
    // The model can quote search results in later turns too.
    let later = talk()
        .memory(STATEMENT)
        .agent(&expected)
        .user("And my project?");
    assert_eq!(later.answer(), expected);
}

#[test]
fn memory_is_searched_once_per_turn() {
    let talk = || Talk::default().with_tool(LOAD_MEMORY).user(QUESTION);
    let nothing = r#"{"result": {"memories": []}}"#;
    let answer = talk().load_memory_result(nothing).answer();
    assert!(
        answer.starts_with("I know nothing about that yet"),
        "{answer}"
    );
    let again = talk()
        .load_memory_result(nothing)
        .agent(&answer)
        .user("Where do I live?");
    assert_eq!(again.memory_query().as_deref(), Some("live"));
}

#[test]
fn memory_is_not_searched_without_need_or_tool() {
    let talk = Talk::default().with_tool(LOAD_MEMORY);
    assert_eq!(
        talk.user(STATEMENT)
            .agent("Ok.")
            .user(QUESTION)
            .memory_query(),
        None
    );
    let statement = Talk::default().with_tool(LOAD_MEMORY).user(STATEMENT);
    assert_eq!(statement.memory_query(), None);
    let answer = Talk::default().user(QUESTION).answer();
    assert!(
        answer.starts_with("I know nothing about that yet"),
        "{answer}"
    );
    assert!(answer.ends_with(MARK), "{answer}");
}

#[test]
fn failed_search_is_reported() {
    let talk = Talk::default().with_tool(LOAD_MEMORY).user(QUESTION);
    let answer = talk
        .load_memory_result(r#"{"error": "no service"}"#)
        .answer();
    assert!(
        answer.contains("memory could not be searched: no service"),
        "{answer}"
    );
}

#[test]
fn offline_model_does_not_call_unrelated_tools() {
    let talk = Talk::default()
        .with_tool("weather")
        .user("What is the weather?");
    assert!(talk.answer().starts_with("I know nothing about that yet"));
}

#[test]
fn near_match_is_not_presented_as_an_answer() {
    let talk = Talk::default().user(STATEMENT).agent("Noted.");
    let answer = talk.user("What is my favorite color?").answer();
    assert!(
        answer.starts_with("I know nothing exact about that."),
        "{answer}"
    );
    assert!(answer.contains(STATEMENT), "{answer}");
}

#[test]
fn own_answers_are_not_quoted_as_sources() {
    let noted = format!("Noted: \"{STATEMENT}\"");
    let answer = Talk::default().agent(&noted).user(QUESTION).answer();
    assert!(
        answer.starts_with("I know nothing about that yet"),
        "{answer}"
    );
    let lines = format!("Time: now\nbot: {noted}");
    let answer = Talk::default()
        .recalled_block(&lines)
        .user(QUESTION)
        .answer();
    assert!(
        answer.starts_with("I know nothing about that yet"),
        "{answer}"
    );
}

#[test]
fn conversation_overrides_memory_and_newer_memories_override_older() {
    let lines = "Time: 2026-11-16T08:00:00\nuser: I live in Oslo.\n\
                 Time: 2026-11-17T08:00:00\nuser: I live in Bergen.\n\
                 Time: 2026-11-15T08:00:00\nuser: I live in Paris.";
    let question = "Where do I live?";
    let answer = Talk::default()
        .recalled_block(lines)
        .user(question)
        .answer();
    assert!(
        answer.contains("on 2026-11-17: \"I live in Bergen.\""),
        "{answer}"
    );
    let moved = Talk::default()
        .user("I live in Rome.")
        .agent("Ok.")
        .recalled_block(lines);
    let answer = moved.user(question).answer();
    assert!(answer.contains("\"I live in Rome.\""), "{answer}");
}

#[test]
fn message_with_statement_and_question_gets_both_answers() {
    let answer = Talk::default()
        .user("I live in Oslo. Where do I live?")
        .answer();
    let expected = "Noted: \"I live in Oslo.\" You told me just now: \"I live in Oslo.\"";
    assert!(answer.starts_with(expected), "{answer}");
}

#[test]
fn summary_question_lists_only_the_latest_statements() {
    let talk = Talk::default()
        .user("Hi!")
        .agent("Hello!")
        .user("I live in Oslo. I like tea.");
    let answer = talk
        .agent("Ok.")
        .user("What do you know about me?")
        .answer();
    let here = "earlier in this conversation";
    let expected = format!(
        "The latest that you told me: \"I like tea.\" {here}; \"I live in Oslo.\" {here}. {MARK}"
    );
    assert_eq!(answer, expected);
}

#[test]
fn question_about_the_model_is_answered_with_an_introduction() {
    for question in ["How are you?", "Who are you", "Wer bist du?"] {
        let talk = Talk::default().with_tool(LOAD_MEMORY).user(question);
        assert!(
            talk.answer().starts_with("I am the offline model"),
            "{question}"
        );
    }
}

#[test]
fn statements_of_other_agents_are_not_attributed_to_the_user() {
    let parts = vec![
        Part::text(QUOTED_AGENT_PREAMBLE),
        Part::text(format!("[other] said:\n{STATEMENT}")),
    ];
    let answer = Talk::default()
        .user(QUESTION)
        .content(Content::new("user", parts))
        .answer();
    assert!(
        answer.starts_with("I know nothing about that yet"),
        "{answer}"
    );
}

#[test]
fn message_without_text_is_answered_with_the_reason() {
    assert!(
        Talk::default()
            .answer()
            .starts_with("Nobody has said anything")
    );
    let media = Content::new("user", vec![Part::bytes(vec![1, 2], "image/png")]);
    assert!(
        Talk::default()
            .content(media)
            .answer()
            .starts_with("I can only read text")
    );
    let empty = Talk::default().content(Content::default()).user("");
    assert!(empty.answer().starts_with("I can only read text"));
}

#[test]
fn stream_yields_words_and_then_the_full_text() {
    let talk = || {
        Talk::default()
            .user(STATEMENT)
            .agent("Noted.")
            .user(QUESTION)
    };
    let mut responses = talk().responses(true);
    let whole = responses.pop().unwrap();
    assert_eq!(whole, talk().response());
    assert!(responses.len() > 5);
    assert!(responses.iter().all(|piece| piece.partial == Some(true)));
    let pieces = responses.iter().filter_map(|piece| piece.content.as_ref());
    let pieces: String = pieces.map(Content::text_concat).collect();
    assert_eq!(pieces, whole.content.unwrap().text_concat());
}

#[test]
fn answer_reports_token_usage() {
    let response = Talk::default().user("12345678").response();
    assert_eq!(response.model_version.as_deref(), Some("offline"));
    assert_eq!(response.finish_reason.as_deref(), Some("STOP"));
    let usage = response.usage_metadata.unwrap();
    assert_eq!(usage.prompt_token_count, Some(2));
    let (prompt, answer) = (usage.prompt_token_count, usage.candidates_token_count);
    assert_eq!(
        usage.total_token_count,
        prompt.zip(answer).map(|(a, b)| a + b)
    );
}

#[test]
fn output_schema_is_filled_or_rejected() {
    let talk = || {
        Talk::default()
            .user(STATEMENT)
            .agent("Noted.")
            .user(QUESTION)
    };
    let text = r#"{"properties": {"answer": {"type": "string"}}, "required": ["answer"]}"#;
    let answer = Json::parse(&talk().schema(text).answer()).unwrap();
    assert!(answer["answer"].as_str().unwrap().contains(STATEMENT));
    let number = r#"{"properties": {"n": {"type": "number"}}, "required": ["n"]}"#;
    let error = talk().schema(number).response();
    assert_eq!(error.error_code.as_deref(), Some(SCHEMA_ERROR));
    assert!(error.error_message.unwrap().contains("requires n"));
    assert_eq!(error.content, None);
}

#[test]
fn large_texts_are_answered() {
    let units = [
        "a",
        "a ",
        "a. ",
        "? ",
        "what is. ",
        "x\n",
        "“",
        "é.",
        "我",
        "Time: 1\n",
    ];
    for unit in units {
        let text = unit.repeat(100_000 / unit.len());
        let talk = || Talk::default().recalled_block(&text).user(&text);
        assert!(!talk().agent(&text).user(&text).answer().is_empty());
        assert!(!talk().user("What is a?").answer().is_empty());
    }
    let speech = "My dog is old, isn't it? The vet said so. ".repeat(25_000);
    let answer = Talk::default()
        .user(&speech)
        .user("What did the vet say?")
        .answer();
    assert!(answer.contains("\"The vet said so.\""), "{answer}");
}

#[test]
fn random_texts_are_answered() {
    const PIECES: [&str; 24] = [
        "what",
        "is",
        "my",
        "dog",
        "?",
        ".",
        "…",
        " ",
        "\n",
        "\u{301}",
        "我",
        "é",
        "İ",
        "ß",
        "ies",
        "ed",
        "ing",
        "<PAST_CONVERSATIONS>",
        "Time: ",
        "user: ",
        ": ",
        "\"",
        "\u{202e}",
        "s",
    ];
    let seed = 20_261_116;
    let mut random = Random::new(seed);
    for round in 0..2_000 {
        let mut text = || -> String {
            let count = random.below(12);
            (0..count).map(|_| random.pick(&PIECES)).collect()
        };
        let talk = Talk::default()
            .user(&text())
            .recalled_block(&text())
            .agent(&text());
        let answer = talk.memory("x").user(&text()).answer();
        assert!(!answer.is_empty(), "seed {seed}, round {round}");
    }
}

#[test]
fn instruction_of_the_agent_is_not_quoted() {
    let instruction = own_instruction("The secret code is ALPHA7.");
    let talk = Talk::default()
        .user(&instruction)
        .user("What is the secret code?");
    assert!(!talk.answer().contains("ALPHA7"));
}
