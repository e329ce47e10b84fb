//! `HttpModel`: a provider over HTTP as the runtime's `Model`.

use std::{collections::VecDeque, fmt, sync::Arc};

use futures_util::stream;
use retain_core::LlmResponse;
use retain_runtime::{LlmRequest, Model, ModelCapabilities, ModelError, ModelStream};
use tokio::time::Instant;

use super::{
    Auth, Http, Secrets,
    client::{Answer, Exchange, from_now, malformed},
    options::Options,
    retry::AttemptError,
    sse::Sse,
};
use crate::provider::{Provider, StreamReader};

/// A model over HTTP. Clones are cheap.
pub(crate) struct HttpModel<P> {
    name: String,
    provider: Arc<P>,
    auth: Auth,
    http: Http,
}

impl<P> Clone for HttpModel<P> {
    fn clone(&self) -> HttpModel<P> {
        HttpModel {
            name: self.name.clone(),
            provider: Arc::clone(&self.provider),
            auth: self.auth.clone(),
            http: self.http.clone(),
        }
    }
}

impl<P: Provider> fmt::Debug for HttpModel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("name", &self.name)
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> HttpModel<P> {
    /// Creates a model with this name.
    pub(crate) fn new(
        name: impl Into<String>,
        provider: P,
        auth: Auth,
        http: Http,
    ) -> HttpModel<P> {
        HttpModel {
            name: name.into(),
            provider: Arc::new(provider),
            auth,
            http,
        }
    }

    /// Builds the call for a request.
    fn exchange(&self, request: &LlmRequest, stream: bool) -> Result<Exchange<'_>, ModelError> {
        let call = self.provider.call(request, stream)?;
        let options = Options::of(&request.config)?;
        let failure = |status, body: &str| self.provider.failure(status, body);
        Ok(Exchange::new(call, &self.auth, failure).with(options, stream))
    }

    /// Requests a response that is not streamed.
    async fn read_answer(&self, request: &LlmRequest) -> Result<LlmResponse, ModelError> {
        let exchange = self.exchange(request, false)?;
        self.http.ask(&exchange, |body| self.read(body)).await
    }

    fn read(&self, body: &str) -> Result<LlmResponse, AttemptError> {
        let answer = self.provider.read_answer(body);
        answer.map_err(|error| self.judged(error))
    }

    /// Requests a streamed response and waits for its first chunk.
    async fn begin(&self, request: &LlmRequest) -> Result<OpenStream, ModelError> {
        let exchange = self.exchange(request, true)?;
        let mut attempts = self.http.attempts(&exchange.options);
        loop {
            let error = match self.attempt(&exchange, attempts.deadline()).await {
                Ok(going) => return Ok(going),
                Err(error) => error,
            };
            let secrets = &exchange.secrets;
            self.http.wait(&mut attempts, error, secrets).await?;
        }
    }

    /// Makes one attempt up to the first chunk. Until then, the caller does not notice a retry.
    async fn attempt(
        &self,
        exchange: &Exchange<'_>,
        deadline: Instant,
    ) -> Result<OpenStream, AttemptError> {
        let answer = self.http.open(exchange, deadline).await?;
        let mut going = OpenStream {
            source: None,
            ready: VecDeque::new(),
            failed: None,
            deadline,
            left_at: None,
            secrets: exchange.secrets.clone(),
        };
        if answer.is_json() {
            let body = self.http.text(answer, deadline).await?;
            going.ready.push_back(self.read(&body)?);
            return Ok(going);
        }
        going.source = Some(Source {
            answer,
            sse: Sse::default(),
            reader: self.provider.reader(),
        });
        while going.ready.is_empty() && going.source.is_some() {
            let read = going.read_on(&self.http).await;
            read.map_err(|error| self.judged(error))?;
        }
        Ok(going)
    }

    /// Asks the provider whether an error before the first chunk is transient.
    fn judged(&self, mut error: AttemptError) -> AttemptError {
        let code = error.error.code.as_deref();
        let is_transient = code.is_some_and(|code| self.provider.is_transient(code));
        error.is_transient |= is_transient && !error.is_final;
        error
    }
}

