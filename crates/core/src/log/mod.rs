//! The session rules, implemented once for all stores, over any [`SessionStore`].
//!
//! Users and the runner call them through [`SessionService`] and [`SessionLog`]. Each call applies
//! ADK's rules (`prepare`), waits for the lease if it begins a run (`lease_queue`), and then makes
//! one call to the store.

mod append;
pub(crate) mod fold;
mod history;
mod lease_queue;
mod page;
mod prepare;
mod restore;
pub(crate) mod rewind;
mod sweep;
mod tail;
mod transfer;
mod usage;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream;

use crate::{
    budget::Meter,
    check::Problem,
    erase::{EraseReceipt, StoreLabel},
    error::{Result, SessionError},
    event::Event,
    events::Events,
    json::JsonMap,
    limits::{self, LimitKind, Limits},
    list::EncodedSessions,
    maintenance::MaintenanceStore,
    ports::{Clock, Ids, RandomIds, SystemClock},
    quota::{QuotaMeter, Usage},
    service::{
        Append, AppendReceipt, CreateSession, EventStream, ExportScope, ImportReceipt, LineStream,
        ListSessions, Rewind, RunToken, SessionLog, SessionService, SharedSession,
    },
    session::{GetSessionConfig, ListCursor, ListSessionsResponse, Session, SessionKey, Window},
    state::{ScopedDelta, State},
    store::{
        AppendOutcome, Changes, EventLookup, FreeSpace, Head, LeaseUpdate, ListFields, ListQuery,
        NewSession, ReadDetail, ScopedState, SessionStore, Snapshot,
    },
    store_rules::check_position,
    wire::to_stored_text,
};

use lease_queue::LeaseQueues;
pub use sweep::{Sweep, SweepReceipt};

/// A session service over a store. It implements ADK's rules once, for every database.
///
/// Cheap to clone; clones share the store. `InMemorySessionService` and `SqliteSessionService`
/// are this type on their stores.
#[derive(Debug)]
pub struct StoreSessionService<S> {
    store: Arc<S>,
    settings: Arc<Settings>,
    lease_queues: Arc<LeaseQueues>,
    /// Number of acknowledged events.
    appended: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
struct Settings {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    limits: Limits,
    run_ttl: Duration,
    session_ttl: Option<Duration>,
    /// `None` without quotas.
    quotas: Option<Arc<QuotaMeter>>,
}

impl<S> Clone for StoreSessionService<S> {
    fn clone(&self) -> Self {
        StoreSessionService {
            store: Arc::clone(&self.store),
            settings: Arc::clone(&self.settings),
            lease_queues: Arc::clone(&self.lease_queues),
            appended: Arc::clone(&self.appended),
        }
    }
}

/// A store that can be opened by URI.
#[async_trait]
pub trait ConnectStore: SessionStore + Sized {
    /// Opens the store at `uri` and migrates its schema if necessary.
    async fn connect(uri: &str) -> Result<Self>;
}

impl<S: ConnectStore> StoreSessionService<S> {
    /// Opens the store at `uri` and migrates its schema if necessary.
    pub async fn connect(uri: &str) -> Result<Self> {
        Ok(Self::over(S::connect(uri).await?))
    }
}

impl<S: SessionStore + Default> StoreSessionService<S> {
    /// Creates a service on a new, empty store.
    pub fn new() -> Self {
        Self::over(S::default())
    }
}

impl<S: SessionStore + Default> Default for StoreSessionService<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Creates a service on `store`.
    pub fn over(store: S) -> Self {
        StoreSessionService {
            store: Arc::new(store),
            settings: Arc::new(Settings {
                clock: Arc::new(SystemClock),
                ids: Arc::new(RandomIds),
                limits: Limits::default(),
                run_ttl: Duration::from_secs(30),
                session_ttl: None,
                quotas: None,
            }),
            lease_queues: Arc::default(),
            appended: Arc::default(),
        }
    }

