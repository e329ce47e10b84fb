//! `SessionService` has ADK's session methods; `SessionLog` adds what ADK lacks.
//!
//! A third-party service, such as a remote one, implements [`SessionService`] only. Retain's own
//! [`StoreSessionService`](crate::StoreSessionService) implements both over any store.

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
    check::Problem,
    erase::{EraseReceipt, StoreLabel},
    error::{Result, SessionError},
    event::Event,
    json::JsonMap,
    limits::Limits,
    list::EncodedSessions,
    log::{Sweep, SweepReceipt},
    maintenance::{MaintenanceStore, PendingWork},
    quota::Usage,
    session::{GetSessionConfig, ListCursor, ListSessionsResponse, Session, SessionKey, Window},
    state::State,
    store::FreeSpace,
};

/// Session operations as in ADK.
#[async_trait]
pub trait SessionService: fmt::Debug + Send + Sync + 'static {
    /// Creates a session. Generates an id if `session_id` is missing or blank. Drops `temp:` keys
    /// of the state and writes `app:` and `user:` keys to the shared state.
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session>;

    /// Reads a session; `None` if it does not exist.
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

    /// Deletes a session with its events and state; succeeds if it does not exist. Shared state
    /// keys and memories ingested from the session stay. Its own artifacts are deleted if they are
    /// in the same database, and stay otherwise.
    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()>;

    /// Appends an event, applies it to the caller's session, and returns it as stored: with id and
    /// time, without `temp:` keys. A partial event is returned unchanged and not stored.
    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event>;

    /// Like [`append_event`](Self::append_event), for a session that several tasks share.
    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event>;

    /// Returns the state of a user. Its keys have no prefix.
    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<JsonMap>;

    /// Returns the state of an app. Its keys have no prefix.
    async fn get_app_state(&self, app_name: &str) -> Result<JsonMap>;

    /// Waits until every acknowledged write is as durable as the store can make it.
    async fn flush(&self) -> Result<()>;

    /// Returns the size limits of the service, if it has any.
    fn limits(&self) -> Option<&Limits> {
        None
    }

    /// Returns the log of the sessions, for operations that ADK does not have. A runner uses
    /// [`PlainSessionLog`](crate::PlainSessionLog) if this is `None`.
    fn log(self: Arc<Self>) -> Option<Arc<dyn SessionLog>> {
        None
    }
}

/// The session log: positions, runs, rewind, fork, tail and export, which ADK's services lack.
#[async_trait]
pub trait SessionLog: SessionService {
    /// Creates a session with all options.
    async fn create(&self, new: CreateSession) -> Result<Session>;

    /// Creates a session with its history, completely or not at all. The events keep their ids and
    /// times, and their number is not limited.
    ///
    /// The session's own state is the given state with the events' changes applied. Shared state
    /// keys are set from the given state only where the app or the user lacks them; the events do
    /// not change shared state.
    async fn create_with_events(&self, new: CreateSession, events: Vec<Event>) -> Result<Session>;

    /// Reads a session with the events of `window`; `None` if it does not exist.
    async fn read(&self, key: &SessionKey, window: Window) -> Result<Option<Session>>;

    /// Refreshes a loaded session: reads the events that others appended since, and the current
    /// state. Keeps `temp:` keys. Fails with [`SessionError::NotFound`] if the session was deleted.
    async fn refresh(&self, session: &mut Session) -> Result<()>;

    /// Lists one page of sessions.
    async fn list(&self, query: ListSessions) -> Result<ListSessionsResponse>;

    /// Lists all sessions of a user with their states as JSON text. Costs less than
    /// [`list`](Self::list), because a store need not build an object for each session.
    async fn list_encoded(&self, app_name: &str, user_id: &str) -> Result<EncodedSessions>;

    /// Appends events, all or none. Appending the same events again succeeds and changes nothing.
    async fn append(&self, key: &SessionKey, append: Append) -> Result<AppendReceipt>;

