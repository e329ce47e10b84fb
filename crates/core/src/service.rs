//! `SessionService`: what users and the runner see, with ADK's methods; `SessionLog`: the rest.
//!
//! A service that is not ours (a remote one) implements [`SessionService`] alone. Ours, over any
//! store, is [`StoreSessionService`](crate::StoreSessionService), and it has both.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_core::Stream;
use tokio_util::sync::CancellationToken;

use crate::{
    artifacts::ArtifactService,
    error::{Result, SessionError},
    event::Event,
    json::JsonMap,
    limits::Limits,
    session::{GetSessionConfig, ListCursor, ListSessionsResponse, Session, SessionKey, Window},
    state::State,
    store::EraseReceipt,
};

/// Sessions, as ADK's services offer them.
#[async_trait]
pub trait SessionService: fmt::Debug + Send + Sync + 'static {
    /// Creates a session. Without an id, or with a blank one, an id is made.
    /// `temp:` keys of the state are dropped, `app:` and `user:` keys are shared at once.
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session>;

    /// Reads a session; `None` if there is none.
    async fn get_session(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
        config: GetSessionConfig,
    ) -> Result<Option<Session>>;

    /// Lists the sessions of a user, or of all users of the app, with state and without events.
    async fn list_sessions(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<ListSessionsResponse>;

    /// Deletes a session with its events and state; no error if there is none. Keys that are
    /// shared with other sessions stay, and so do memories that came from it. Its own artifacts go
    /// with it where they are in the same database; elsewhere they stay.
    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()>;

    /// Stores an event and takes it up into the caller's session. Gives back the event as stored:
    /// with id and time, without `temp:` keys. A partial event comes back as it is, not stored.
    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event>;

    /// As [`append_event`](Self::append_event), for a session that several tasks share.
    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event>;

    /// The keys of a user, without prefix.
    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<JsonMap>;

    /// The keys of an app, without prefix.
    async fn get_app_state(&self, app_name: &str) -> Result<JsonMap>;

    /// Returns when everything acknowledged is as durable as it gets.
    async fn flush(&self) -> Result<()>;

    /// What may be stored, if the service has such limits.
    fn limits(&self) -> Option<&Limits> {
        None
    }

    /// The log behind the sessions, for what ADK's methods cannot express. A runner uses
    /// [`PlainSessionLog`](crate::PlainSessionLog) where there is none.
    fn log(self: Arc<Self>) -> Option<Arc<dyn SessionLog>> {
        None
    }
}

/// The session log: positions, runs, rewind, fork, tail, export. What no ADK service has.
#[async_trait]
pub trait SessionLog: SessionService {
    /// Creates a session with everything that can be said about it.
    async fn create(&self, new: CreateSession) -> Result<Session>;

    /// Creates a session with its history, as an import does: all of it, or nothing. As many events
    /// as there are; their ids and times stay. The session's own keys are those of the state given
    /// here, with the changes of the events on top. Keys that are shared are set from that state
    /// where the app or the user does not have them; the events change none of them.
    async fn create_with_events(&self, new: CreateSession, events: Vec<Event>) -> Result<Session>;

    /// Reads a session with the events of `window`; `None` if there is none.
    async fn read(&self, key: &SessionKey, window: Window) -> Result<Option<Session>>;

    /// Brings a session up to date: reads what others appended since, and the state as it is now.
    /// `temp:` keys stay. [`SessionError::NotFound`] if it is gone.
    async fn refresh(&self, session: &mut Session) -> Result<()>;

    /// Lists sessions page by page.
    async fn list(&self, query: ListSessions) -> Result<ListSessionsResponse>;

