//! Sessions in memory: the plain model of the contract. Fast, strict, gone with the process.

mod own_state;

use std::{
    collections::{BTreeMap, HashMap},
    ops::{Bound, Range},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use retain_core::{
    Batch, ChangeHub, Changes, Clock, DraftId, EraseReceipt, Event, Head, Json, JsonMap, Lease,
    LeaseUse, Limited, ListQuery, ListText, Listed, Listing, LogHeader, NewEvent, NewSession,
    Origin, Plan, Result, ScopedState, SessionError, SessionKey, SessionMeta, SessionStore,
    Snapshot, Standing, State, StateOwner, StoreSessionService, SystemClock, Want, Window, Written,
    check_growth, check_limit, plan_append, plan_renewal, seconds,
};

use self::own_state::OwnState;
use crate::window::{self, DRAFT_TTL_US, POLL, TICKET_TTL_US};

/// Sessions that live as long as the process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> retain_core::Result<()> {
/// use retain_core::{Event, SessionService as _};
/// let sessions = retain_stores::InMemorySessionService::new();
/// let mut session = sessions.create_session("app", "ada", None, None).await?;
/// sessions.append_event(&mut session, Event::user_text("hello")).await?;
/// assert_eq!(session.events.len(), 1);
/// # Ok(()) }
/// ```
pub type InMemorySessionService = StoreSessionService<InMemoryStore>;

/// The store behind [`InMemorySessionService`].
#[derive(Debug)]
pub struct InMemoryStore {
    world: Mutex<World>,
    hub: ChangeHub,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct World {
    logs: BTreeMap<SessionKey, Log>,
    apps: HashMap<String, JsonMap>,
    users: HashMap<(String, String), JsonMap>,
    drafts: HashMap<u64, Draft>,
    /// Numbers that are never given twice: incarnations and drafts.
    last_number: u64,
}

/// A log that is no session yet.
#[derive(Debug)]
struct Draft {
    key: SessionKey,
    log: Log,
    /// Given up unless there is a sign of life before.
    until_us: i64,
}

/// One session's log and the views of it.
#[derive(Debug, Clone, Default)]
struct Log {
    incarnation: u64,
    initial: JsonMap,
    events: Vec<Arc<Event>>,
    ids: HashMap<String, u64>,
    state: OwnState,
    /// What keys and values take as they are now.
    state_bytes: usize,
    create_time: f64,
    last_update_time: f64,
    ttl: Option<Duration>,
    touched_us: i64,
    origin: Option<Origin>,
    lease: Lease,
    /// Who waits for the lease, and until when that counts.
    tickets: Vec<(String, i64)>,
}

impl Default for InMemoryStore {
    fn default() -> InMemoryStore {
        InMemoryStore::with_clock(Arc::new(SystemClock))
    }
}

impl InMemoryStore {
    /// An empty store whose leases and expiries follow `clock`.
    pub fn with_clock(clock: Arc<dyn Clock>) -> InMemoryStore {
        InMemoryStore {
            world: Mutex::default(),
            hub: ChangeHub::default(),
            clock,
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // Every change below is made after everything that can fail, so a panic leaves it whole.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn log(&self, key: &SessionKey, now_us: i64) -> Option<&Log> {
        self.logs.get(key).filter(|log| log.is_alive(now_us))
    }

    fn log_mut(&mut self, key: &SessionKey, now_us: i64) -> Result<&mut Log> {
        let log = self.logs.get_mut(key).filter(|log| log.is_alive(now_us));
        log.ok_or_else(|| SessionError::NotFound { key: key.clone() })
    }

    /// Fails if a session with this address is there; forgets an expired one.
    fn make_room(&mut self, key: &SessionKey, now_us: i64) -> Result<()> {
        match self.logs.get(key) {
            None => {}
            Some(log) if log.is_alive(now_us) => {
                return Err(SessionError::AlreadyExists { key: key.clone() });
            }
            Some(_) => drop(self.logs.remove(key)),
        }
        Ok(())
    }

    /// The sessions that a list asks for, in its order.
    fn page(&self, query: &ListQuery, now_us: i64) -> Vec<(&SessionKey, &Log)> {
        let in_range = self.logs.range(addresses(query));
        let alive = in_range.filter(|(_, log)| log.is_alive(now_us));
        // Times lie beside what is sorted, for to look one up costs more than to compare two.
        let found = alive.map(|(key, log)| (log.last_update_time, key, log));
        let mut found: Vec<_> = found.collect();
        window::sort_and_page(
            &mut found,
            query,
            |(time, ..)| *time,
            |(_, key, _)| (&key.user, &key.id),
        );
        found.into_iter().map(|(_, key, log)| (key, log)).collect()
    }

    fn app(&self, app: &str) -> JsonMap {
        self.apps.get(app).cloned().unwrap_or_default()
    }

    fn user(&self, app: &str, user: &str) -> JsonMap {
        let key = (app.to_owned(), user.to_owned());
        self.users.get(&key).cloned().unwrap_or_default()
    }

    /// What the shared scopes hold after `changes`, if that is within the limit.
    fn shared_after<'a>(
        &self,
        key: &SessionKey,
        changes: impl Iterator<Item = &'a Changes>,
        bytes_max: usize,
    ) -> Result<(Option<JsonMap>, Option<JsonMap>)> {
        let (mut app, mut user) = (None, None);
        for change in changes {
            if !change.app.is_empty() {
                set_all(app.get_or_insert_with(|| self.app(&key.app)), &change.app);
            }
            if !change.user.is_empty() {
                set_all(
                    user.get_or_insert_with(|| self.user(&key.app, &key.user)),
                    &change.user,
                );
            }
        }
        let owner = (key.app.clone(), key.user.clone());
        let scopes = [
            (Limited::AppState, self.apps.get(&key.app), &app),
            (Limited::UserState, self.users.get(&owner), &user),
        ];
        for (what, before, after) in scopes {
            if let Some(after) = after {
                let before = before.map_or(0, map_bytes);
                check_growth(what, before, map_bytes(after), bytes_max)?;
            }
        }
        Ok((app, user))
    }

    fn set_shared(&mut self, key: &SessionKey, (app, user): (Option<JsonMap>, Option<JsonMap>)) {
        if let Some(app) = app {
            self.apps.insert(key.app.clone(), app);
        }
        if let Some(user) = user {
            self.users.insert((key.app.clone(), key.user.clone()), user);
        }
    }

    /// Sets the shared keys that the app or the user does not have yet.
    fn add_shared(&mut self, app: &str, user: &str, shared: &ScopedState) {
        let of_app = self.apps.entry(app.to_owned()).or_default();
        window::set_absent(of_app, &shared.app);
        let owner = (app.to_owned(), user.to_owned());
        window::set_absent(self.users.entry(owner).or_default(), &shared.user);
    }

    fn state(&self, key: &SessionKey, log: &Log) -> ScopedState {
        ScopedState {
            session: log.state.at(u64::MAX),
            ..self.shared(key)
        }
    }

    /// What the session shares with others.
    fn shared(&self, key: &SessionKey) -> ScopedState {
        ScopedState {
            app: self.app(&key.app),
            user: self.user(&key.app, &key.user),
            session: JsonMap::new(),
        }
    }
}

/// Where the sessions lie that are asked for. No text is between one and the same with a NUL behind,
/// so no address needs to be looked at to see whether it still belongs there.
fn addresses(query: &ListQuery) -> Range<SessionKey> {
    let behind = |text: &str| format!("{text}\0");
    match &query.user {
        Some(user) => {
            let first = SessionKey::new(&query.app, user, "");
            first..SessionKey::new(&query.app, behind(user), "")
        }
        None => {
            let first = SessionKey::new(&query.app, "", "");
            first..SessionKey::new(behind(&query.app), "", "")
        }
    }
}

fn set_all(map: &mut JsonMap, changes: &JsonMap) {
    for (key, value) in changes {
        map.insert(key, value.clone());
    }
}

fn map_bytes(map: &JsonMap) -> usize {
    map.iter().map(|(key, value)| entry_bytes(key, value)).sum()
}

fn entry_bytes(key: &str, value: &Json) -> usize {
    key.len() + value.to_string().len()
}

impl Log {
    fn position(&self) -> u64 {
        self.events.len() as u64
    }

    fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us().is_none_or(|expires| now_us < expires)
    }

    fn expires_us(&self) -> Option<i64> {
        self.ttl.map(|ttl| window::expiry(self.touched_us, ttl))
    }

    fn head(&self, key: &SessionKey) -> Head {
        Head {
            key: key.clone(),
            incarnation: self.incarnation,
            position: self.position(),
            create_time: self.create_time,
            last_update_time: self.last_update_time,
            ttl: self.ttl,
            expires_us: self.expires_us(),
            origin: self.origin.clone(),
        }
    }

    fn meta(&self, app: &str, user: &str, id: &str, state: Option<State>) -> SessionMeta {
        SessionMeta {
            id: id.to_owned(),
            app_name: app.to_owned(),
            user_id: user.to_owned(),
            last_update_time: self.last_update_time,
            create_time: self.create_time,
            position: self.position(),
            state,
            origin: self.origin.clone(),
            expire_time: self.expires_us().map(seconds),
        }
    }

    fn set(&mut self, position: u64, changes: &[(String, Option<Json>)]) {
        if changes.is_empty() {
            return;
        }
        let state = self.state.values_mut();
        for (key, value) in changes {
            let values = state.entry(key.clone()).or_default();
            values.push((position, value.clone()));
        }
    }

    fn push(&mut self, new: &NewEvent) {
        self.events.push(Arc::clone(&new.event));
        let position = self.position();
        self.ids.insert(new.event.id.clone(), position);
        self.set(position, &new.changes.session);
        self.last_update_time = new.event.timestamp;
    }

    fn count_state_bytes(&self) -> usize {
        map_bytes(&self.state.at(u64::MAX))
    }

    /// How many bytes the session's own keys take after `changes`. Costs what changes.
    fn state_bytes_after<'a>(&self, changes: impl Iterator<Item = &'a Changes>) -> usize {
        let all = changes.flat_map(|change| &change.session);
        let last: HashMap<&String, &Option<Json>> = all.map(|(key, value)| (key, value)).collect();
        let taken =
            |key: &str, value: Option<&Json>| value.map_or(0, |value| entry_bytes(key, value));
        last.iter().fold(self.state_bytes, |bytes, (key, value)| {
            bytes + taken(key, value.as_ref()) - taken(key, self.state.get(key))
        })
    }

    fn standing<'a>(&'a self, key: &'a SessionKey, now_us: i64) -> Standing<'a> {
        let first = self.tickets.iter().find(|(_, until)| *until > now_us);
        Standing {
            key,
            incarnation: self.incarnation,
            position: self.position(),
            lease: self.lease,
            first_ticket: first.map(|(ticket, _)| ticket.as_str()),
            now_us,
        }
    }

    /// Puts the caller into the queue, or keeps its place.
    fn queue(&mut self, ticket: &str, now_us: i64) {
        self.tickets
            .retain(|(known, until)| *until > now_us || known == ticket);
        let until = now_us + TICKET_TTL_US;
        match self.tickets.iter_mut().find(|(known, _)| known == ticket) {
            Some(place) => place.1 = until,
            None => self.tickets.push((ticket.to_owned(), until)),
        }
    }

    fn read(&self, window: Window) -> Vec<(u64, Arc<Event>)> {
        let last = window.last.min(self.position());
        let in_range = (window.first.max(1)..=last).map(|p| (p, &self.events[p as usize - 1]));
        let since = window.after_timestamp.unwrap_or(f64::NEG_INFINITY);
        let in_time = in_range.filter(|(_, event)| event.timestamp >= since);
        let all = in_time.map(|(position, event)| (position, Arc::clone(event)));
        // Only a time makes positions unpredictable; without one the ends are counted off.
        if window.after_timestamp.is_none() {
            let len = (last + 1).saturating_sub(window.first.max(1)) as usize;
            let skip = window.newest.map_or(0, |newest| len.saturating_sub(newest));
            let take = window.oldest.unwrap_or(usize::MAX);
            return all.skip(skip).take(take).collect();
        }
        let mut events: Vec<_> = all.collect();
        window::cut(&mut events, window);
        events
    }
}

