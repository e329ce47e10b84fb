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
        let options = Options::from_config(&request.config)?;
        let failure = |status, body: &str| self.provider.failure(status, body);
        Ok(Exchange::new(call, &self.auth, failure).with_options(options, stream))
    }

    /// Requests an unstreamed response.
    async fn read_answer(&self, request: &LlmRequest) -> Result<LlmResponse, ModelError> {
        let exchange = self.exchange(request, false)?;
        self.http.call(&exchange, |body| self.read(body)).await
    }

    fn read(&self, body: &str) -> Result<LlmResponse, AttemptError> {
        let answer = self.provider.read_answer(body);
        answer.map_err(|error| self.mark_transient(error))
    }

    /// Opens a streamed response, with retries, and waits for its first chunk.
    async fn open_stream(&self, request: &LlmRequest) -> Result<OpenStream, ModelError> {
        let exchange = self.exchange(request, true)?;
        let mut retry_state = self.http.retry_state(&exchange.options);
        loop {
            let error = match self.attempt(&exchange, retry_state.deadline()).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let secrets = &exchange.secrets;
            self.http
                .wait_before_retry(&mut retry_state, error, secrets)
                .await?;
        }
    }

    /// Makes one attempt and reads up to the first chunk. Until then, a failure can be retried
    /// without the caller noticing.
    async fn attempt(
        &self,
        exchange: &Exchange<'_>,
        deadline: Instant,
    ) -> Result<OpenStream, AttemptError> {
        let answer = self.http.open(exchange, deadline).await?;
        let mut stream = OpenStream {
            source: None,
            ready: VecDeque::new(),
            error: None,
            deadline,
            delivered_at: None,
            secrets: exchange.secrets.clone(),
        };
        if answer.is_json() {
            let body = self.http.read_text(answer, deadline).await?;
            stream.ready.push_back(self.read(&body)?);
            return Ok(stream);
        }
        stream.source = Some(Source {
            answer,
            sse: Sse::default(),
            reader: self.provider.reader(),
        });
        while stream.ready.is_empty() && stream.source.is_some() {
            let read = stream.read_more(&self.http).await;
            read.map_err(|error| self.mark_transient(error))?;
        }
        Ok(stream)
    }

    /// Marks an error as transient if its code is one of the provider's transient codes. Call it
    /// only before the first chunk.
    fn mark_transient(&self, mut error: AttemptError) -> AttemptError {
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
        let start = State::NotStarted(request);
        Box::pin(stream::unfold(
            (model, start),
            |(model, state)| async move {
                let mut stream = match state {
                    State::NotStarted(request) => match model.open_stream(&request).await {
                        Ok(stream) => Box::new(stream),
                        Err(error) => return Some((Err(error), (model, State::Ended))),
                    },
                    State::Streaming(stream) => stream,
                    State::Ended => return None,
                };
                match stream.next(&model.http).await {
                    Some(Ok(chunk)) => Some((Ok(chunk), (model, State::Streaming(stream)))),
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
    NotStarted(Arc<LlmRequest>),
    Streaming(Box<OpenStream>),
    Ended,
}

/// A streamed response whose headers have arrived.
struct OpenStream {
    /// The source of more chunks; `None` after the end.
    source: Option<Source>,
    ready: VecDeque<LlmResponse>,
    /// The error that follows the ready chunks.
    error: Option<ModelError>,
    deadline: Instant,
    /// When the caller received the last chunk. The time until the caller requests the next one
    /// extends the deadline.
    delivered_at: Option<Instant>,
    /// Secrets to redact from errors.
    secrets: Secrets,
}

/// An open connection, with the parsers that turn its bytes into events and the events into chunks.
struct Source {
    answer: Answer,
    sse: Sse,
    reader: Box<dyn StreamReader>,
}

impl OpenStream {
    /// Returns the next chunk or the error that ended the stream; `None` after the end.
    async fn next(&mut self, http: &Http) -> Option<Result<LlmResponse, ModelError>> {
        if let Some(delivered_at) = self.delivered_at.take() {
            self.deadline += delivered_at.elapsed();
        }
        while self.ready.is_empty() && self.source.is_some() {
            if let Err(error) = self.read_more(http).await {
                return Some(Err(self.secrets.redact_error(error.error)));
            }
        }
        self.delivered_at = Some(Instant::now());
        let next = self.ready.pop_front().map(Ok);
        next.or_else(|| self.error.take().map(Err))
    }

    /// Reads the next bytes. If they contain chunks and then an error, returns the chunks first, so
    /// that the result does not depend on how the network splits the bytes.
    async fn read_more(&mut self, http: &Http) -> Result<(), AttemptError> {
        let Err(error) = self.read_chunks(http).await else {
            return Ok(());
        };
        self.source = None;
        if self.ready.is_empty() {
            return Err(error);
        }
        self.error = Some(self.secrets.redact_error(error.error));
        Ok(())
    }

    /// Reads the next bytes and adds their chunks to `ready`, even if it returns an error.
    async fn read_chunks(&mut self, http: &Http) -> Result<(), AttemptError> {
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
                // Without the provider's end signal, the stream was truncated, so a retry may
                // succeed. The caller retries only if it has received no chunk.
                is_transient: !is_done && !error.is_final,
                ..error
            })?;
            self.ready.extend(last);
            self.source = None;
        }
        Ok(())
    }
}