impl<P: Provider> Model for HttpModel<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let model = self.clone();
        if !stream {
            return Box::pin(stream::once(
                async move { model.read_answer(&request).await },
            ));
        }
        let begin = State::Begin(request);
        Box::pin(stream::unfold(
            (model, begin),
            |(model, state)| async move {
                let mut going = match state {
                    State::Begin(request) => match model.begin(&request).await {
                        Ok(going) => Box::new(going),
                        Err(error) => return Some((Err(error), (model, State::Ended))),
                    },
                    State::Streaming(going) => going,
                    State::Ended => return None,
                };
                match going.next(&model.http).await {
                    Some(Ok(piece)) => Some((Ok(piece), (model, State::Streaming(going)))),
                    Some(Err(error)) => Some((Err(error), (model, State::Ended))),
                    None => None,
                }
            },
        ))
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.provider.capabilities()
    }
}

/// The state of a stream.
enum State {
    Begin(Arc<LlmRequest>),
    Streaming(Box<OpenStream>),
    Ended,
}

/// A streamed response that has begun.
struct OpenStream {
    /// The source of more chunks; `None` after the end.
    source: Option<Source>,
    ready: VecDeque<LlmResponse>,
    /// The error that follows the ready chunks.
    failed: Option<ModelError>,
    deadline: Instant,
    /// When the caller received the last chunk. The time until it requests the next does not count.
    left_at: Option<Instant>,
    /// Secrets that must be redacted from errors.
    secrets: Secrets,
}

/// Turns bytes into events and chunks.
struct Source {
    answer: Answer,
    sse: Sse,
    reader: Box<dyn StreamReader>,
}

impl OpenStream {
    /// Returns the next chunk; `None` after the complete response.
    async fn next(&mut self, http: &Http) -> Option<Result<LlmResponse, ModelError>> {
        if let Some(left_at) = self.left_at.take() {
            self.deadline += left_at.elapsed();
        }
        while self.ready.is_empty() && self.source.is_some() {
            if let Err(error) = self.read_on(http).await {
                return Some(Err(self.secrets.clear(error.error)));
            }
        }
        self.left_at = Some(Instant::now());
        let next = self.ready.pop_front().map(Ok);
        next.or_else(|| self.failed.take().map(Err))
    }

    /// Reads more bytes, or handles the end. Chunks before an error are returned first, so that the
    /// result does not depend on how the bytes were split.
    async fn read_on(&mut self, http: &Http) -> Result<(), AttemptError> {
        let Err(error) = self.absorb(http).await else {
            return Ok(());
        };
        self.source = None;
        if self.ready.is_empty() {
            return Err(error);
        }
        self.failed = Some(self.secrets.clear(error.error));
        Ok(())
    }

    async fn absorb(&mut self, http: &Http) -> Result<(), AttemptError> {
        let Some(source) = &mut self.source else {
            return Ok(());
        };
        let until = self.deadline.min(from_now(http.settings().idle_timeout));
        let bytes = source.answer.chunk(until).await?;
        let is_over = bytes.is_none();
        let events = match bytes {
            Some(bytes) => source.sse.push(&bytes),
            None => source.sse.finish(),
        };
        for event in events {
            // Ignore data after the end of the response.
            if !source.reader.is_done() {
                self.ready.extend(source.reader.push(&event)?);
            }
        }
        let is_done = source.reader.is_done();
        if let Some(error) = source.sse.error().filter(|_| !is_done) {
            return Err(malformed(error.message()).into());
        }
        if is_done || is_over {
            let last = source.reader.finish().map_err(|error| AttemptError {
                // The stream was truncated: if no chunk was passed on yet, a retry may succeed.
                is_transient: !is_done && !error.is_final,
                ..error
            })?;
            self.ready.extend(last);
            self.source = None;
        }
        Ok(())
    }
}
