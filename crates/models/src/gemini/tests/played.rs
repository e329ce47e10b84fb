//! Gemini on a local server, from request to answer.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_runtime::Model as _;

use super::*;
use crate::{
    Gemini, GeminiAccess, GeminiSettings, Http, HttpSettings, Retries,
    testing::{Act, Server, answer_with_status, event_stream},
};

const KEY: &str = "canary-8f2e";
const STREAM: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Grü\"}],\"role\":\"model\"}}]}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ße\"}],\"role\":\"model\"},\"finishReason\":\"STOP\"}]}\r\n\r\n",
);

fn model(server: &Server) -> Gemini {
    let settings = HttpSettings {
        retries: Retries {
            attempts: 2,
            first_wait: Duration::from_millis(1),
            ..Retries::default()
        },
        ..HttpSettings::default()
    };
    let http = Http::new(settings).expect("a client");
    let settings = GeminiSettings {
        base_url: Some(server.url()),
        ..GeminiAccess::ApiKey(KEY.into()).into()
    };
    Gemini::new("gemini-2.5-flash", settings, &http).expect("a model")
}

async fn ask(server: &Server, stream: bool) -> Vec<String> {
    let contents = json(r#"[{"role":"user","parts":[{"text":"Hi"}]}]"#);
    let request = Arc::new(request(&contents, &json("{}")));
    let answers = model(server).generate(request, stream);
    let texts = answers.map(|answer| match answer {
        Ok(answer) => answer.content.unwrap_or_default().text_concat(),
        Err(error) => format!(
            "!{} {}",
            error.code.as_deref().unwrap_or_default(),
            error.message
        ),
    });
    texts.collect().await
}

#[tokio::test]
async fn streamed_responses_do_not_depend_on_http_chunks() {
    for cut in 0..STREAM.len() {
        let server = Server::playing([event_stream(STREAM.as_bytes(), &[cut])]).await;
        assert_eq!(
            ask(&server, true).await,
            ["Grü", "ße", "Grüße"],
            "cut at {cut}"
        );
        let sent = &server.received()[0];
        assert_eq!(sent.header("x-goog-api-key"), Some(KEY));
        assert_eq!(
            sent.path(),
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
        );
        assert_eq!(
            sent.body,
            r#"{"contents":[{"parts":[{"text":"Hi"}],"role":"user"}]}"#
        );
    }
}

#[tokio::test]
async fn error_has_googles_message_without_the_key() {
    let body =
        r#"{"error":{"code":403,"message":"canary-8f2e may not","status":"PERMISSION_DENIED"}}"#;
    for stream in [false, true] {
        let server = Server::playing([answer_with_status("403 Forbidden", &[], body)]).await;
        assert_eq!(
            ask(&server, stream).await,
            ["!PERMISSION_DENIED [secret] may not"]
        );
    }
}

/// If Google requests a longer delay than the retry budget, the call fails immediately.
#[tokio::test]
async fn retry_delay_beyond_the_budget_fails_at_once() {
    let body = r#"{"error":{"code":429,"message":"later","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3600s"}]}}"#;
    let refused = answer_with_status("429 Too Many Requests", &[], body);
    let server = Server::playing([refused.clone(), refused]).await;
    assert_eq!(ask(&server, true).await, ["!RESOURCE_EXHAUSTED later"]);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn error_event_ends_the_stream() {
    let body = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Grü\"}]}}]}\n\n\
                data: {\"error\":{\"code\":503,\"message\":\"overloaded\",\"status\":\"UNAVAILABLE\"}}\n\n";
    let server = Server::playing([event_stream(body.as_bytes(), &[])]).await;
    assert_eq!(ask(&server, true).await, ["Grü", "!UNAVAILABLE overloaded"]);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn error_as_first_event_is_retried() {
    let body = "data: {\"error\":{\"code\":503,\"message\":\"overloaded\",\"status\":\"UNAVAILABLE\"}}\n\n";
    let busy = event_stream(body.as_bytes(), &[]);
    let server = Server::playing([busy, event_stream(STREAM.as_bytes(), &[])]).await;
    assert_eq!(ask(&server, true).await, ["Grü", "ße", "Grüße"]);
    let body = body.replace("UNAVAILABLE", "INVALID_ARGUMENT");
    let server = Server::playing([event_stream(body.as_bytes(), &[])]).await;
    assert_eq!(ask(&server, true).await, ["!INVALID_ARGUMENT overloaded"]);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn truncated_stream_is_an_error() {
    let mut script = event_stream(STREAM.as_bytes(), &[90]);
    script.truncate(2);
    script.extend([Act::Pause(Duration::from_millis(20)), Act::Close]);
    let server = Server::playing([script]).await;
    let answers = ask(&server, true).await;
    assert_eq!(answers.first().map(String::as_str), Some("Grü"));
    assert!(answers[1].starts_with("!ConnectionError "), "{answers:?}");
    assert_eq!(answers.len(), 2);
}