    /// Takes event times from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        Arc::make_mut(&mut self.settings).clock = clock;
        self
    }

    /// Takes new ids from `ids`.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        Arc::make_mut(&mut self.settings).ids = ids;
        self
    }

    /// Sets the size limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        Arc::make_mut(&mut self.settings).limits = limits;
        self
    }

    /// Sets how long a lease lasts without an append or a renewal. Default: 30 seconds.
    pub fn with_run_ttl(mut self, ttl: Duration) -> Self {
        Arc::make_mut(&mut self.settings).run_ttl = ttl;
        self
    }

    /// Sets the default time to live of sessions after the last write. By default they never
    /// expire.
    pub fn with_session_ttl(mut self, ttl: Duration) -> Self {
        Arc::make_mut(&mut self.settings).session_ttl = Some(ttl);
        self
    }

    /// Returns the store, for operations that only this backend has.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, shared with this service.
    pub fn shared_store(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    fn key(&self, app: &str, user: &str, id: &str) -> Result<SessionKey> {
        let key = SessionKey::new(app, user, id);
        self.settings.limits.check_key(&key)?;
        Ok(key)
    }

    /// Creates the session that `new` describes.
    async fn create_new(&self, new: CreateSession) -> Result<Session> {
        let new = self.validate_new(new)?;
        let one = Usage::default().with_sessions(1);
        let room = self.reserve_all(&new.key, one).await?;
        let created = self.store.create(new).await?;
        room.settle();
        Ok(build_session(created))
    }

    /// Validates a new session and fills in its id, time and time to live.
    fn validate_new(&self, new: CreateSession) -> Result<NewSession> {
        let settings = &self.settings;
        let given = new.session_id.filter(|id| !id.trim().is_empty());
        let id = given.unwrap_or_else(|| settings.ids.new_id());
        let key = self.key(&new.app_name, &new.user_id, &id)?;
        let initial = State::trim_temp_keys(&new.state.unwrap_or_default().to_delta());
        let changes = self.initial_changes(&initial)?;
        let ttl = new.ttl.or(settings.session_ttl);
        if ttl.is_some_and(|ttl| ttl.is_zero()) {
            let reason = "must be greater than 0; omit it for a session that never expires";
            return Err(SessionError::invalid("ttl", reason));
        }
        Ok(NewSession {
            key,
            initial,
            changes,
            create_time: settings.clock.now(),
            ttl,
            state_bytes_max: settings.limits.state_bytes,
        })
    }

    fn initial_changes(&self, initial: &JsonMap) -> Result<Changes> {
        for key in initial.keys() {
            self.settings.limits.check_state_key(key)?;
        }
        // A value may be nested too deeply, or be a float that JSON cannot represent.
        let text = to_stored_text(initial);
        let text = text.map_err(|e| SessionError::invalid("state", e.to_string()))?;
        let limits = &self.settings.limits;
        limits::check(LimitKind::InitialState, text.len(), limits.state_bytes)?;
        Ok(prepare::changes(ScopedDelta::from_delta(initial)))
    }

    async fn read_session(&self, key: &SessionKey, window: Window) -> Result<Option<Session>> {
        let snapshot = self.store.read(key, window, ReadDetail::State).await?;
        Ok(snapshot.map(build_session))
    }

    /// Renews the lease of a run for `ttl`, or releases it if `ttl` is `None`.
    async fn renew(&self, key: &SessionKey, run: RunToken, ttl: Option<Duration>) -> Result<()> {
        let update = LeaseUpdate::Renew { token: run.0, ttl };
        self.store.update_lease(key, &update).await
    }

    fn check_owner(&self, app: &str, user: Option<&str>) -> Result<()> {
        let limits = &self.settings.limits;
        limits.check_id("app name", app)?;
        user.map_or(Ok(()), |user| limits.check_id("user id", user))
    }

    async fn list_page(&self, query: ListSessions) -> Result<ListSessionsResponse> {
        self.check_owner(&query.app_name, query.user_id.as_deref())?;
        if let Some(after) = &query.after {
            after.check()?;
        }
        let limit = query.limit.unwrap_or(usize::MAX).max(1);
        let store_query = ListQuery {
            app: query.app_name,
            user: query.user_id,
            after: query.after,
            // One extra session tells whether there is a next page.
            limit: limit.saturating_add(1),
            fields: match query.with_state {
                true => ListFields::State,
                false => ListFields::Metadata,
            },
        };
        let mut found = self.store.list(&store_query).await?;
        let more = found.sessions.len() > limit;
        found.sessions.truncate(limit);
        let next = found.sessions.last().filter(|_| more);
        let next = next.map(|last| ListCursor {
            last_update_time: last.last_update_time,
            user: last.user_id.clone(),
            id: last.id.clone(),
        });
        found.merge_shared();
        Ok(ListSessionsResponse {
            sessions: found.sessions,
            next,
        })
    }

    /// Reads the events after the session's position, and replaces the state except `temp:` keys.
    async fn refresh_session(&self, session: &mut Session) -> Result<()> {
        let key = session.key();
        self.settings.limits.check_key(&key)?;
        let window = Window::after(session.position);
        let read = self.store.read(&key, window, ReadDetail::State).await?;
        // A later session may have reused the id.
        let is_other = |head: &Head| ![0, head.incarnation].contains(&session.incarnation);
        let Some(read) = read.filter(|read| !is_other(&read.head)) else {
            return Err(SessionError::NotFound { key });
        };
        let applied = session.events.iter_with_positions();
        let applied = applied.take_while(|(position, _)| *position <= session.position);
        let applied = applied.count();
        session.events.truncate(applied);
        session.events.extend(read.events);
        session.position = read.head.position;
        session.last_update_time = read.head.last_update_time;
        let mut state = merge_state(read.state);
        state.apply(&session.state.clear_temp_keys());
        session.state = state;
        Ok(())
    }
}