    /// All sessions of a user, with their states, as ADK's HTTP API lists them: camelCase JSON,
    /// without events. Sessions whose ids begin with one of `hidden` are left out.
    async fn list_text(
        &self,
        app_name: &str,
        user_id: &str,
        hidden: &'static [&'static str],
    ) -> Result<String>;

    /// Appends events, all or none. The same events again succeed and change nothing.
    async fn append(&self, key: &SessionKey, append: Append) -> Result<Appended>;

    /// As [`append`](Self::append), and takes the events up into a live session: the way of a run.
    async fn append_live(&self, session: &SharedSession, append: Append) -> Result<Appended>;

    /// Prolongs a run that has nothing to write for a while.
    async fn renew_run(&self, key: &SessionKey, run: RunToken) -> Result<()>;

    /// How long a run lasts without a write or a renewal.
    fn run_ttl(&self) -> Duration;

    /// Ends a run that has nothing more to write.
    async fn end_run(&self, key: &SessionKey, run: RunToken) -> Result<()>;

    /// The state as it was after `position` (0: as created). Session keys exactly; `app:` and
    /// `user:` keys are shared and shown as they are now.
    async fn state_at(&self, key: &SessionKey, position: u64) -> Result<State>;

    /// Takes back everything from the first event of the invocation on, by appending: the
    /// session's own keys become exactly what they were. Waits for its turn like a run.
    /// Artifacts stay as they are; see [`rewind_with`](Self::rewind_with).
    async fn rewind(&self, key: &SessionKey, before_invocation_id: &str) -> Result<Appended> {
        let rewind = Rewind::before(before_invocation_id);
        self.rewind_with(key, rewind).await
    }

    /// As [`rewind`](Self::rewind), and takes back what the session's artifacts became since, if
    /// `rewind` says where they are kept.
    ///
    /// Artifacts are restored before the event is stored. If that fails, or if this is broken off,
    /// there may be new versions that no event tells of, and the session is as it was: rewind again.
    /// What a file was is taken from the log, so the outcome is the same. Whoever drops this breaks it
    /// off: the file that is being restored is the last, and the session is free for others.
    async fn rewind_with(&self, key: &SessionKey, rewind: Rewind) -> Result<Appended>;

    /// Copies the log up to a position (default: all of it) into a new session of the same user.
    async fn fork(
        &self,
        key: &SessionKey,
        position: Option<u64>,
        session_id: Option<&str>,
    ) -> Result<Session>;

    /// Every event behind `position`, then each new one as it is stored; no gap, no repeat. Ends
    /// with [`SessionError::NotFound`] when the session is deleted.
    fn tail(&self, key: &SessionKey, position: u64) -> EventStream;

    /// One session, a user's or an app's as JSON Lines, without loss.
    fn export(&self, scope: ExportScope) -> LineStream;

    /// Reads JSON Lines that an export gave. Each session comes in whole or not at all.
    async fn import(&self, lines: LineStream) -> Result<ImportReceipt>;

    /// Removes everything of a user and says how much that was.
    async fn erase_user(&self, app_name: &str, user_id: &str) -> Result<EraseReceipt>;

    /// Deletes the sessions whose time is up, and says how many.
    async fn sweep(&self) -> Result<u64>;

    /// Looks for damage in the store. An empty list is a clean bill.
    async fn check(&self) -> Result<Vec<String>>;

    /// Whether the store can be used now: it is there, and its form is the one that this program
    /// knows.
    async fn ready(&self) -> Result<()>;

    /// How many events this service has acknowledged since it was made.
    fn appended_events(&self) -> u64 {
        0
    }
}

/// Events with their positions, as they come.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<(u64, Arc<Event>)>> + Send>>;

/// Lines of an export, without line ends.
pub type LineStream = Pin<Box<dyn Stream<Item = Result<String>> + Send>>;

/// A session that several tasks hold. Cloning shares it.
///
/// ```
/// use retain_core::{Session, SharedSession};
/// let shared = SharedSession::new(Session::new("app", "user", "s1"));
/// assert_eq!(shared.clone().snapshot().id, "s1");
/// ```
#[derive(Debug, Clone)]
pub struct SharedSession(Arc<Mutex<Session>>);

impl SharedSession {
    /// Shares `session`.
    pub fn new(session: Session) -> SharedSession {
        SharedSession(Arc::new(Mutex::new(session)))
    }

    /// The session as it is now. Cheap.
    pub fn snapshot(&self) -> Session {
        self.lock().clone()
    }

    /// Changes the session in place; nobody else sees it meanwhile.
    pub fn update<T>(&self, change: impl FnOnce(&mut Session) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        // A panic in `update` leaves a session that may lack an event; the store has it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session to be created.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// The app.
    pub app_name: String,
    /// The user.
    pub user_id: String,
    /// The id; made if there is none.
    pub session_id: Option<String>,
    /// The state to begin with.
    pub state: Option<State>,
    /// How long it lives after the last write; the service's default if not said.
    pub ttl: Option<Duration>,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct ListSessions {
    /// Of this app.
    pub app_name: String,
    /// Of this user only.
    pub user_id: Option<String>,
    /// Where the last page ended.
    pub after: Option<ListCursor>,
    /// At most so many; all if not said.
    pub limit: Option<usize>,
    /// With their state.
    pub with_state: bool,
}

/// Events to append.
#[derive(Debug, Clone, Default)]
pub struct Append {
    /// The events, in order. Partial ones are left out.
    pub events: Vec<Event>,
    /// Fail with a conflict unless the log ends here.
    pub expected: Option<u64>,
    /// What this append has to do with a run.
    pub run: RunUse,
}

impl From<Event> for Append {
    fn from(event: Event) -> Append {
        Append::from(vec![event])
    }
}

impl From<Vec<Event>> for Append {
    fn from(events: Vec<Event>) -> Append {
        Append {
            events,
            ..Append::default()
        }
    }
}

impl Append {
    /// Fails with a conflict unless the log ends at `position`.
    pub fn expecting(mut self, position: u64) -> Append {
        self.expected = Some(position);
        self
    }

    /// Begins a run with this append, waiting for the lease as `options` say.
    pub fn beginning_run(mut self, options: RunOptions) -> Append {
        self.run = RunUse::Begin(options);
        self
    }

    /// Writes inside a run.
    pub fn within_run(mut self, run: RunToken) -> Append {
        self.run = RunUse::Within(run);
        self
    }

    /// Writes the last events of a run and ends it.
    pub fn ending_run(mut self, run: RunToken) -> Append {
        self.run = RunUse::End(run);
        self
    }
}

/// How an append relates to a run.
#[derive(Debug, Clone, Default)]
pub enum RunUse {
    /// It belongs to no run: a late tool answer, or a state change by an administrator. It never
    /// waits for a lease.
    #[default]
    Outside,
    /// It begins a run: it waits for the lease of the session and takes it.
    Begin(RunOptions),
    /// It belongs to the run that holds this token.
    Within(RunToken),
    /// It is the last append of a run, and releases the lease.
    End(RunToken),
}

/// How a run waits for the lease of its session, what cancels the wait, and which runs it is part of.
///
/// ```
/// use std::time::Duration;
/// use retain_core::RunOptions;
/// let options = RunOptions::default().with_wait(Duration::from_secs(5));
/// assert!(!options.cancel.is_cancelled());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// How long to wait for another run to end. Zero fails at once with
    /// [`SessionError::RunBusy`].
    pub wait: Duration,
    /// Cancels the wait. The append then fails with [`SessionError::Cancelled`]: it has stored
    /// nothing and has left the queue. A write that the store has already begun is finished.
    pub cancel: CancellationToken,
    /// The sessions whose runs start this one, outermost first. A run of one of these sessions
    /// fails with [`SessionError::NestedRun`], because it would wait for itself.
    pub within: Vec<SessionKey>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            wait: Duration::from_secs(60),
            cancel: CancellationToken::new(),
            within: Vec::new(),
        }
    }
}