    /// Like [`append`](Self::append), and applies the events to a live session. Runs use this.
    async fn append_live(&self, session: &SharedSession, append: Append) -> Result<AppendReceipt>;

    /// Renews the lease of a run that has nothing to append for a while.
    async fn renew_run(&self, key: &SessionKey, run: RunToken) -> Result<()>;

    /// Returns how long a lease lasts without an append or a renewal.
    fn run_ttl(&self) -> Duration;

    /// Ends a run that has nothing more to append, and releases its lease.
    async fn end_run(&self, key: &SessionKey, run: RunToken) -> Result<()>;

    /// Returns the state as it was after `position` (0: at creation). Session keys are exact;
    /// `app:` and `user:` keys are shared and have their current values.
    async fn state_at(&self, key: &SessionKey, position: u64) -> Result<State>;

    /// Undoes everything since the first event of the invocation by appending an event that
    /// restores the session's own state exactly. Waits for the lease like a run. Does not change
    /// artifacts; see [`rewind_with`](Self::rewind_with).
    async fn rewind(&self, key: &SessionKey, before_invocation_id: &str) -> Result<AppendReceipt> {
        let rewind = Rewind::before(before_invocation_id);
        self.rewind_with(key, rewind).await
    }

    /// Like [`rewind`](Self::rewind), and also restores the session's artifacts if `rewind` names
    /// their service.
    ///
    /// Artifacts are restored before the event is appended. If the rewind fails or is cancelled,
    /// new artifact versions may exist that no event refers to, and the session is unchanged:
    /// rewind again. The log determines which content is restored, so the result is the same.
    ///
    /// Dropping the future cancels the rewind: it stops after the current artifact and releases the
    /// lease.
    async fn rewind_with(&self, key: &SessionKey, rewind: Rewind) -> Result<AppendReceipt>;

    /// Copies the log up to a position (default: all of it) into a new session of the same user.
    async fn fork(
        &self,
        key: &SessionKey,
        position: Option<u64>,
        session_id: Option<&str>,
    ) -> Result<Session>;

    /// Streams every event after `position`, then each new one as it is stored, without gaps or
    /// repeats. Ends with [`SessionError::NotFound`] when the session is deleted.
    fn tail(&self, key: &SessionKey, position: u64) -> EventStream;

    /// Exports the sessions of `scope` as JSON Lines, without loss.
    fn export(&self, scope: ExportScope) -> LineStream;

    /// Imports the JSON Lines of an export. Each session is imported completely or not at all.
    async fn import(&self, lines: LineStream) -> Result<ImportReceipt>;

    /// Counts the sessions, events and bytes of events of an app or of one of its users, without
    /// expired sessions.
    async fn usage(&self, app_name: &str, user_id: Option<&str>) -> Result<Usage>;

    /// Whether the session still exists. A later session with the same id has another incarnation.
    async fn session_exists(&self, key: &SessionKey, incarnation: u64) -> Result<bool> {
        let read = self.read(key, Window::NONE).await?;
        Ok(read.is_some_and(|session| session.incarnation == incarnation))
    }

    /// Names the store in receipts.
    fn store_label(&self) -> StoreLabel {
        StoreLabel::new("a session service")
    }

    /// Erases all data of a user in the session store and returns how much was erased. An
    /// [`Eraser`](crate::Eraser) erases memories and artifacts in other stores too.
    async fn erase_user(&self, app_name: &str, user_id: &str) -> Result<EraseReceipt>;

    /// Deletes expired sessions and returns how many it deleted. Their artifacts in other databases
    /// and their memories stay; see [`sweep_with`](Self::sweep_with).
    async fn sweep(&self) -> Result<u64> {
        Ok(self.sweep_with(Sweep::default()).await?.sessions)
    }

    /// Deletes expired sessions, and what belongs to them in the services that `sweep` names.
    ///
    /// A session is deleted last, so that an interrupted sweep can be repeated.
    async fn sweep_with(&self, sweep: Sweep) -> Result<SweepReceipt>;

