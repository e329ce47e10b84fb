//! Claude's wire format, in both directions.

mod agreement;
mod differential;
mod errors;
mod history;
mod recorded;
mod requests;
mod streams;

use std::sync::Arc;

use futures_util::StreamExt as _;
use retain_core::{Json, LlmResponse};
use retain_runtime::{LlmRequest, Model as _, ModelError, SharedContent};

use super::{BASE_URL, Claude, ClaudeHost, Messages};
use crate::{
    http::{Http, HttpSettings, Secret},
    provider::Provider as _,
    testing::{Act, Server},
};

fn provider() -> Messages {
    let base_url = BASE_URL.into();
    Messages::new("claude-test", ClaudeHost::Anthropic { base_url })
}

/// Returns the body of the request to Claude.
fn body_of(request: &LlmRequest) -> Json {
    let call = provider().call(request, false).unwrap();
    Json::parse(&call.body).unwrap()
}

fn request_with(contents: impl IntoIterator<Item = retain_core::Content>) -> LlmRequest {
    let mut request = LlmRequest::default();
    request.model = "claude-test".to_owned();
    request.contents = contents.into_iter().map(SharedContent::from).collect();
    request
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Sends a request to a server that performs these acts. Returns the answers and the request that
/// the server received.
async fn ask(
    acts: Vec<Act>,
    stream: bool,
) -> (
    Vec<Result<LlmResponse, ModelError>>,
    crate::testing::ReceivedRequest,
) {
    let server = Server::playing([acts]).await;
    let mut settings = HttpSettings::default();
    settings.retries.attempts = 1;
    let http = Http::new(settings).unwrap();
    let key = Secret::from("sk-ant-test-key");
    let model = Claude::with_base_url(server.url(), "claude-test", key, http);
    let request = Arc::new(request_with([retain_core::Content::user("Hi")]));
    let answers = model.generate(request, stream).collect().await;
    (answers, server.received().remove(0))
}
