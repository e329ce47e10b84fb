//! Who writes a summary, and the event that carries it.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _};
use retain_core::{
    BoxError, Clock, Content, Event, EventActions, EventCompaction, Ids, LlmResponse, Part,
    UsageMetadata,
};

use super::{SlidingWindow, TokenThreshold, transcript};
use crate::{
    contents::is_set,
    models::{LlmRequest, Model},
    plugins::panic_text,
};

/// What stands for a range of events from now on.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// What the model will see in place of the events.
    pub content: Content,
    /// What it took to write it.
    pub usage: Option<UsageMetadata>,
}

impl<T: Into<String>> From<T> for Summary {
    /// A text.
    fn from(text: T) -> Summary {
        Summary {
            content: Content::model(text),
            usage: None,
        }
    }
}

/// Writes summaries. By default [`LlmEventSummarizer`] does.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use retain_core::{BoxError, Event};
/// use retain_runtime::{EventSummarizer, Summary};
///
/// /// Keeps nothing but the number of events.
/// #[derive(Debug)]
/// struct Counter;
///
/// #[async_trait]
/// impl EventSummarizer for Counter {
///     async fn summarize(&self, events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError> {
///         Ok(Some(format!("{} events ago, it began.", events.len()).into()))
///     }
/// }
/// ```
#[async_trait]
pub trait EventSummarizer: fmt::Debug + Send + Sync + 'static {
    /// Sums up the events, oldest first. The first one may be the summary so far, said by `model`.
    /// `None` leaves them as they are; so does a failure, which is logged.
    async fn summarize(&self, events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError>;
}

/// Lets a model write the summaries.
#[derive(Debug, Clone)]
pub struct LlmEventSummarizer {
    model: Arc<dyn Model>,
    template: Option<String>,
}

/// Where the transcript goes in a template.
const TRANSCRIPT: &str = "{conversation_history}";

impl LlmEventSummarizer {
    /// This model, asked in ADK's words.
    pub fn new(model: Arc<dyn Model>) -> LlmEventSummarizer {
        LlmEventSummarizer {
            model,
            template: None,
        }
    }

    /// Asks in other words. `{conversation_history}` is where the events go; other braces stay.
    #[must_use]
    pub fn prompt_template(mut self, template: impl Into<String>) -> Self {
        self.template = Some(template.into());
        self
    }

    fn prompt(&self, events: &[Arc<Event>]) -> String {
        match &self.template {
            Some(template) => template.replace(TRANSCRIPT, &transcript::transcript(events)),
            None => transcript::prompt(events),
        }
    }
}

#[async_trait]
impl EventSummarizer for LlmEventSummarizer {
    async fn summarize(&self, events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError> {
        let mut request = LlmRequest::default();
        self.model.name().clone_into(&mut request.model);
        request.contents = vec![Content::user(self.prompt(events)).into()];
        let mut answers = self.model.generate(Arc::new(request), false);
        while let Some(answer) = answers.next().await {
            let answer = answer?;
            if let Some(content) = answer.content {
                return Ok(Some(Summary {
                    content,
                    usage: answer.usage_metadata,
                }));
            }
        }
        Ok(None)
    }
}

/// What compacts the sessions of a runner.
#[derive(Debug)]
pub(crate) struct Compactor {
    pub(crate) window: Option<SlidingWindow>,
    pub(crate) threshold: Option<TokenThreshold>,
    pub(super) summarizer: Arc<dyn EventSummarizer>,
}

impl Compactor {
    /// A summary of the events. What goes wrong is logged: the events themselves are still there.
    pub(crate) async fn summary(&self, range: &[Arc<Event>]) -> Option<Summary> {
        let summary = AssertUnwindSafe(self.summarizer.summarize(range)).catch_unwind();
        let summary = match summary.await {
            Ok(Ok(summary)) => summary?,
            Ok(Err(error)) => {
                tracing::warn!(error, "no summary was made; the history stays as it is");
                return None;
            }
            Err(panic) => {
                let panic = panic_text(&*panic);
                tracing::warn!(%panic, "the summariser panicked; the history stays as it is");
                return None;
            }
        };
        // In place of a summary that says nothing, the history would be gone from the prompts.
        let says_something = |part: &Part| is_set(&part.text) && part.thought != Some(true);
        let is_empty = !summary.content.parts().iter().any(says_something);
        if is_empty {
            tracing::warn!("the summary is empty; the history stays as it is");
        }
        (!is_empty).then_some(summary)
    }
}

/// The event that lays a summary over the range that it sums up.
pub(crate) fn overlay(
    range: &[Arc<Event>],
    summary: Summary,
    clock: &dyn Clock,
    ids: &dyn Ids,
) -> Option<Event> {
    let (first, last) = (range.first()?, range.last()?);
    let mut content = summary.content;
    content.role = Some("model".to_owned());
    Some(Event {
        id: ids.new_id(),
        invocation_id: ids.new_id(),
        author: "user".to_owned(),
        timestamp: clock.now(),
        isolation_scope: last.isolation_scope.clone(),
        response: LlmResponse {
            usage_metadata: summary.usage,
            ..LlmResponse::default()
        },
        actions: EventActions {
            compaction: Some(EventCompaction {
                start_timestamp: first.timestamp,
                end_timestamp: last.timestamp,
                compacted_content: content,
                ..EventCompaction::default()
            }),
            ..EventActions::default()
        },
        ..Event::default()
    })
}