impl RunOptions {
    /// Waits at most this long for another run to end.
    pub fn with_wait(mut self, wait: Duration) -> RunOptions {
        self.wait = wait;
        self
    }

    /// Stops waiting when `cancel` is cancelled.
    pub fn with_cancel(mut self, cancel: CancellationToken) -> RunOptions {
        self.cancel = cancel;
        self
    }

    /// Marks the run as part of the run of `session`.
    pub fn within(mut self, session: SessionKey) -> RunOptions {
        self.within.push(session);
        self
    }

    /// Fails if the run would wait for itself.
    pub fn check_not_nested(&self, key: &SessionKey) -> Result<()> {
        if self.within.contains(key) {
            return Err(SessionError::NestedRun { key: key.clone() });
        }
        Ok(())
    }

    /// Fails if the wait was cancelled.
    pub(crate) fn check_not_cancelled(&self, key: &SessionKey) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(SessionError::Cancelled { key: key.clone() });
        }
        Ok(())
    }
}

/// What is to be taken back.
///
/// ```
/// use std::sync::Arc;
/// use retain_core::{ArtifactService, Result, Rewind, SessionKey, SessionLog};
/// async fn undo(log: &dyn SessionLog, files: Arc<dyn ArtifactService>) -> Result<()> {
///     let key = SessionKey::new("app", "ada", "s1");
///     log.rewind_with(&key, Rewind::before("e-2").with_artifacts(files)).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rewind {
    /// Everything from the first event of this invocation on.
    pub before_invocation_id: String,
    /// Where the session's artifacts are kept. Those that changed since get one more version, which
    /// is what they were, or one that loads as nothing if they were not there. Names that begin with
    /// `user:` stay, and so does what no event tells of.
    pub artifacts: Option<Arc<dyn ArtifactService>>,
    /// How the rewind waits for the lease of the session.
    pub options: RunOptions,
}

impl Rewind {
    /// Takes back everything from the first event of the invocation on.
    pub fn before(invocation_id: impl Into<String>) -> Rewind {
        Rewind {
            before_invocation_id: invocation_id.into(),
            artifacts: None,
            options: RunOptions::default(),
        }
    }

    /// With these options for the wait.
    pub fn with_options(mut self, options: RunOptions) -> Rewind {
        self.options = options;
        self
    }

    /// With the session's artifacts.
    pub fn with_artifacts(mut self, artifacts: Arc<dyn ArtifactService>) -> Rewind {
        self.artifacts = Some(artifacts);
        self
    }
}

/// The right to write a session inside a run. A later run makes it worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunToken(pub u64);

/// What an append stored.
#[derive(Debug, Clone, Default)]
pub struct Appended {
    /// The events as stored, with their positions.
    pub events: Vec<(u64, Arc<Event>)>,
    /// The run that was begun or goes on.
    pub run: Option<RunToken>,
}

/// What to export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportScope {
    /// One session, and what it shares.
    Session(SessionKey),
    /// All sessions of a user, and what they share.
    User {
        /// The app.
        app: String,
        /// The user.
        user: String,
    },
    /// All sessions of an app.
    App {
        /// The app.
        app: String,
    },
}

/// What an import brought in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportReceipt {
    /// Sessions.
    pub sessions: u64,
    /// Events.
    pub events: u64,
}
