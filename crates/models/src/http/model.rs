//! `HttpModel`: a provider behind HTTP, as the runtime's `Model`.

use std::{collections::VecDeque, fmt, sync::Arc};

use futures_util::stream;
use retain_core::LlmResponse;
use retain_runtime::{LlmRequest, Model, ModelCapabilities, ModelError, ModelStream};
use tokio::time::Instant;

use super::{
    Auth, Http,
    client::{Answer, Exchange, from_now, malformed},
    options::Options,
    retry::Trouble,
    sse::Sse,
};
use crate::provider::{Provider, StreamReader};

/// A model behind HTTP. Clones are cheap.
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
    /// A model that is asked under `name`.
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

    /// Asks for an answer that comes whole.
    async fn whole(&self, request: &LlmRequest) -> Result<LlmResponse, ModelError> {
        let call = self.provider.call(request, false)?;
        let options = Options::of(&request.config)?;
        let failure = |status, body: &str| self.provider.failure(status, body);
        let exchange = Exchange {
            call: &call,
            auth: &self.auth,
            failure: &failure,
            options: &options,
            stream: false,
        };
        self.provider.whole(&self.http.whole_of(&exchange).await?)
    }

    /// Asks for an answer in pieces, and waits for the first.
    async fn begin(&self, request: &LlmRequest) -> Result<Going, ModelError> {
        let call = self.provider.call(request, true)?;
        let options = Options::of(&request.config)?;
        let failure = |status, body: &str| self.provider.failure(status, body);
        let exchange = Exchange {
            call: &call,
            auth: &self.auth,
            failure: &failure,
            options: &options,
            stream: true,
        };
        let mut attempts = self.http.attempts(&options);
        loop {
            match self.attempt(&exchange, attempts.deadline()).await {
                Ok(going) => return Ok(going),
                Err(trouble) => self.http.wait(&mut attempts, trouble).await?,
            }
        }
    }

    /// One attempt, up to the first piece: until then nobody has seen anything of it.
    async fn attempt(&self, exchange: &Exchange<'_>, deadline: Instant) -> Result<Going, Trouble> {
        let answer = self.http.open(exchange, deadline).await?;
        if answer.is_json() {
            let body = answer.text(deadline).await?;
            let whole = self.provider.whole(&body).map_err(Trouble::lasting)?;
            return Ok(Going {
                source: None,
                ready: VecDeque::from([whole]),
                failed: None,
                deadline,
                left_at: None,
            });
        }
        let source = Source {
            answer,
            sse: Sse::default(),
            reader: self.provider.reader(),
        };
        let mut going = Going {
            source: Some(source),
            ready: VecDeque::new(),
            failed: None,
            deadline,
            left_at: None,
        };
        while going.ready.is_empty() && going.source.is_some() {
            let read = going.read_on(&self.http).await;
            read.map_err(|trouble| self.judged(trouble))?;
        }
        Ok(going)
    }

    /// Trouble before the first piece: the provider knows which of its errors pass.
    fn judged(&self, mut trouble: Trouble) -> Trouble {
        let code = trouble.error.code.as_deref();
        trouble.may_pass |= code.is_some_and(|code| self.provider.may_pass(code));
        trouble
    }
}

impl<P: Provider> Model for HttpModel<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let model = self.clone();
        if !stream {
            return Box::pin(stream::once(async move {
                let answer = model.whole(&request).await;
                answer.map_err(|error| model.auth.cleared(error))
            }));
        }
        let begin = State::Begin(request);
        Box::pin(stream::unfold(
            (model, begin),
            |(model, state)| async move {
                let mut going = match state {
                    State::Begin(request) => match model.begin(&request).await {
                        Ok(going) => Box::new(going),
                        Err(error) => {
                            let error = model.auth.cleared(error);
                            return Some((Err(error), (model, State::Over)));
                        }
                    },
                    State::Going(going) => going,
                    State::Over => return None,
                };
                match going.next(&model.http).await {
                    Some(Ok(piece)) => Some((Ok(piece), (model, State::Going(going)))),
                    Some(Err(error)) => {
                        let error = model.auth.cleared(error);
                        Some((Err(error), (model, State::Over)))
                    }
                    None => None,
                }
            },
        ))
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.provider.capabilities()
    }
}

/// How a stream stands.
enum State {
    Begin(Arc<LlmRequest>),
    Going(Box<Going>),
    Over,
}

/// A streamed answer that has begun.
struct Going {
    /// Where more comes from; `None` when all of it has come.
    source: Option<Source>,
    ready: VecDeque<LlmResponse>,
    /// What went wrong after the pieces that are ready.
    failed: Option<ModelError>,
    deadline: Instant,
    /// When the caller was given a piece: what it takes to ask for the next is its own time.
    left_at: Option<Instant>,
}

/// Bytes, events, pieces.
struct Source {
    answer: Answer,
    sse: Sse,
    reader: Box<dyn StreamReader>,
}

impl Going {
    /// The next piece; `None` after the whole answer.
    async fn next(&mut self, http: &Http) -> Option<Result<LlmResponse, ModelError>> {
        if let Some(left_at) = self.left_at.take() {
            self.deadline += left_at.elapsed();
        }
        while self.ready.is_empty() && self.source.is_some() {
            if let Err(trouble) = self.read_on(http).await {
                return Some(Err(trouble.error));
            }
        }
        self.left_at = Some(Instant::now());
        let next = self.ready.pop_front().map(Ok);
        next.or_else(|| self.failed.take().map(Err))
    }

    /// Reads some more bytes, or takes up the end. Pieces that came before a failure are handed on
    /// first: how the bytes were cut makes no difference.
    async fn read_on(&mut self, http: &Http) -> Result<(), Trouble> {
        let Err(trouble) = self.take_up(http).await else {
            return Ok(());
        };
        self.source = None;
        if self.ready.is_empty() {
            return Err(trouble);
        }
        self.failed = Some(trouble.error);
        Ok(())
    }

    async fn take_up(&mut self, http: &Http) -> Result<(), Trouble> {
        let Some(source) = &mut self.source else {
            return Ok(());
        };
        let until = self.deadline.min(from_now(http.settings().idle_timeout));
        let bytes = source.answer.chunk(until).await?;
        let is_over = bytes.is_none();
        let events = match bytes {
            Some(bytes) => source.sse.push(&bytes),
            None => source.sse.finish().map(|last| last.into_iter().collect()),
        };
        let events = events.map_err(|error| Trouble::lasting(malformed(error.message())))?;
        for event in events {
            let pieces = source.reader.push(&event).map_err(Trouble::lasting)?;
            self.ready.extend(pieces);
        }
        if is_over || source.reader.is_done() {
            let last = source.reader.finish().map_err(Trouble::lasting)?;
            self.ready.extend(last);
            self.source = None;
        }
        Ok(())
    }
}