    /// Returns the store's operations for periodic tasks.
    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        Err(SessionError::Unsupported {
            store: "a session service without a store",
            operation: "periodic maintenance",
        })
    }

    /// Checks the stored data and returns each problem. The list is empty if the data is intact.
    async fn check(&self) -> Result<Vec<Problem>>;

    /// Fails unless the store is reachable and has the schema version that this program expects.
    async fn ready(&self) -> Result<()>;

    /// Returns the free space of the store's file system, if the store refuses writes before it is
    /// full.
    fn free_space(&self) -> Option<FreeSpace> {
        None
    }

    /// Returns the number of events that this service has appended since it was created.
    fn appended_events(&self) -> u64 {
        0
    }
}

/// A stream of events with their positions.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<(u64, Arc<Event>)>> + Send>>;

/// The lines of an export, without line ends.
pub type LineStream = Pin<Box<dyn Stream<Item = Result<String>> + Send>>;

/// A session that several tasks share. Clones refer to the same session.
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

    /// Returns a copy of the session. Cheap.
    pub fn snapshot(&self) -> Session {
        self.lock().clone()
    }

    /// Changes the session in place, under its lock.
    pub fn update<T>(&self, change: impl FnOnce(&mut Session) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        // After a panic in `update` the session may lack an event; the store has it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The options of a new session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CreateSession {
    /// The app.
    pub app_name: String,
    /// The user.
    pub user_id: String,
    /// The id; generated if missing or blank.
    pub session_id: Option<String>,
    /// The initial state.
    pub state: Option<State>,
    /// The time to live after the last write. `None` uses the service's default.
    pub ttl: Option<Duration>,
}

impl CreateSession {
    /// Creates the options of a session of this user, with a generated id and no state.
    pub fn new(app_name: impl Into<String>, user_id: impl Into<String>) -> CreateSession {
        CreateSession {
            app_name: app_name.into(),
            user_id: user_id.into(),
            ..CreateSession::default()
        }
    }

    /// Sets the id.
    pub fn with_session_id(mut self, id: impl Into<String>) -> CreateSession {
        self.session_id = Some(id.into());
        self
    }

    /// Sets the initial state.
    pub fn with_state(mut self, state: State) -> CreateSession {
        self.state = Some(state);
        self
    }