/// Converts the result of a write into the result of an append.
fn to_receipt(key: &SessionKey, written: AppendOutcome) -> Result<AppendReceipt> {
    match written {
        AppendOutcome::Done { events, token } => Ok(AppendReceipt {
            events,
            run: token.map(RunToken),
        }),
        // Only an append that takes the lease can be busy, and `lease_queue` handles that case.
        AppendOutcome::Busy { .. } => Err(SessionError::RunBusy {
            key: key.clone(),
            waited: Duration::ZERO,
        }),
    }
}

/// Returns the state with the session's own keys as they were after `position`.
pub(crate) async fn read_state_at(
    store: &(impl SessionStore + ?Sized),
    key: &SessionKey,
    position: u64,
) -> Result<ScopedState> {
    let scope = ReadDetail::StateAt(position);
    let read = store.read(key, Window::NONE, scope).await?;
    let read = read.ok_or_else(|| SessionError::not_found(key))?;
    check_position(key, position, read.head.position)?;
    Ok(read.state)
}

/// Returns the position of the first event of the invocation.
pub(crate) async fn find_invocation_start(
    store: &(impl SessionStore + ?Sized),
    key: &SessionKey,
    invocation: &str,
) -> Result<Option<u64>> {
    let lookup = EventLookup::Invocation(invocation.to_owned());
    let found = store.find_events(key, &lookup).await?;
    Ok(found.into_iter().next().flatten())
}

fn merge_state(state: ScopedState) -> State {
    State::merged(state.session, &state.app, &state.user)
}

fn build_session(snapshot: Snapshot) -> Session {
    let Head {
        key,
        position,
        last_update_time,
        incarnation,
        ..
    } = snapshot.head;
    Session {
        id: key.id,
        app_name: key.app,
        user_id: key.user,
        state: merge_state(snapshot.state),
        events: snapshot.events.into_iter().collect::<Events>(),
        last_update_time,
        position,
        incarnation,
    }
}

