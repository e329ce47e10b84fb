//! API keys are sent only to their provider, and never printed.

use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::{
    Secret,
    http::TokenSource,
    testing::{answer, answer_with_status},
};

const KEY: &str = "canary-5b1c9f";

#[tokio::test]
async fn key_is_sent_in_the_providers_header() {
    let cases = [
        (
            Auth::Header("x-goog-api-key", KEY.into()),
            "x-goog-api-key",
            KEY.to_owned(),
        ),
        (
            Auth::Header("api-key", format!(" {KEY}\n").into()),
            "api-key",
            KEY.to_owned(),
        ),
        (
            Auth::Bearer(KEY.into()),
            "authorization",
            format!("Bearer {KEY}"),
        ),
    ];
    for (auth, name, value) in cases {
        let server = Server::playing([answer("Hello")]).await;
        let model = model_at(server.url(), fast_retries(), auth);
        assert_eq!(ask(&model, false).await, ["Hello"]);
        assert_eq!(server.received()[0].header(name), Some(value.as_str()));
    }
}

#[tokio::test]
async fn key_is_never_printed() {
    let auth = Auth::Bearer(KEY.into());
    let echo = format!("Incorrect API key provided: {KEY}.");
    let server = Server::playing([answer_with_status("401 Unauthorized", &[], &echo)]).await;
    let model = model_at(server.url(), fast_retries(), auth.clone());
    let answers = model.generate(Arc::new(LlmRequest::default()), false);
    let answers: Vec<_> = answers.collect().await;
    let error = answers[0].as_ref().expect_err("refused");
    assert_eq!(error.message, "Incorrect API key provided: [secret].");
    let printed = format!(
        "{model:?} {auth:?} {error:?} {error} {:?}",
        Secret::from(KEY)
    );
    assert!(!printed.contains(KEY), "{printed}");
}

/// API keys are redacted even from errors in the middle of a stream.
#[tokio::test]
async fn stream_error_never_contains_the_key() {
    let body = format!("data: Hel\n\ndata: broken {KEY}\n\n");
    let script = crate::testing::event_stream(body.as_bytes(), &[]);
    let server = Server::playing([script]).await;
    let model = model_at(
        server.url(),
        fast_retries(),
        Auth::Header("api-key", KEY.into()),
    );
    let answers = model.generate(Arc::new(LlmRequest::default()), true);
    let answers: Vec<_> = answers.collect().await;
    let error = answers[1].as_ref().expect_err("broken");
    assert_eq!(error.message, "the event cannot be read: broken [secret]");
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
}

/// Returns the debug output of everything that a call returns, and of the model.
async fn answers_as_text(
    model: &HttpModel<PlainProvider>,
    request: &Arc<LlmRequest>,
    stream: bool,
) -> String {
    let answers = model.generate(Arc::clone(request), stream);
    let answers: Vec<_> = answers.collect().await;
    format!("{answers:?} {model:?}")
}

/// A provider may repeat a fetched token, which is as secret as an API key.
#[tokio::test]
async fn fetched_token_is_never_printed() {
    #[derive(Debug)]
    struct FetchedToken;
    #[async_trait]
    impl TokenSource for FetchedToken {
        async fn token(&self, _http: &Http) -> Result<Secret, ModelError> {
            Ok(KEY.into())
        }
        fn invalidate(&self, _token: &Secret) {}
    }
    let echo = format!("data: broken {KEY}\n\n");
    let late = format!("data: Hel\n\n{echo}");
    let scripts = [
        (true, crate::testing::event_stream(echo.as_bytes(), &[])),
        (true, crate::testing::event_stream(late.as_bytes(), &[])),
        (true, crate::testing::event_stream(late.as_bytes(), &[11])),
        (false, answer(&format!("malformed {KEY}"))),
        (true, answer(&format!("malformed {KEY}"))),
    ];
    for (stream, script) in scripts {
        let server = Server::playing([script]).await;
        let model = model_at(
            server.url(),
            fast_retries(),
            Auth::Tokens(Arc::new(FetchedToken)),
        );
        let output = answers_as_text(&model, &Arc::default(), stream).await;
        assert!(output.contains("[secret]"), "{output}");
        assert!(!output.contains(KEY), "{output}");
    }
}

