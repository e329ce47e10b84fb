//! `ScriptedModel`: returns scripted responses, for tests, replays and examples.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::stream;
use retain_core::{Content, FunctionCall, LlmResponse};

use super::{LlmRequest, Model, ModelCapabilities, ModelStream};
use crate::error::ModelError;

/// A scripted reply: responses in order, optionally followed by an error.
#[derive(Debug, Default)]
pub struct ScriptedReply {
    responses: Vec<LlmResponse>,
    failure: Option<ModelError>,
}

impl From<&str> for ScriptedReply {
    /// Creates a text response.
    fn from(text: &str) -> ScriptedReply {
        LlmResponse::from_content(Content::model(text)).into()
    }
}

impl From<String> for ScriptedReply {
    /// Creates a text response.
    fn from(text: String) -> ScriptedReply {
        text.as_str().into()
    }
}

impl From<Content> for ScriptedReply {
    fn from(content: Content) -> ScriptedReply {
        LlmResponse::from_content(content).into()
    }
}

impl From<LlmResponse> for ScriptedReply {
    fn from(response: LlmResponse) -> ScriptedReply {
        vec![response].into()
    }
}

impl From<Vec<LlmResponse>> for ScriptedReply {
    /// Creates several responses to one request: partial chunks, then the complete response.
    fn from(responses: Vec<LlmResponse>) -> ScriptedReply {
        ScriptedReply {
            responses,
            failure: None,
        }
    }
}

impl From<FunctionCall> for ScriptedReply {
    /// Creates a function call.
    fn from(call: FunctionCall) -> ScriptedReply {
        vec![call].into()
    }
}

impl From<Vec<FunctionCall>> for ScriptedReply {
    /// Creates several function calls in one response.
    fn from(calls: Vec<FunctionCall>) -> ScriptedReply {
        let parts = calls.into_iter().map(Into::into).collect();
        LlmResponse::from_content(Content::new("model", parts)).into()
    }
}

impl From<ModelError> for ScriptedReply {
    fn from(failure: ModelError) -> ScriptedReply {
        ScriptedReply {
            responses: Vec::new(),
            failure: Some(failure),
        }
    }
}

type ReplyFn = Box<dyn FnMut(&LlmRequest) -> ScriptedReply + Send>;

/// A model with scripted replies. It records the requests it receives.
///
/// ```
/// use retain_runtime::ScriptedModel;
/// let model = ScriptedModel::new("scripted").reply("Hello!").reply("Good bye!");
/// assert_eq!(model.requests().len(), 0);
/// ```
pub struct ScriptedModel {
    name: String,
    capabilities: ModelCapabilities,
    script: Mutex<Script>,
}

#[derive(Default)]
struct Script {
    replies: VecDeque<ScriptedReply>,
    otherwise: Option<ReplyFn>,
    requests: Vec<Arc<LlmRequest>>,
}

impl std::fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ScriptedModel {
    /// Creates a model without replies.
    pub fn new(name: impl Into<String>) -> ScriptedModel {
        ScriptedModel {
            name: name.into(),
            capabilities: ModelCapabilities::default(),
            script: Mutex::default(),
        }
    }

    /// Adds a reply to the end of the script.
    pub fn reply(self, reply: impl Into<ScriptedReply>) -> ScriptedModel {
        self.script().replies.push_back(reply.into());
        self
    }

    /// Sets a function that answers requests once the script has no replies left.
    pub fn otherwise<R: Into<ScriptedReply>>(
        self,
        mut answer: impl FnMut(&LlmRequest) -> R + Send + 'static,
    ) -> ScriptedModel {
        self.script().otherwise = Some(Box::new(move |request| answer(request).into()));
        self
    }

    /// Sets the capabilities that the model reports.
    pub fn with_capabilities(mut self, capabilities: ModelCapabilities) -> ScriptedModel {
        self.capabilities = capabilities;
        self
    }

    /// Returns the requests received so far.
    pub fn requests(&self) -> Vec<Arc<LlmRequest>> {
        self.script().requests.clone()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.capabilities
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let mut script = self.script();
        script.requests.push(Arc::clone(&request));
        let number = script.requests.len();
        let reply = match (script.replies.pop_front(), &mut script.otherwise) {
            (Some(reply), _) => reply,
            (None, Some(answer)) => answer(&request),
            (None, None) => {
                let message = format!(
                    "the script has no reply to request {number}; add one with `reply` or \
                     `otherwise`"
                );
                ModelError::new(message).into()
            }
        };
        // Like a real model, send partial chunks only if streaming was requested.
        let wanted = move |response: &LlmResponse| stream || response.partial != Some(true);
        let responses = reply.responses.into_iter().filter(wanted).map(Ok);
        let all: Vec<_> = responses.chain(reply.failure.map(Err)).collect();
        Box::pin(stream::iter(all))
    }
}