#[async_trait]
impl<S: SessionStore> SessionService for StoreSessionService<S> {
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session> {
        let mut new = CreateSession::new(app_name, user_id);
        new.session_id = session_id.map(str::to_owned);
        new.state = state;
        self.create_new(new).await
    }

    async fn get_session(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
        config: GetSessionConfig,
    ) -> Result<Option<Session>> {
        let key = self.key(app_name, user_id, session_id)?;
        self.read_session(&key, config.into()).await
    }

    async fn list_sessions(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<ListSessionsResponse> {
        let mut query = ListSessions::new(app_name).include_state();
        query.user_id = user_id.map(str::to_owned);
        self.list_page(query).await
    }

    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()> {
        let key = self.key(app_name, user_id, session_id)?;
        self.store.delete(&key).await?;
        self.record_deletion(app_name, user_id);
        Ok(())
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        if event.is_partial() {
            return Ok(event);
        }
        let key = session.key();
        let appending = self.append_events(&key, session.incarnation, event.into());
        let stored = appending.await?;
        stored.apply_to(session);
        stored.into_event(&key)
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        if event.is_partial() {
            return Ok(event);
        }
        let (key, incarnation) = session.update(|session| (session.key(), session.incarnation));
        let stored = self.append_events(&key, incarnation, event.into()).await?;
        session.update(|session| stored.apply_to(session));
        stored.into_event(&key)
    }

    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<JsonMap> {
        self.settings.limits.check_id("app name", app_name)?;
        self.settings.limits.check_id("user id", user_id)?;
        self.store.shared_state(app_name, Some(user_id)).await
    }

    async fn get_app_state(&self, app_name: &str) -> Result<JsonMap> {
        self.settings.limits.check_id("app name", app_name)?;
        self.store.shared_state(app_name, None).await
    }

    async fn flush(&self) -> Result<()> {
        self.store.flush().await
    }

    fn limits(&self) -> Option<&Limits> {
        Some(&self.settings.limits)
    }

    fn log(self: Arc<Self>) -> Option<Arc<dyn SessionLog>> {
        Some(self)
    }
}

#[async_trait]
impl<S: SessionStore> SessionLog for StoreSessionService<S> {
    async fn create(&self, new: CreateSession) -> Result<Session> {
        self.create_new(new).await
    }

    async fn create_with_events(&self, new: CreateSession, events: Vec<Event>) -> Result<Session> {
        self.create_with_history(new, events).await
    }

    async fn read(&self, key: &SessionKey, window: Window) -> Result<Option<Session>> {
        self.settings.limits.check_key(key)?;
        self.read_session(key, window).await
    }

    async fn refresh(&self, session: &mut Session) -> Result<()> {
        self.refresh_session(session).await
    }

    async fn list(&self, query: ListSessions) -> Result<ListSessionsResponse> {
        self.list_page(query).await
    }

    async fn list_encoded(&self, app_name: &str, user_id: &str) -> Result<EncodedSessions> {
        self.check_owner(app_name, Some(user_id))?;
        let query = ListQuery::new(app_name, ListFields::EncodedState).with_user(user_id);
        EncodedSessions::of_user(user_id, self.store.list(&query).await?)
    }

    async fn append(&self, key: &SessionKey, append: Append) -> Result<AppendReceipt> {
        Ok(self.append_events(key, 0, append).await?.into())
    }

    async fn append_live(&self, session: &SharedSession, append: Append) -> Result<AppendReceipt> {
        let (key, incarnation) = session.update(|session| (session.key(), session.incarnation));
        let stored = self.append_events(&key, incarnation, append).await?;
        session.update(|session| stored.apply_to(session));
        Ok(stored.into())
    }

    async fn renew_run(&self, key: &SessionKey, run: RunToken) -> Result<()> {
        self.settings.limits.check_key(key)?;
        let ttl = Some(self.settings.run_ttl);
        self.renew(key, run, ttl).await
    }