    /// Sets the time to live after the last write.
    pub fn with_ttl(mut self, ttl: Duration) -> CreateSession {
        self.ttl = Some(ttl);
        self
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ListSessions {
    /// The app whose sessions are listed.
    pub app_name: String,
    /// The user whose sessions are listed; `None` lists all users.
    pub user_id: Option<String>,
    /// The cursor at which the previous page ended.
    pub after: Option<ListCursor>,
    /// Maximum number of sessions (default: all).
    pub limit: Option<usize>,
    /// Whether to include the state of each session.
    pub with_state: bool,
}

impl ListSessions {
    /// Creates a request for all sessions of this app, without state.
    pub fn new(app_name: impl Into<String>) -> ListSessions {
        ListSessions {
            app_name: app_name.into(),
            ..ListSessions::default()
        }
    }

    /// Lists only sessions of this user.
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> ListSessions {
        self.user_id = Some(user_id.into());
        self
    }

    /// Continues after this cursor.
    pub fn with_after(mut self, after: ListCursor) -> ListSessions {
        self.after = Some(after);
        self
    }

    /// Sets the maximum number of sessions.
    pub fn with_limit(mut self, limit: usize) -> ListSessions {
        self.limit = Some(limit);
        self
    }

    /// Includes the state of each session.
    pub fn include_state(mut self) -> ListSessions {
        self.with_state = true;
        self
    }
}

/// Events to append.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Append {
    /// The events, in order. Partial events are skipped.
    pub events: Vec<Event>,
    /// The position at which the log must end; otherwise the append fails with a conflict.
    pub expected: Option<u64>,
    /// How this append relates to a run.
    pub run: RunUse,
    /// The work that must follow the events.
    pub pending_work: PendingWork,
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

    /// Records in the same write that `work` must follow the events. The process that does the work
    /// then calls [`MaintenanceStore::finish_work`].
    pub fn followed_by(mut self, work: PendingWork) -> Append {
        self.pending_work = work;
        self
    }

    /// Begins a run with this append, and waits for the lease according to `options`.
    pub fn beginning_run(mut self, options: RunOptions) -> Append {
        self.run = RunUse::Begin(options);
        self
    }

    /// Appends within a run.
    pub fn within_run(mut self, run: RunToken) -> Append {
        self.run = RunUse::Within(run);
        self
    }

    /// Appends the last events of a run and ends it.
    pub fn ending_run(mut self, run: RunToken) -> Append {
        self.run = RunUse::End(run);
        self
    }
}

/// How an append relates to a run.
#[derive(Debug, Clone, Default)]
pub enum RunUse {
    /// The append belongs to no run, such as a late tool response or a state change by an
    /// administrator. It never waits for a lease.
    #[default]
    Outside,
    /// The append begins a run: it waits for the lease of the session and takes it.
    Begin(RunOptions),
    /// The append belongs to the run that holds this token.
    Within(RunToken),
    /// The append is the last one of a run, and releases the lease.
    End(RunToken),
}

/// How a run waits for the lease of its session, what cancels the wait, and which runs contain the
/// run.
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
    /// How long to wait for another run to end. Zero fails immediately with
    /// [`SessionError::RunBusy`].
    pub wait: Duration,
    /// The token that cancels the wait. The append then fails with [`SessionError::Cancelled`]: it
    /// has stored nothing and has left the queue. A write that the store has already begun is
    /// finished.
    pub cancel: CancellationToken,
    /// The sessions whose runs contain this run, outermost first. A run of one of these sessions
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

    /// Marks the run as nested in a run of `session`.
    pub fn with_outer_session(mut self, session: SessionKey) -> RunOptions {
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

/// What a rewind undoes, and how.
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
    /// The invocation to undo, with everything after its first event.
    pub before_invocation_id: String,
    /// The service that stores the session's artifacts. A changed artifact gets a new version: its
    /// earlier content, or a tombstone (loads as `None`) if it did not exist. Artifacts that are
    /// named `user:…` or that no event names stay unchanged.
    pub artifacts: Option<Arc<dyn ArtifactService>>,
    /// How the rewind waits for the lease of the session.
    pub options: RunOptions,
}

impl Rewind {
    /// Undoes everything since the first event of the invocation.
    pub fn before(invocation_id: impl Into<String>) -> Rewind {
        Rewind {
            before_invocation_id: invocation_id.into(),
            artifacts: None,
            options: RunOptions::default(),
        }
    }

    /// Sets the options of the wait for the lease.
    pub fn with_options(mut self, options: RunOptions) -> Rewind {
        self.options = options;
        self
    }

    /// Also restores the session's artifacts from this service.
    pub fn with_artifacts(mut self, artifacts: Arc<dyn ArtifactService>) -> Rewind {
        self.artifacts = Some(artifacts);
        self
    }
}

/// The fencing token of a run's lease. A later run makes it invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunToken(pub u64);

/// The result of an append.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AppendReceipt {
    /// The events as stored, with their positions.
    pub events: Vec<(u64, Arc<Event>)>,
    /// The run that the append began or continued.
    pub run: Option<RunToken>,
}

/// What to export.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportScope {
    /// One session and its shared state.
    Session(SessionKey),
    /// All sessions of a user and their shared state.
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

/// What an import added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReceipt {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of events.
    pub events: u64,
    /// Number of memories.
    pub memories: u64,
    /// Number of hashes of forgotten memories.
    pub tombstones: u64,
    /// Number of artifact versions.
    pub artifacts: u64,
}
