//! The connection of a toolset: one session, created on demand and recreated after it breaks.
//!
//! Listing tools or resources and reading a resource are retried once, on a new connection, if the
//! connection broke or the request timed out.
//!
//! A tool call is retried once, and only if the server cannot have executed it: the child
//! process had ended before the call was written, the connection was refused, or the server
//! reported an unknown session. Any other call may have had side effects.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures_util::future::BoxFuture;
use retain_core::{Json, JsonMap};
use tokio::sync::Mutex;

use crate::{
    client::{ResourceBody, ServerResource, ServerTool, Session},
    failure::{Failure, FailureKind},
    server::McpServer,
};

/// A server and the current session, if any.
#[derive(Debug)]
pub(crate) struct Connection {
    server: McpServer,
    current: Mutex<LastAttempt>,
    /// Number of finished connection attempts.
    attempts: AtomicU64,
}

/// The result of the last connection attempt.
#[derive(Debug, Default)]
struct LastAttempt {
    session: Option<Arc<Session>>,
    failure: Option<Failure>,
}

impl Connection {
    pub(crate) fn new(server: McpServer) -> Connection {
        Connection {
            server,
            current: Mutex::default(),
            attempts: AtomicU64::new(0),
        }
    }

    /// Lists all tools of the server.
    pub(crate) async fn tools(&self) -> Result<Vec<ServerTool>, Failure> {
        let limit = self.server.connect_timeout();
        self.request_with_retry(Failure::ends_session, |session| {
            Box::pin(session.tools(limit))
        })
        .await
    }

    /// Lists all resources of the server.
    pub(crate) async fn resources(&self) -> Result<Vec<ServerResource>, Failure> {
        let limit = self.server.connect_timeout();
        self.request_with_retry(Failure::ends_session, |session| {
            Box::pin(session.resources(limit))
        })
        .await
    }

    /// Reads a resource.
    pub(crate) async fn read(&self, uri: &str) -> Result<Vec<ResourceBody>, Failure> {
        let limit = self.server.connect_timeout();
        let uri: Arc<str> = uri.into();
        self.request_with_retry(Failure::ends_session, |session| {
            let uri = Arc::clone(&uri);
            Box::pin(async move { session.read(&uri, limit).await })
        })
        .await
    }

    /// Calls a tool and returns its result in protocol form.
    pub(crate) async fn call(&self, tool: &str, args: &JsonMap) -> Result<Json, Failure> {
        let limit = self.server.call_timeout();
        let (tool, args): (Arc<str>, _) = (tool.into(), Arc::new(args.clone()));
        self.request_with_retry(Failure::was_not_delivered, |session| {
            let (tool, args) = (Arc::clone(&tool), Arc::clone(&args));
            Box::pin(async move { session.call(&tool, &args, limit).await })
        })
        .await
    }

    /// Closes the connection. The next call connects again.
    pub(crate) async fn close(&self) {
        let session = self.current.lock().await.session.take();
        if let Some(session) = session {
            session.close().await;
        }
    }

    /// Sends a request, and retries it once after a failure that `may_retry` accepts.
    async fn request_with_retry<T>(
        &self,
        may_retry: fn(&Failure) -> bool,
        send: impl for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let session = self.session().await?;
        let failure = match send(&session).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => self.drop_if_unusable(&session, failure).await,
        };
        if !may_retry(&failure) {
            return Err(failure);
        }
        tracing::debug!(%failure, "retrying the call to the MCP server");
        let session = self.session().await?;
        match send(&session).await {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.drop_if_unusable(&session, failure).await),
        }
    }

    /// Returns the current session, or connects.
    async fn session(&self) -> Result<Arc<Session>, Failure> {
        let attempts = self.attempts.load(Ordering::Relaxed);
        // Concurrent callers wait for the same attempt.
        let mut current = self.current.lock().await;
        let session = current.session.take();
        if let Some(session) = session.filter(|session| !session.is_closed()) {
            current.session = Some(Arc::clone(&session));
            return Ok(session);
        }
        // Concurrent callers also share a failure. If they retried one after the other, the last
        // one would wait for all attempts.
        let has_waited = self.attempts.load(Ordering::Relaxed) != attempts;
        if let Some(failure) = current.failure.as_ref().filter(|_| has_waited) {
            return Err(failure.clone());
        }
        let connected = match Session::connect(&self.server).await {
            Err(failure) if failure.was_not_delivered() => Session::connect(&self.server).await,
            connected => connected,
        };
        let connected = connected.map(Arc::new).map_err(connect_failed);
        self.attempts.fetch_add(1, Ordering::Relaxed);
        current.session = connected.as_ref().ok().map(Arc::clone);
        current.failure = connected.as_ref().err().cloned();
        connected
    }

    /// Drops the session if the failure makes it unusable. Returns the failure.
    async fn drop_if_unusable(&self, session: &Arc<Session>, failure: Failure) -> Failure {
        if failure.ends_session() {
            let mut current = self.current.lock().await;
            let current = &mut current.session;
            current.take_if(|current| Arc::ptr_eq(current, session));
        }
        failure
    }
}

/// Marks a connection failure as final, because `session` has already retried the connection where
/// that can help.
fn connect_failed(failure: Failure) -> Failure {
    let message = format!("Failed to create MCP session: {failure}");
    Failure::new(FailureKind::ConnectFailed, message)
}
