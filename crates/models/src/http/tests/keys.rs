//! Keys are sent where they belong, and told nowhere.

use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::{
    Secret,
    http::TokenSource,
    testing::{answer, refusal},
};

const KEY: &str = "canary-5b1c9f";

#[tokio::test]
async fn keys_go_in_the_header_that_they_are_for() {
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
        let model = model_at(server.url(), patient(), auth);
        assert_eq!(ask(&model, false).await, ["Hello"]);
        assert_eq!(server.received()[0].header(name), Some(value.as_str()));
    }
}

#[tokio::test]
async fn nothing_prints_a_key() {
    let auth = Auth::Bearer(KEY.into());
    let echo = format!("Incorrect API key provided: {KEY}.");
    let server = Server::playing([refusal("401 Unauthorized", &[], &echo)]).await;
    let model = model_at(server.url(), patient(), auth.clone());
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

/// A reader's error in the middle of a stream is cleared too.
#[tokio::test]
async fn nothing_in_a_stream_prints_a_key() {
    let body = format!("data: Hel\n\ndata: broken {KEY}\n\n");
    let script = crate::testing::event_stream(body.as_bytes(), &[]);
    let server = Server::playing([script]).await;
    let model = model_at(server.url(), patient(), Auth::Header("api-key", KEY.into()));
    let answers = model.generate(Arc::new(LlmRequest::default()), true);
    let answers: Vec<_> = answers.collect().await;
    let error = answers[1].as_ref().expect_err("broken");
    assert_eq!(error.message, "the event cannot be read: broken [secret]");
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
}

#[tokio::test]
async fn a_key_that_no_header_takes_is_refused_without_telling_it() {
    let server = Server::playing([answer("Hello")]).await;
    let auth = Auth::Bearer(format!("{KEY}\n{KEY}").into());
    let model = model_at(server.url(), patient(), auth);
    assert_eq!(ask(&model, false).await, ["!InvalidKey"]);
    assert!(server.received().is_empty());
}

/// Gives `first`, and `second` once that was refused.
#[derive(Debug, Default)]
struct Renewed {
    refused: Mutex<Vec<String>>,
}

#[async_trait]
impl TokenSource for Renewed {
    async fn token(&self, _http: &Http) -> Result<Secret, ModelError> {
        match self.refused.lock().expect("lock").len() {
            0 => Ok("first".into()),
            _ => Ok("second".into()),
        }
    }

    fn refused(&self, token: &Secret) {
        self.refused
            .lock()
            .expect("lock")
            .push(token.expose().to_owned());
    }
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once() {
    let refused = refusal("401 Unauthorized", &[], "");
    let server = Server::playing([refused.clone(), answer("Hello")]).await;
    let model = model_at(
        server.url(),
        patient(),
        Auth::Tokens(Arc::new(Renewed::default())),
    );
    assert_eq!(ask(&model, false).await, ["Hello"]);
    let sent: Vec<_> = server.received();
    assert_eq!(sent[0].header("authorization"), Some("Bearer first"));
    assert_eq!(sent[1].header("authorization"), Some("Bearer second"));
    let server = Server::playing([refused.clone(), refused.clone(), refused]).await;
    let model = model_at(
        server.url(),
        patient(),
        Auth::Tokens(Arc::new(Renewed::default())),
    );
    assert_eq!(ask(&model, false).await, ["!plain-401"]);
    assert_eq!(server.received().len(), 2);
}