#[async_trait]
impl SessionStore for InMemoryStore {
    fn name(&self) -> &'static str {
        "in-memory"
    }

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        world.make_room(&new.key, now_us)?;
        let changes = || std::iter::once(&new.changes);
        let shared = world.shared_after(&new.key, changes(), new.state_bytes_max)?;
        let incarnation = world.number();
        let mut log = Log {
            incarnation,
            lease: Lease::of_new_session(incarnation),
            initial: new.initial,
            create_time: new.create_time,
            last_update_time: new.create_time,
            ttl: new.ttl,
            touched_us: now_us,
            ..Log::default()
        };
        let bytes = log.state_bytes_after(changes());
        check_limit(Limited::SessionState, bytes, new.state_bytes_max)?;
        log.state_bytes = bytes;
        log.set(0, &new.changes.session);
        world.set_shared(&new.key, shared);
        let created = Snapshot {
            head: log.head(&new.key),
            state: world.state(&new.key, &log),
            events: Vec::new(),
        };
        world.logs.insert(new.key, log);
        Ok(created)
    }

    async fn read(&self, key: &SessionKey, window: Window, want: Want) -> Result<Option<Snapshot>> {
        let now_us = self.clock.now_us();
        let world = self.world();
        Ok(world.log(key, now_us).map(|log| Snapshot {
            head: log.head(key),
            state: match want {
                Want::State => world.state(key, log),
                Want::EventsOnly => ScopedState::default(),
            },
            events: log.read(window),
        }))
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        let now_us = self.clock.now_us();
        let world = self.world();
        let found = world.page(query, now_us);
        let metas = found.iter().map(|(key, log)| {
            let user = query.user.as_ref().unwrap_or(&key.user);
            let state = query.with_state.then(|| log.state.at(u64::MAX).into());
            log.meta(&query.app, user, &key.id, state)
        });
        let mut listing = Listing {
            sessions: metas.collect(),
            ..Listing::default()
        };
        if query.with_state {
            listing.app = world.app(&query.app);
            let users = window::users(query, found.iter().map(|(key, _)| &*key.user));
            let keys = |user: &str| (user.to_owned(), world.user(&query.app, user));
            listing.users = users.into_iter().map(keys).collect();
        }
        Ok(listing)
    }

    async fn list_text(&self, query: &ListQuery, mut text: ListText) -> Result<ListText> {
        let now_us = self.clock.now_us();
        let world = self.world();
        let found = world.page(query, now_us);
        let app = world.app(&query.app);
        for user in window::users(query, found.iter().map(|(key, _)| &*key.user)) {
            text.share(user, &app, &world.user(&query.app, user))?;
        }
        text.reserve(found.len());
        for (key, log) in found {
            let own_keys = log.state.listed();
            let own_keys = own_keys.map_err(|(k, e)| SessionError::corrupt_state(key, &k, e))?;
            text.add(Listed {
                id: &key.id,
                user: query.user.as_ref().unwrap_or(&key.user),
                own_keys: &own_keys,
                last_update_time: log.last_update_time,
            })?;
        }
        Ok(text)
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let now_us = self.clock.now_us();
        let deleted = self.world().logs.remove(key);
        self.hub.ring(key);
        Ok(deleted.is_some_and(|log| log.is_alive(now_us)))
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<Written> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let log = world.log_mut(key, now_us)?;
        let plan = plan_append(log.standing(key, now_us), batch, |id| {
            let position = log.ids.get(id).copied();
            Ok(position.map(|position| (position, Arc::clone(&log.events[position as usize - 1]))))
        })?;
        let (events, fresh, lease, token) = match plan {
            Plan::Write {
                events,
                fresh,
                lease,
                token,
            } => (events, fresh, lease, token),
            Plan::Busy { until_us } => {
                if let LeaseUse::Take { ticket, .. } = &batch.lease
                    && !ticket.is_empty()
                {
                    log.queue(ticket, now_us);
                }
                return Ok(Written::Busy { until_us, now_us });
            }
        };
        let changes = || fresh.iter().map(|&place| &batch.events[place].changes);
        let state_bytes = log.state_bytes_after(changes());
        let limit = batch.state_bytes_max;
        check_growth(Limited::SessionState, log.state_bytes, state_bytes, limit)?;
        let shared = world.shared_after(key, changes(), batch.state_bytes_max)?;
        world.set_shared(key, shared);
        let log = world.log_mut(key, now_us)?;
        fresh
            .iter()
            .for_each(|&place| log.push(&batch.events[place]));
        log.state_bytes = state_bytes;
        log.lease = lease;
        // A session lives on by what is written to it.
        if !fresh.is_empty() {
            log.touched_us = now_us;
        }
        if let LeaseUse::Take { ticket, .. } = &batch.lease {
            log.tickets.retain(|(known, _)| known != ticket);
        }
        drop(world);
        self.hub.ring(key);
        Ok(Written::Done { events, token })
    }

    async fn renew(&self, key: &SessionKey, token: u64, ttl: Option<Duration>) -> Result<()> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let log = world.log_mut(key, now_us)?;
        let wanted = LeaseUse::Hold { token, ttl };
        log.lease = plan_renewal(log.standing(key, now_us), &wanted)?;
        drop(world);
        self.hub.ring(key);
        Ok(())
    }

    async fn withdraw(&self, key: &SessionKey, ticket: &str) -> Result<()> {
        if let Some(log) = self.world().logs.get_mut(key) {
            log.tickets.retain(|(known, _)| known != ticket);
        }
        self.hub.ring(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        let world = self.world();
        Ok(match user {
            Some(user) => world.user(app, user),
            None => world.app(app),
        })
    }

    async fn state_at(&self, key: &SessionKey, position: u64) -> Result<JsonMap> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let log = world.log_mut(key, now_us)?;
        window::check_position(key, position, log.position())?;
        Ok(log.state.at(position))
    }

    async fn positions_of(&self, key: &SessionKey, ids: &[String]) -> Result<Vec<Option<u64>>> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let log = world.log_mut(key, now_us)?;
        Ok(ids.iter().map(|id| log.ids.get(id).copied()).collect())
    }

    async fn first_of_invocation(&self, key: &SessionKey, invocation: &str) -> Result<Option<u64>> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let log = world.log_mut(key, now_us)?;
        let place = log
            .events
            .iter()
            .position(|event| event.invocation_id == invocation);
        Ok(place.map(|place| place as u64 + 1))
    }

    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let log = world.log_mut(origin, now_us)?;
        window::check_position(origin, position, log.position())?;
        let mut fork = Log {
            tickets: Vec::new(),
            create_time,
            last_update_time: create_time,
            touched_us: now_us,
            origin: Some(Origin {
                session_id: origin.id.clone(),
                position,
            }),
            ..log.clone()
        };
        fork.events.truncate(position as usize);
        fork.ids.retain(|_, at| *at <= position);
        for values in fork.state.values_mut().values_mut() {
            values.retain(|(at, _)| *at <= position);
        }
        fork.state_bytes = fork.count_state_bytes();
        let key = SessionKey::new(&origin.app, &origin.user, id);
        world.make_room(&key, now_us)?;
        fork.incarnation = world.number();
        fork.lease = Lease::of_new_session(fork.incarnation);
        let head = fork.head(&key);
        world.logs.insert(key, fork);
        Ok(head)
    }

    async fn sweep(&self, limit: usize) -> Result<u64> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let expired = world.logs.iter().filter(|(_, log)| !log.is_alive(now_us));
        let keys: Vec<SessionKey> = expired.take(limit).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            world.logs.remove(key);
        }
        drop(world);
        keys.iter().for_each(|key| self.hub.ring(key));
        Ok(keys.len() as u64)
    }

    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let mut world = self.world();
        let is_theirs = |key: &SessionKey| key.app == app && key.user == user;
        let keys: Vec<SessionKey> = world
            .logs
            .keys()
            .filter(|key| is_theirs(key))
            .cloned()
            .collect();
        world.drafts.retain(|_, draft| !is_theirs(&draft.key));
        let mut receipt = EraseReceipt::default();
        for key in &keys {
            if let Some(log) = world.logs.remove(key) {
                receipt.sessions += 1;
                receipt.events += log.position();
                receipt.state_keys += log.state.at(u64::MAX).len() as u64;
            }
        }
        let user_keys = world.users.remove(&(app.to_owned(), user.to_owned()));
        receipt.state_keys += user_keys.map_or(0, |map| map.len() as u64);
        drop(world);
        keys.iter().for_each(|key| self.hub.ring(key));
        Ok(receipt)
    }

    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        let now_us = self.clock.now_us();
        let world = self.world();
        Ok(world.log(key, now_us).map(|log| LogHeader {
            head: log.head(key),
            initial: log.initial.clone(),
        }))
    }

    async fn begin_draft(&self, key: &SessionKey) -> Result<DraftId> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        world.drafts.retain(|_, draft| draft.until_us > now_us);
        let number = world.number();
        let draft = Draft {
            key: key.clone(),
            log: Log::default(),
            until_us: now_us + DRAFT_TTL_US,
        };
        world.drafts.insert(number, draft);
        Ok(DraftId(number))
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let draft = world
            .drafts
            .get_mut(&draft.0)
            .ok_or_else(window::draft_gone)?;
        events.iter().for_each(|(_, new)| draft.log.push(new));
        draft.until_us = now_us + DRAFT_TTL_US;
        Ok(())
    }

    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head> {
        let now_us = self.clock.now_us();
        let mut world = self.world();
        let draft = world.drafts.remove(&draft.0);
        let mut log = draft.ok_or_else(window::draft_gone)?.log;
        let key = &header.head.key;
        world.make_room(key, now_us)?;
        let state = log.state.values_mut();
        for (name, value) in &window::session_keys(&header.initial) {
            let values = state.entry(name.to_owned()).or_default();
            values.insert(0, (0, Some(value.clone())));
        }
        log.state_bytes = log.count_state_bytes();
        log.incarnation = world.number();
        log.lease = Lease::of_new_session(log.incarnation);
        log.initial = header.initial.clone();
        log.create_time = header.head.create_time;
        log.last_update_time = header.head.last_update_time;
        log.ttl = header.head.ttl;
        log.origin = header.head.origin.clone();
        log.touched_us = window::touched_us(&header.head, now_us);
        if !log.is_alive(now_us) {
            return Err(SessionError::NotFound { key: key.clone() });
        }
        world.add_shared(&key.app, &key.user, shared);
        let head = log.head(key);
        world.logs.insert(key.clone(), log);
        Ok(head)
    }

    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        let now_us = self.clock.now_us();
        let world = self.world();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = world.logs.range((from, Bound::Unbounded));
        let alive = behind.filter(|(_, log)| log.is_alive(now_us));
        Ok(alive.map(|(key, _)| key.clone()).take(limit).collect())
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        let world = self.world();
        let apps = world.apps.iter().filter(|(_, keys)| !keys.is_empty());
        let users = world.users.iter().filter(|(_, keys)| !keys.is_empty());
        let apps = apps.map(|(app, _)| StateOwner::app(app));
        let users = users.map(|((app, user), _)| StateOwner::user(app, user));
        let behind = |owner: &StateOwner| after.is_none_or(|after| owner > after);
        let mut owners: Vec<StateOwner> = apps.chain(users).filter(behind).collect();
        owners.sort_unstable();
        owners.truncate(limit);
        Ok(owners)
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        self.world().add_shared(app, user, shared);
        Ok(())
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        let ring = self.hub.listen(key);
        let now_us = self.clock.now_us();
        let here = self.world().log(key, now_us).map(Log::position);
        if here.is_none_or(|here| here > position) {
            return;
        }
        // That a session expires rings no bell.
        let _ = tokio::time::timeout(POLL, ring).await;
    }

    async fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }
}
