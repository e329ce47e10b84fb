//! Summarizers, and the event that carries a summary.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _};
use retain_core::{
    BoxError, Clock, Content, Event, EventActions, EventCompaction, Ids, LlmResponse, Part,
    SessionError, UsageMetadata,
};

use super::{SlidingWindow, TokenThreshold, transcript};
use crate::{
    contents::is_set,
    models::{IntoModel, LlmRequest, Model},
    plugins::panic_text,
};

/// A summary that replaces a range of events in requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The content that the model sees in place of the events.
    pub content: Content,
    /// The token usage of the model that wrote the summary.
    pub usage: Option<UsageMetadata>,
}

impl<T: Into<String>> From<T> for Summary {
    /// Creates a summary from a text.
    fn from(text: T) -> Summary {
        Summary {
            content: Content::model(text),
            usage: None,
        }
    }
}

/// Writes summaries. The default is [`LlmEventSummarizer`].
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use retain_core::{BoxError, Event};
/// use retain_runtime::{EventSummarizer, Summary};
///
/// /// Summarizes events by their number.
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
    /// Summarizes the events, oldest first. The first one may be the earlier summary, with the
    /// author `model`. The events stay unsummarized if this returns `None` or fails; a failure is
    /// logged.
    async fn summarize(&self, events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError>;

    /// Returns the kind of summarizer, for telemetry spans.
    fn kind(&self) -> &'static str {
        "EventSummarizer"
    }
}

/// A summarizer that calls a model.
#[derive(Debug, Clone)]
pub struct LlmEventSummarizer {
    model: Arc<dyn Model>,
    template: Option<String>,
}

/// The placeholder for the transcript in a template.
const TRANSCRIPT: &str = "{conversation_history}";

impl LlmEventSummarizer {
    /// Creates a summarizer that calls this model with ADK's prompt.
    pub fn new(model: impl IntoModel) -> LlmEventSummarizer {
        LlmEventSummarizer {
            model: model.into_model(),
            template: None,
        }
    }

    /// Sets the prompt. The transcript of the events replaces `{conversation_history}` in it; other
    /// braces stay unchanged.
    #[must_use]
    pub fn with_prompt_template(mut self, template: impl Into<String>) -> Self {
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
    fn kind(&self) -> &'static str {
        "LlmEventSummarizer"
    }

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

/// Compacts the sessions of a runner.
#[derive(Debug)]
pub(crate) struct Compactor {
    pub(crate) window: Option<SlidingWindow>,
    pub(crate) threshold: Option<TokenThreshold>,
    pub(super) summarizer: Arc<dyn EventSummarizer>,
    pub(super) time_limit: Duration,
}

/// Why a compaction failed. The log still has all events.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The summarizer timed out. The next run tries again; if the error persists, raise
    /// [`with_time_limit`](crate::CompactionConfig::with_time_limit) or find out why the summarizer
    /// hangs.
    #[error(
        "the summarizer did not finish within {limit:?} (see CompactionConfig::with_time_limit)"
    )]
    OutOfTime {
        /// The limit.
        limit: Duration,
    },
    /// The session needs a summary, but its runner has no compaction. Configure it as for the run
    /// that left this work.
    #[error("the runner has no compaction; set it with `compaction` of the runner builder")]
    NotConfigured,
    /// The summarizer failed.
    #[error("the summarizer failed: {0}")]
    Failed(#[source] BoxError),
    /// The summarizer panicked.
    #[error("the summarizer panicked: {0}")]
    Panicked(String),
    /// The summary has no text. Storing it would remove the history from prompts.
    #[error("the summarizer returned a summary without text")]
    Empty,
    /// The session could not be read, or the summary could not be stored.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Compactor {
    pub(crate) fn summarizer_kind(&self) -> &'static str {
        self.summarizer.kind()
    }

    /// Summarizes the events; `None` if the summarizer leaves them unsummarized.
    pub(crate) async fn summarize(
        &self,
        range: &[Arc<Event>],
    ) -> Result<Option<Summary>, CompactionError> {
        let limit = self.time_limit;
        let summary = tokio::time::timeout(limit, self.summarizer.summarize(range));
        let summary = match AssertUnwindSafe(summary).catch_unwind().await {
            Ok(Ok(Ok(summary))) => summary,
            Ok(Ok(Err(error))) => return Err(CompactionError::Failed(error)),
            Ok(Err(_)) => return Err(CompactionError::OutOfTime { limit }),
            Err(panic) => return Err(CompactionError::Panicked(panic_text(&*panic).into())),
        };
        let has_content = |part: &Part| is_set(&part.text) && part.thought != Some(true);
        match summary {
            Some(summary) if !summary.content.parts().iter().any(has_content) => {
                Err(CompactionError::Empty)
            }
            summary => Ok(summary),
        }
    }
}

/// Creates the event that stores a summary of `range`; `None` if the range is empty.
pub(crate) fn summary_event(
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
