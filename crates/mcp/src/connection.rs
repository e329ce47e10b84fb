//! The connection of a toolset: one session, made when it is needed and made anew when it broke.
//!
//! What may be repeated: listing and reading, once, whenever the connection broke, or no answer came
//! in time: a server that hangs is replaced by a new one. A call of a tool, once, if the server has
//! certainly not seen it: the child process was gone before the call was written, nobody listened at
//! the address, or the server said that it does not know the session. A call that the server may have
//! seen is never repeated: it may have done something.

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

/// A server, and the session with it if there is one.
#[derive(Debug)]
pub(crate) struct Connection {
    server: McpServer,
    current: Mutex<Current>,
    /// How often it was tried to connect, to the end.
    attempts: AtomicU64,
}

/// What came of the last attempt to connect, if it is not over.
#[derive(Debug, Default)]
struct Current {
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

    /// All tools of the server.
    pub(crate) async fn tools(&self) -> Result<Vec<ServerTool>, Failure> {
        let limit = self.server.connect_timeout();
        self.ask(Failure::ends_session, |session| {
            Box::pin(session.tools(limit))
        })
        .await
    }

    /// All resources of the server.
    pub(crate) async fn resources(&self) -> Result<Vec<ServerResource>, Failure> {
        let limit = self.server.connect_timeout();
        self.ask(Failure::ends_session, |session| {
            Box::pin(session.resources(limit))
        })
        .await
    }

    /// What a resource says.
    pub(crate) async fn read(&self, uri: &str) -> Result<Vec<ResourceBody>, Failure> {
        let limit = self.server.connect_timeout();
        let uri: Arc<str> = uri.into();
        self.ask(Failure::ends_session, |session| {
            let uri = Arc::clone(&uri);
            Box::pin(async move { session.read(&uri, limit).await })
        })
        .await
    }

    /// What a tool answers, as the protocol writes it.
    pub(crate) async fn call(&self, tool: &str, args: &JsonMap) -> Result<Json, Failure> {
        let limit = self.server.call_timeout();
        let (tool, args): (Arc<str>, _) = (tool.into(), Arc::new(args.clone()));
        self.ask(Failure::is_unseen, |session| {
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

    /// Asks, and asks once more where `may_repeat` allows it.
    async fn ask<T>(
        &self,
        may_repeat: fn(&Failure) -> bool,
        ask: impl for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let session = self.session().await?;
        let failure = match ask(&session).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => self.after(&session, failure).await,
        };
        if !may_repeat(&failure) {
            return Err(failure);
        }
        tracing::debug!(%failure, "asking the MCP server once more");
        let session = self.session().await?;
        match ask(&session).await {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.after(&session, failure).await),
        }
    }

    /// The session that there is, or a new one.
    async fn session(&self) -> Result<Arc<Session>, Failure> {
        let attempts = self.attempts.load(Ordering::Relaxed);
        // Concurrent callers wait for the same attempt.
        let mut current = self.current.lock().await;
        let session = current.session.take();
        if let Some(session) = session.filter(|session| !session.is_closed()) {
            current.session = Some(Arc::clone(&session));
            return Ok(session);
        }
        // And fails with it: if each tried for himself, the last would wait for all of them.
        let has_waited = self.attempts.load(Ordering::Relaxed) != attempts;
        if let Some(failure) = current.failure.as_ref().filter(|_| has_waited) {
            return Err(failure.clone());
        }
        let connected = match Session::connect(&self.server).await {
            Err(failure) if failure.is_unseen() => Session::connect(&self.server).await,
            connected => connected,
        };
        let connected = connected.map(Arc::new).map_err(not_connected);
        self.attempts.fetch_add(1, Ordering::Relaxed);
        current.session = connected.as_ref().ok().map(Arc::clone);
        current.failure = connected.as_ref().err().cloned();
        connected
    }

    /// Drops the session if the failure shows that it is unusable.
    async fn after(&self, session: &Arc<Session>, failure: Failure) -> Failure {
        if failure.ends_session() {
            let mut current = self.current.lock().await;
            let current = &mut current.session;
            current.take_if(|current| Arc::ptr_eq(current, session));
        }
        failure
    }
}

/// A failure to connect is never repeated from outside: it was here.
fn not_connected(failure: Failure) -> Failure {
    let message = format!("Failed to create MCP session: {failure}");
    Failure::new(FailureKind::Hopeless, message)
}