    fn run_ttl(&self) -> Duration {
        self.settings.run_ttl
    }

    async fn end_run(&self, key: &SessionKey, run: RunToken) -> Result<()> {
        self.settings.limits.check_key(key)?;
        self.renew(key, run, None).await
    }

    async fn state_at(&self, key: &SessionKey, position: u64) -> Result<State> {
        self.settings.limits.check_key(key)?;
        read_state_at(&*self.store, key, position)
            .await
            .map(merge_state)
    }

    async fn rewind_with(&self, key: &SessionKey, rewind: Rewind) -> Result<AppendReceipt> {
        self.settings.limits.check_key(key)?;
        self.rewind_before(key, rewind).await
    }

    async fn fork(
        &self,
        key: &SessionKey,
        position: Option<u64>,
        session_id: Option<&str>,
    ) -> Result<Session> {
        self.settings.limits.check_key(key)?;
        let given = session_id.filter(|id| !id.trim().is_empty());
        let id = given.map_or_else(|| self.settings.ids.new_id(), str::to_owned);
        self.settings.limits.check_id("session id", &id)?;
        let position = match position {
            Some(position) => position,
            None => {
                let head = self
                    .store
                    .read(key, Window::NONE, ReadDetail::EventsOnly)
                    .await?;
                head.ok_or_else(|| SessionError::not_found(key))?
                    .head
                    .position
            }
        };
        let bytes = match self.limits_event_bytes() {
            true => self.store.log_bytes(key, position).await?,
            false => 0,
        };
        let copied = Usage::default().with_sessions(1).with_events(position);
        let room = self.reserve_all(key, copied.with_event_bytes(bytes));
        let room = room.await?;
        let now = self.settings.clock.now();
        let head = self.store.fork(key, position, &id, now).await?;
        room.settle();
        // The fork is stored: its answer must not be refused for lack of memory.
        if let Some(meter) = Meter::current() {
            meter.admit();
        }
        let fork = self.read_session(&head.key, Window::ALL).await?;
        fork.ok_or_else(|| SessionError::not_found(&head.key))
    }

    fn tail(&self, key: &SessionKey, position: u64) -> EventStream {
        match self.settings.limits.check_key(key) {
            Ok(()) => tail::tail(Arc::clone(&self.store), key.clone(), position),
            Err(error) => Box::pin(stream::iter([Err(error)])),
        }
    }

    fn export(&self, scope: ExportScope) -> LineStream {
        transfer::export(self.clone(), scope)
    }

    async fn import(&self, lines: LineStream) -> Result<ImportReceipt> {
        transfer::import(self, lines).await
    }

    async fn usage(&self, app_name: &str, user_id: Option<&str>) -> Result<Usage> {
        self.check_owner(app_name, user_id)?;
        self.store.usage(app_name, user_id).await
    }

    async fn session_exists(&self, key: &SessionKey, incarnation: u64) -> Result<bool> {
        let (window, detail) = (Window::NONE, ReadDetail::EventsOnly);
        let read = self.store.read(key, window, detail).await?;
        Ok(read.is_some_and(|read| read.head.incarnation == incarnation))
    }

    fn store_label(&self) -> StoreLabel {
        self.store.label()
    }

    async fn erase_user(&self, app_name: &str, user_id: &str) -> Result<EraseReceipt> {
        self.settings.limits.check_id("app name", app_name)?;
        self.settings.limits.check_id("user id", user_id)?;
        let erased = self.store.erase_user(app_name, user_id).await;
        self.record_deletion(app_name, user_id);
        erased
    }

    async fn sweep_with(&self, sweep: Sweep) -> Result<SweepReceipt> {
        self.sweep_expired(sweep).await
    }

    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        self.store.maintenance()
    }

    async fn check(&self) -> Result<Vec<Problem>> {
        self.store.transfer()?.check().await
    }

    async fn ready(&self) -> Result<()> {
        self.store.ready().await
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.store.free_space()
    }

    fn appended_events(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }
}
