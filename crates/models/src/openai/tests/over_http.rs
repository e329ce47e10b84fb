//! A model and its server: requests, retries, errors and cancellation.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_core::{Content, Json, LlmResponse};
use retain_runtime::{LlmRequest, Model as _, ModelError};

use super::{call_texts, last, parts, recorded};
use crate::{
    Http, HttpSettings, OpenAi, OpenAiServer, Retries, Secret,
    testing::{Act, Server, answer, answer_with_status, event_stream},
};

const KEY: &str = "sk-canary-0123456789";

fn http() -> Http {
    let retries = Retries {
        attempts: 3,
        first_wait: Duration::from_millis(1),
        ..Retries::default()
    };
    Http::new(HttpSettings {
        retries,
        ..HttpSettings::default()
    })
    .expect("a client")
}

fn at(server: &Server) -> OpenAi {
    let server = OpenAiServer::new(&format!("{}/v1", server.url()), Some(Secret::from(KEY)));
    OpenAi::new(http(), server, "model-1").with_name("openai/model-1")
}

fn hello() -> LlmRequest {
    let mut request = LlmRequest::default();
    request.model = "openai/model-1".to_owned();
    request.contents.push(Content::user("Hi").into());
    request
}

async fn ask(model: &OpenAi, stream: bool) -> Result<Vec<LlmResponse>, ModelError> {
    let answers = model.generate(Arc::new(hello()), stream);
    let answers: Vec<_> = answers.collect().await;
    answers.into_iter().collect()
}

const WHOLE: &str = r#"{"id":"c","object":"chat.completion","model":"model-1","choices":[{"index":0,
    "message":{"role":"assistant","content":"Hello!"},"finish_reason":"stop"}],
    "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#;

#[tokio::test]
async fn call_sends_path_key_and_body() {
    let server = Server::playing([answer(WHOLE)]).await;
    let answers = ask(&at(&server), false).await.unwrap();
    assert_eq!(parts(&answers[0])[0].text.as_deref(), Some("Hello!"));
    let received = server.received();
    assert_eq!(received[0].path(), "/v1/chat/completions");
    assert_eq!(
        received[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert_eq!(
        received[0].body,
        r#"{"model":"model-1","messages":[{"role":"user","content":"Hi"}]}"#
    );
}

#[tokio::test]
async fn azure_uses_its_own_path_and_header() {
    let server = Server::playing([answer(WHOLE)]).await;
    let azure = OpenAiServer::azure(&server.url(), "2024-10-21", Secret::from(KEY));
    let model = OpenAi::new(http(), azure, "model-1").with_name("openai/model-1");
    ask(&model, false).await.unwrap();
    let received = server.received();
    assert_eq!(
        received[0].path(),
        "/openai/deployments/model-1/chat/completions?api-version=2024-10-21"
    );
    assert_eq!(received[0].header("api-key"), Some(KEY));
    assert_eq!(received[0].header("authorization"), None);
}

#[tokio::test]
async fn streamed_call_requests_usage() {
    let stream = recorded::PARALLEL_CALLS;
    let server = Server::playing([event_stream(stream.as_bytes(), &[7, 300, 301])]).await;
    let answers = ask(&at(&server), true).await.unwrap();
    assert_eq!(call_texts(last(&answers)).len(), 2);
    let body = Json::parse(&server.received()[0].body).unwrap();
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"]["include_usage"], true);
}

#[tokio::test]
async fn streamed_responses_do_not_depend_on_http_chunks() {
    let bytes = recorded::TEXT.as_bytes();
    let scripts = (0..bytes.len()).map(|cut| event_stream(bytes, &[cut]));
    let server = Server::playing(scripts).await;
    let model = at(&server);
    let first = ask(&model, true).await.unwrap();
    for cut in 1..bytes.len() {
        let answers = ask(&model, true).await.unwrap();
        assert_eq!(answers, first, "cut at {cut}");
    }
}

#[tokio::test]
async fn unstreamed_response_to_a_streamed_call_is_accepted() {
    let server = Server::playing([answer(WHOLE)]).await;
    let answers = ask(&at(&server), true).await.unwrap();
    assert_eq!(parts(last(&answers))[0].text.as_deref(), Some("Hello!"));
}

#[tokio::test]
async fn error_has_the_servers_code_and_is_retried_only_if_transient() {
    let busy = r#"{"error":{"message":"Slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let out_of_quota = r#"{"error":{"message":"No money","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let invalid_key = format!(
        r#"{{"error":{{"message":"Incorrect API key provided: {KEY}.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}}}"#
    );
    for stream in [false, true] {
        let busy = answer_with_status("429 Too Many Requests", &[("retry-after", "0")], busy);
        let server = Server::playing([busy.clone(), busy, answer(WHOLE)]).await;
        assert!(ask(&at(&server), stream).await.is_ok());
        assert_eq!(server.received().len(), 3);

        let server = Server::playing([answer_with_status(
            "429 Too Many Requests",
            &[],
            out_of_quota,
        )])
        .await;
        let error = ask(&at(&server), stream).await.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("insufficient_quota"));
        assert_eq!(server.received().len(), 1);

        let server =
            Server::playing([answer_with_status("401 Unauthorized", &[], &invalid_key)]).await;
        let error = ask(&at(&server), stream).await.unwrap_err();
        assert_eq!(error.code.as_deref(), Some("invalid_api_key"));
        assert!(!format!("{error:?} {error}").contains(KEY), "{error}");
    }
}

