//! Tests of the HTTP client with a fake provider: responses, errors, retries, API keys, proxies and
//! TLS.

mod keys;
mod lines;
mod proxy;
mod refusals;
#[cfg(target_os = "linux")]
mod tls;
mod waits;
mod wire;

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_core::{Content, LlmResponse};
use retain_runtime::{LlmRequest, Model as _, ModelCapabilities, ModelError};

use super::{
    AttemptError, Auth, Call, Http, HttpModel, HttpSettings, Retries, SseEvent, client::malformed,
};
use crate::{
    provider::{Failure, Provider, StreamReader},
    testing::{Act, Server},
};

/// A fake provider with a plain-text protocol: each event is a chunk, and `end` is the last event.
#[derive(Debug)]
struct PlainProvider {
    url: String,
}

impl Provider for PlainProvider {
    fn call(&self, _request: &LlmRequest, stream: bool) -> Result<Call, ModelError> {
        Ok(Call {
            url: format!("{}/ask", self.url),
            headers: vec![("x-plain", stream.to_string())],
            body: r#"{"say":"something"}"#.to_owned(),
        })
    }

    fn read_answer(&self, body: &str) -> Result<LlmResponse, AttemptError> {
        match body {
            "" => Err(malformed("the answer is empty").into()),
            "busy" => Err(ModelError::new("busy").with_code("plain-busy").into()),
            body if body.starts_with("malformed") => Err(malformed(body).into()),
            body => Ok(LlmResponse::from_content(Content::model(body))),
        }
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::new(PlainReader::default())
    }

    fn failure(&self, status: u16, body: &str) -> Failure {
        // Truncate the error page, as all real providers do.
        let output = crate::provider::plain_failure(status, body).message;
        Failure {
            is_final: body == "never",
            ..Failure::new(format!("plain-{status}"), output)
        }
    }

    fn is_transient(&self, code: &str) -> bool {
        code == "plain-busy"
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
    }
}

#[derive(Default)]
struct PlainReader {
    text: String,
    ended: bool,
}

impl StreamReader for PlainReader {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<LlmResponse>, AttemptError> {
        match event.data.as_str() {
            "end" => {
                self.ended = true;
                Ok(Vec::new())
            }
            "busy" => Err(ModelError::new("busy").with_code("plain-busy").into()),
            "permanently busy" => Err(Failure {
                is_final: true,
                ..Failure::new("plain-busy", "busy")
            }
            .into()),
            broken if broken.starts_with("broken") => {
                let error = malformed(format!("the event cannot be read: {broken}"));
                Err(error.with_source(broken.to_owned()).into())
            }
            text => {
                self.text.push_str(text);
                Ok(vec![LlmResponse {
                    partial: Some(true),
                    ..LlmResponse::from_content(Content::model(text))
                }])
            }
        }
    }

    fn finish(&mut self) -> Result<Vec<LlmResponse>, AttemptError> {
        match self.ended {
            true => Ok(vec![LlmResponse::from_content(Content::model(&*self.text))]),
            false => Err(malformed("the stream was cut off").into()),
        }
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

/// Returns settings with short retry delays and the default timeouts.
fn fast_retries() -> HttpSettings {
    HttpSettings {
        retries: Retries {
            attempts: 3,
            first_wait: Duration::from_millis(1),
            ..Retries::default()
        },
        ..HttpSettings::default()
    }
}

/// Returns settings with a short idle timeout, for servers that stop responding.
fn short_timeouts() -> HttpSettings {
    HttpSettings {
        idle_timeout: Duration::from_millis(700),
        total_timeout: Duration::from_secs(20),
        ..fast_retries()
    }
}

fn model_at(url: String, settings: HttpSettings, auth: Auth) -> HttpModel<PlainProvider> {
    let http = Http::new(settings).expect("a client");
    HttpModel::new("plain", PlainProvider { url }, auth, http)
}

fn model(server: &Server, settings: HttpSettings) -> HttpModel<PlainProvider> {
    model_at(server.url(), settings, Auth::None)
}

/// Returns the texts in order of arrival; an error is represented by its code.
async fn ask(model: &HttpModel<PlainProvider>, stream: bool) -> Vec<String> {
    let answers = model.generate(Arc::new(LlmRequest::default()), stream);
    answers.map(text_or_code).collect().await
}

fn text_or_code(answer: Result<LlmResponse, ModelError>) -> String {
    match answer {
        Ok(response) => response.content.unwrap_or_default().text_concat(),
        Err(error) => format!("!{}", error.code.unwrap_or_default()),
    }
}

/// Runs a test of this binary again in a child process with these environment variables, because a
/// process reads some of them only once.
pub(crate) async fn run_in_child_process(
    test: &'static str,
    variables: Vec<(&'static str, String)>,
) {
    let run = move || {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test"));
        child.args([test, "--exact"]);
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            child.env_remove(proxy).env_remove(proxy.to_lowercase());
        }
        let child = child.envs(variables).output().expect("a child");
        let output = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success(), "{output}");
        // The child also succeeds if no test has this name.
        assert!(output.contains("1 passed"), "{output}");
    };
    tokio::task::spawn_blocking(run).await.expect("a child");
}

fn send(text: &str) -> Act {
    Act::Send(text.as_bytes().to_vec())
}

/// Returns the response headers of a stream.
fn head() -> Act {
    send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
}

fn chunk(text: &str) -> Act {
    send(&format!("{:x}\r\n{text}\r\n", text.len()))
}

fn last_chunk() -> Act {
    send("0\r\n\r\n")
}

/// Returns a successful stream.
fn good_stream() -> Vec<Act> {
    vec![
        head(),
        chunk("data: Hel\n\n"),
        chunk("data: lo\n\ndata: end\n\n"),
        last_chunk(),
    ]
}