/// The first key ends with a newline, as if read from a file. The error page is truncated in the
/// middle of the second key.
#[tokio::test]
async fn truncated_text_contains_no_part_of_a_key() {
    let page = format!("{}{KEY} and more", "x".repeat(495));
    for (auth, body) in [
        (
            Auth::Bearer(format!(" {KEY}\n").into()),
            format!("no {KEY}"),
        ),
        (Auth::Bearer(KEY.into()), page),
    ] {
        let server = Server::playing([answer_with_status("400 Bad Request", &[], &body)]).await;
        let model = model_at(server.url(), fast_retries(), auth);
        let output = answers_as_text(&model, &Arc::default(), false).await;
        assert!(!output.contains(&KEY[..5]), "{output}");
    }
}

/// A request's headers may contain an API key, which replaces the model's own.
#[tokio::test]
async fn request_key_replaces_the_models_key_and_is_never_printed() {
    let mut request = LlmRequest::default();
    let options = r#"{"headers":{"API-Key":"canary-of-the-request"}}"#;
    request.config.http_options = Some(retain_core::Json::parse(options).expect("JSON"));
    let echo = answer_with_status("401 Unauthorized", &[], "no canary-of-the-request");
    let server = Server::playing([echo]).await;
    let model = model_at(
        server.url(),
        fast_retries(),
        Auth::Header("api-key", KEY.into()),
    );
    let output = answers_as_text(&model, &Arc::new(request), false).await;
    assert!(output.contains("no [secret]"), "{output}");
    let received = server.received();
    let sent = received[0].headers.iter().filter(|it| it.0 == "api-key");
    let sent: Vec<_> = sent.map(|(_, value)| value.as_str()).collect();
    assert_eq!(sent, ["canary-of-the-request"]);
}

/// A URL may contain a password.
#[tokio::test]
async fn url_password_is_never_printed() {
    let basic = "dXNlcjpjYW5hcnktNWIxYzlm";
    let echo = format!("I was sent {KEY} as {basic}");
    let server = Server::playing([answer_with_status("401 Unauthorized", &[], &echo)]).await;
    let address = server
        .url()
        .replace("http://", &format!("http://user:{KEY}@"));
    let model = model_at(address, fast_retries(), Auth::None);
    let answers = model.generate(Arc::default(), false);
    let output = format!("{:?}", answers.collect::<Vec<_>>().await);
    assert!(
        output.contains("I was sent [secret] as [secret]"),
        "{output}"
    );
    let sent = server.received()[0]
        .header("authorization")
        .map(str::to_owned);
    assert_eq!(sent, Some(format!("Basic {basic}")));
}

#[tokio::test]
async fn key_with_a_line_break_is_refused_before_sending() {
    let server = Server::playing([answer("Hello")]).await;
    let auth = Auth::Bearer(format!("{KEY}\n{KEY}").into());
    let model = model_at(server.url(), fast_retries(), auth);
    assert_eq!(ask(&model, false).await, ["!InvalidKey"]);
    assert!(server.received().is_empty());
}

/// Provides two tokens: `first`, and `second` once a token was rejected.
#[derive(Debug, Default)]
struct TwoTokens {
    rejected: Mutex<Vec<String>>,
}

#[async_trait]
impl TokenSource for TwoTokens {
    async fn token(&self, _http: &Http) -> Result<Secret, ModelError> {
        match self.rejected.lock().expect("lock").len() {
            0 => Ok("first".into()),
            _ => Ok("second".into()),
        }
    }

    fn invalidate(&self, token: &Secret) {
        self.rejected
            .lock()
            .expect("lock")
            .push(token.expose().to_owned());
    }
}

#[tokio::test]
async fn rejected_token_is_replaced_once() {
    let refused = answer_with_status("401 Unauthorized", &[], "");
    let server = Server::playing([refused.clone(), answer("Hello")]).await;
    let model = model_at(
        server.url(),
        fast_retries(),
        Auth::Tokens(Arc::new(TwoTokens::default())),
    );
    assert_eq!(ask(&model, false).await, ["Hello"]);
    let sent: Vec<_> = server.received();
    assert_eq!(sent[0].header("authorization"), Some("Bearer first"));
    assert_eq!(sent[1].header("authorization"), Some("Bearer second"));
    let server = Server::playing([refused.clone(), refused.clone(), refused]).await;
    let model = model_at(
        server.url(),
        fast_retries(),
        Auth::Tokens(Arc::new(TwoTokens::default())),
    );
    assert_eq!(ask(&model, false).await, ["!plain-401"]);
    assert_eq!(server.received().len(), 2);
}