#[tokio::test]
async fn error_after_the_first_chunk_is_returned_and_the_call_is_not_retried() {
    let broken = event_stream(recorded::BROKEN.as_bytes(), &[]);
    let server = Server::playing([broken, answer(WHOLE)]).await;
    let model = at(&server);
    let request = Arc::new(hello());
    let answers: Vec<_> = model.generate(request, true).collect().await;
    assert_eq!(answers.len(), 2);
    assert!(answers[0].is_ok());
    let code = answers[1].as_ref().unwrap_err().code.as_deref();
    assert_eq!(code, Some("server_error"));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn transient_error_as_first_event_is_retried() {
    let error = |code: &str| {
        let data = format!("data: {{\"error\":{{\"code\":\"{code}\",\"message\":\"Oh.\"}}}}\n\n");
        event_stream(data.as_bytes(), &[])
    };
    let server = Server::playing([error("server_error"), answer(WHOLE)]).await;
    assert!(ask(&at(&server), true).await.is_ok());
    assert_eq!(server.received().len(), 2);
    let server = Server::playing([error("invalid_prompt"), answer(WHOLE)]).await;
    let refused = ask(&at(&server), true).await.unwrap_err();
    assert_eq!(refused.code.as_deref(), Some("invalid_prompt"));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn thoughts_are_dropped_if_the_request_excludes_them() {
    let stream = event_stream(recorded::THOUGHTS.as_bytes(), &[]);
    let server = Server::playing([stream]).await;
    let mut request = hello();
    request.config.thinking_config = Some(Json::parse(r#"{"includeThoughts": false}"#).unwrap());
    let answers: Vec<_> = at(&server)
        .generate(Arc::new(request), true)
        .collect()
        .await;
    let answers: Vec<LlmResponse> = answers.into_iter().map(Result::unwrap).collect();
    let is_thought = |it: &LlmResponse| parts(it).iter().any(|part| part.thought == Some(true));
    assert!(!answers.iter().any(is_thought));
    assert_eq!(answers.len(), 2);
    assert_eq!(call_texts(last(&answers)).len(), 1);
}

/// Servers require the answer to be an object, so a list is requested inside an object and
/// extracted from it.
#[tokio::test]
async fn response_wrapped_for_the_schema_is_unwrapped() {
    let response = |text: &str| {
        let text = Json::from(text);
        format!(
            r#"{{"choices":[{{"index":0,"message":{{"content":{text},"reasoning":"Hm."}},"finish_reason":"stop"}}]}}"#
        )
    };
    let chunk = |delta: &str, reason: &str| {
        format!(
            r#"data: {{"choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{reason}}}]}}"#
        )
    };
    let stream = [
        chunk(r#""reasoning":"Hm.""#, "null"),
        chunk(r#""content":"{\"response\": [\"é\",""#, "null"),
        chunk(r#""content":" 1.50]}""#, "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    let scripts = [
        (
            false,
            answer(&response(r#"{"response": ["é", 1.50]}"#)),
            r#"["é",1.50]"#,
        ),
        (
            true,
            event_stream(stream.join("\n\n").as_bytes(), &[]),
            r#"["é",1.50]"#,
        ),
        // An answer without the wrapper is returned unchanged.
        (false, answer(&response(r#"["é"]"#)), r#"["é"]"#),
    ];
    for (is_stream, script, expected) in scripts {
        let server = Server::playing([script]).await;
        let mut request = hello();
        let schema = r#"{"type": "array", "items": {"type": "string"}}"#;
        request.config.response_json_schema = Some(Json::parse(schema).unwrap());
        let answers = at(&server).generate(Arc::new(request), is_stream);
        let answers: Vec<_> = answers.collect().await;
        let answers: Vec<LlmResponse> = answers.into_iter().map(Result::unwrap).collect();
        let (whole, pieces) = answers.split_last().unwrap();
        assert_eq!(parts(whole)[0].text.as_deref(), Some("Hm."));
        assert_eq!(parts(whole)[1].text.as_deref(), Some(expected));
        // Only the thought was returned as a chunk; chunks of the wrapper object are dropped.
        assert_eq!(pieces.len(), usize::from(is_stream));
    }
}

#[tokio::test]
async fn dropped_stream_is_cancelled() {
    let start: String = recorded::TEXT.split_inclusive("\n\n").take(2).collect();
    let mut acts = event_stream(start.as_bytes(), &[]);
    acts.pop();
    acts.push(Act::Stall);
    let server = Server::playing([acts]).await;
    let request = Arc::new(hello());
    let mut answers = at(&server).generate(request, true);
    assert!(answers.next().await.unwrap().is_ok());
    drop(answers);
    server.connections_ended(1).await;
}

#[test]
fn key_is_never_printed() {
    let server = OpenAiServer::openai(Secret::from(KEY));
    let model = OpenAi::new(http(), server, "gpt-5");
    assert!(!format!("{model:?}").contains(KEY));
}
