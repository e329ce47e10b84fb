//! `JournalStore` and the methods of `SessionStore`.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use retain::{
    BoxError, Event, Result, SessionError,
    session::{EraseReceipt, LimitKind, Origin, SessionKey, Window},
    state::JsonMap,
    store::{
        AppendOutcome, Batch, ChangeHub, Changes, Clock, EventLookup, Head, LeaseUpdate, LeaseUse,
        ListQuery, Listing, MaintenanceStore, NewEvent, NewSession, Plan, ReadDetail, ScopedState,
        SessionStore, Snapshot, StateOwner, SystemClock, TransferStore, check_growth, check_limit,
        plan_append, plan_renewal,
        rules::{check_position, listed_users, sort_and_page, trim_to_bytes, trim_to_window},
    },
};

use crate::{
    change::Change,
    journal::{FileLock, Journal, sibling_path},
    tables::{Entry, SessionLog, Tables, set_keys},
    transfer::Drafts,
};

/// The name of the store in errors.
const NAME: &str = "journal";

/// Interval at which a waiter checks for changes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Sessions in memory, with every change in a journal file. Several processes may open one file.
///
/// The methods block their thread while they write a line. A store on a slower medium should use an
/// async driver or `tokio::task::spawn_blocking`.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> retain::Result<()> {
/// use external_store::JournalStore;
/// use retain::{SessionService as _, store::StoreSessionService};
/// let sessions = StoreSessionService::over(JournalStore::open("sessions.jsonl")?);
/// sessions.create_session("travel", "ada", None, None).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct JournalStore {
    pub(crate) path: PathBuf,
    /// Locked during each transaction. The journal itself cannot be locked, because a rewrite
    /// replaces it.
    lock_file: File,
    journal: Mutex<Journal>,
    pub(crate) drafts: Mutex<Drafts>,
    /// Wakes waiters of this process.
    pub(crate) hub: ChangeHub,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The journal, locked and up to date.
pub(crate) struct Transaction<'a> {
    pub(crate) journal: &'a mut Journal,
    operation: &'static str,
    pub(crate) now_us: i64,
}

impl Transaction<'_> {
    pub(crate) fn tables(&self) -> &Tables {
        self.journal.tables()
    }

    /// Writes all changes or none.
    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> Result<()> {
        let committed = self.journal.commit(changes);
        committed.map_err(|source| failure(self.operation, source))
    }
}

/// Converts an error of the journal. A full disk gets its own error, because callers can act on it.
pub(crate) fn failure(operation: &'static str, source: BoxError) -> SessionError {
    let cause = source.downcast_ref::<io::Error>().map(io::Error::kind);
    match cause {
        Some(io::ErrorKind::StorageFull) => SessionError::Full {
            store: NAME,
            operation,
            source,
        },
        _ => SessionError::Store {
            store: NAME,
            operation,
            source,
        },
    }
}

impl JournalStore {
    /// Opens a journal, or creates it.
    pub fn open(path: impl AsRef<Path>) -> Result<JournalStore> {
        let open = || {
            let path = std::path::absolute(path.as_ref())?;
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            let store = JournalStore {
                lock_file: options.open(sibling_path(&path, ".lock"))?,
                journal: Mutex::new(Journal::open(&path)?),
                path,
                drafts: Mutex::default(),
                hub: ChangeHub::default(),
                clock: Arc::new(SystemClock),
            };
            // Read the journal now, so that opening a corrupt one fails and not the first request.
            store.transact("read the journal", |_| Ok(()))?;
            Ok(store)
        };
        open().map_err(|source: BoxError| SessionError::Open {
            uri: path.as_ref().display().to_string(),
            reason: "the journal cannot be opened".to_owned(),
            source: Some(source),
        })
    }

    /// Takes the time for leases and expiry from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> JournalStore {
        self.clock = clock;
        self
    }

    /// Rewrites the journal without deleted sessions and old leases.
    pub fn compact(&self) -> Result<()> {
        let operation = "compact the journal";
        self.transact(operation, |transaction| {
            let rewritten = transaction.journal.rewrite_with(|_| ());
            rewritten.map_err(|source| failure(operation, source))
        })
    }

    /// Runs `work` on the newest data, while no other thread or process runs a transaction. `work`
    /// decides first and commits last, so an error changes nothing.
    pub(crate) fn transact<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut journal = self.journal.lock().unwrap_or_else(|poisoned| {
            // A thread panicked in a transaction, so rebuild the data from the file.
            self.journal.clear_poison();
            let mut journal = poisoned.into_inner();
            journal.invalidate();
            journal
        });
        let lock = FileLock::acquire(&self.lock_file);
        let _lock = lock.map_err(|source| failure(operation, source.into()))?;
        let refreshed = journal.refresh();
        refreshed.map_err(|source| failure(operation, source))?;
        work(&mut Transaction {
            journal: &mut journal,
            operation,
            now_us: self.clock.now_us(),
        })
    }
}

#[async_trait]
impl SessionStore for JournalStore {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn create(&self, new: NewSession) -> Result<Snapshot> {
        self.transact("create a session", |transaction| {
            let (tables, now_us) = (transaction.tables(), transaction.now_us);
            tables.check_free(&new.key, now_us)?;
            let mut log = SessionLog::new(tables.last_incarnation + 1, new.initial);
            log.create_time = new.create_time;
            log.last_update_time = new.create_time;
            log.ttl = new.ttl;
            log.touched_us = now_us;
            let limit = new.state_bytes_max;
            check_limit(LimitKind::SessionState, state_bytes(&log.state), limit)?;
            let mut changes = plan_shared(tables, &new.key, &[&new.changes], limit)?;
            changes.push(Change::Put {
                key: new.key.clone(),
                log: Box::new(log),
            });
            transaction.commit(changes)?;
            let log = transaction.tables().get(&new.key, now_us)?;
            Ok(Snapshot {
                head: log.head(&new.key),
                state: transaction.tables().state(&new.key, log),
                events: Vec::new(),
            })
        })
    }

    async fn read(
        &self,
        key: &SessionKey,
        window: Window,
        scope: ReadDetail,
    ) -> Result<Option<Snapshot>> {
        self.transact("read a session", |transaction| {
            let tables = transaction.tables();
            let log = tables.find(key, transaction.now_us);
            Ok(log.map(|log| Snapshot {
                head: log.head(key),
                state: match scope {
                    ReadDetail::State => tables.state(key, log),
                    ReadDetail::StateAt(position) => ScopedState {
                        session: log.state_at(position),
                        ..tables.state(key, log)
                    },
                    ReadDetail::EventsOnly => ScopedState::default(),
                },
                events: select_events(log, window),
            }))
        })
    }

    async fn list(&self, query: &ListQuery) -> Result<Listing> {
        self.transact("list sessions", |transaction| {
            let tables = transaction.tables();
            let mut found: Vec<(&SessionKey, &SessionLog)> = tables
                .sessions
                .iter()
                .filter(|(key, log)| {
                    let is_of_user = query.user.as_ref().is_none_or(|user| key.user == *user);
                    key.app == query.app && is_of_user && log.is_alive(transaction.now_us)
                })
                .collect();
            let time = |(_, log): &(&SessionKey, &SessionLog)| log.last_update_time;
            sort_and_page(&mut found, query, time, |(key, _)| (&key.user, &key.id));
            let metas = found
                .iter()
                .map(|(key, log)| log.meta(key, query.fields.have_state()));
            let mut listing = Listing {
                sessions: metas.collect(),
                ..Listing::default()
            };
            // Each listed state has only the session's own keys; shared keys are listed once.
            if query.fields.have_state() {
                listing.app = tables.shared(&StateOwner::app(&query.app));
                let users = listed_users(query, found.iter().map(|(key, _)| &*key.user));
                let shared = |user| tables.shared(&StateOwner::user(&query.app, user));
                let users = users
                    .into_iter()
                    .map(|user| (user.to_owned(), shared(user)));
                listing.users = users.collect();
            }
            Ok(listing)
        })
    }

    async fn delete(&self, key: &SessionKey) -> Result<bool> {
        let deleted = self.transact("delete a session", |transaction| {
            let tables = transaction.tables();
            let is_alive = tables.find(key, transaction.now_us).is_some();
            if tables.sessions.contains_key(key) {
                transaction.commit(vec![Change::Delete { key: key.clone() }])?;
            }
            Ok(is_alive)
        })?;
        self.hub.notify(key);
        Ok(deleted)
    }

    async fn append(&self, key: &SessionKey, batch: &Arc<Batch>) -> Result<AppendOutcome> {
        let written = self.transact("append events", |transaction| {
            let (tables, now_us) = (transaction.tables(), transaction.now_us);
            let log = tables.get(key, now_us)?;
            let ticket = match &batch.lease {
                LeaseUse::Take { ticket, .. } if !ticket.is_empty() => Some(ticket.clone()),
                _ => None,
            };
            // `plan_append` skips events that are already stored, checks the expected position, and
            // determines whether the append gets the lease.
            let plan = plan_append(log.status(key, now_us), batch, |id| {
                let position = log.positions.get(id);
                Ok(position.and_then(|position| log.event(*position)))
            })?;
            let (events, fresh, lease, token) = match plan {
                Plan::Write {
                    events,
                    fresh,
                    lease,
                    token,
                    ..
                } => (events, fresh, lease, token),
                Plan::Busy { until_us } => {
                    // Another run holds the lease: store nothing but the ticket.
                    let key = key.clone();
                    let queue = ticket.map(|ticket| Change::Queue {
                        key,
                        ticket,
                        now_us,
                    });
                    transaction.commit(queue.into_iter().collect())?;
                    return Ok(AppendOutcome::Busy { until_us, now_us });
                }
            };
            let new: Vec<&NewEvent> = fresh.iter().map(|&place| &batch.events[place]).collect();
            let deltas: Vec<&Changes> = new.iter().map(|new| &new.changes).collect();
            let mut state = log.state.clone();
            for delta in &deltas {
                set_keys(&mut state, &delta.session);
            }
            let (before, after) = (state_bytes(&log.state), state_bytes(&state));
            let limit = batch.state_bytes_max;
            check_growth(LimitKind::SessionState, before, after, limit)?;

            // All decisions are made. The changes below become one line.
            let mut changes = plan_shared(tables, key, &deltas, limit)?;
            if lease != log.lease {
                changes.push(Change::SetLease {
                    key: key.clone(),
                    lease,
                });
            }
            if let Some(ticket) = ticket {
                changes.push(Change::Withdraw {
                    key: key.clone(),
                    ticket,
                });
            }
            if !new.is_empty() {
                let (mut work, mut position) = log.pending;
                if !batch.pending_work.is_empty() {
                    work |= batch.pending_work;
                    position = log.position() + new.len() as u64;
                }
                changes.push(Change::Append {
                    key: key.clone(),
                    entries: new.into_iter().map(Entry::new).collect(),
                    now_us,
                });
                if (work, position) != log.pending {
                    changes.push(Change::SetPending {
                        key: key.clone(),
                        work,
                        position,
                    });
                }
            }
            transaction.commit(changes)?;
            Ok(AppendOutcome::Done { events, token })
        })?;
        // Wake tails, and runs that wait for the lease.
        if matches!(written, AppendOutcome::Done { .. }) {
            self.hub.notify(key);
        }
        Ok(written)
    }

    async fn update_lease(&self, key: &SessionKey, update: &LeaseUpdate) -> Result<()> {
        self.transact("update a lease", |transaction| {
            let (tables, now_us) = (transaction.tables(), transaction.now_us);
            let change = match update {
                LeaseUpdate::Renew { token, ttl } => {
                    let status = tables.get(key, now_us)?.status(key, now_us);
                    let (token, ttl) = (*token, *ttl);
                    let lease = plan_renewal(status, &LeaseUse::Hold { token, ttl })?;
                    Change::SetLease {
                        key: key.clone(),
                        lease,
                    }
                }
                LeaseUpdate::Withdraw { .. } if !tables.sessions.contains_key(key) => {
                    return Ok(());
                }
                LeaseUpdate::Withdraw { ticket } => Change::Withdraw {
                    key: key.clone(),
                    ticket: ticket.clone(),
                },
            };
            transaction.commit(vec![change])
        })?;
        self.hub.notify(key);
        Ok(())
    }

    async fn shared_state(&self, app: &str, user: Option<&str>) -> Result<JsonMap> {
        let owner = StateOwner {
            app: app.to_owned(),
            user: user.map(str::to_owned),
        };
        self.transact("read shared state", |transaction| {
            Ok(transaction.tables().shared(&owner))
        })
    }

    async fn find_events(
        &self,
        key: &SessionKey,
        lookup: &EventLookup,
    ) -> Result<Vec<Option<u64>>> {
        self.transact("look up events", |transaction| {
            let log = transaction.tables().get(key, transaction.now_us)?;
            Ok(match lookup {
                EventLookup::Ids(ids) => {
                    let position = |id| log.positions.get(id).copied();
                    ids.iter().map(position).collect()
                }
                EventLookup::Invocation(invocation) => {
                    let mut entries = log.entries.iter().zip(1..);
                    let first = entries.find(|(entry, _)| entry.event.invocation_id == *invocation);
                    vec![first.map(|(_, position)| position)]
                }
            })
        })
    }

    async fn fork(
        &self,
        origin: &SessionKey,
        position: u64,
        id: &str,
        create_time: f64,
    ) -> Result<Head> {
        let key = SessionKey::new(&origin.app, &origin.user, id);
        self.transact("fork a session", |transaction| {
            let (tables, now_us) = (transaction.tables(), transaction.now_us);
            let log = tables.get(origin, now_us)?;
            check_position(origin, position, log.position())?;
            tables.check_free(&key, now_us)?;
            let mut fork = SessionLog::new(tables.last_incarnation + 1, log.initial.clone());
            let past = log.entries.iter().take(position as usize);
            past.for_each(|entry| fork.push(entry.clone()));
            fork.create_time = create_time;
            fork.last_update_time = create_time;
            fork.ttl = log.ttl;
            fork.touched_us = now_us;
            fork.origin = Some(Origin {
                session_id: origin.id.clone(),
                position,
            });
            let head = fork.head(&key);
            transaction.commit(vec![Change::Put {
                key,
                log: Box::new(fork),
            }])?;
            Ok(head)
        })
    }

    /// Erases a user by rewriting the file without the user's data, because a deleted line would
    /// stay in the file. Does so even if the user has no session left.
    async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReceipt> {
        let operation = "erase a user";
        let (receipt, keys) = self.transact(operation, |transaction| {
            let rewritten = transaction.journal.rewrite_with(|tables| {
                let mut receipt = EraseReceipt::default();
                let mut keys = Vec::new();
                tables.sessions.retain(|key, log| {
                    let is_theirs = key.app == app && key.user == user;
                    if is_theirs {
                        receipt.sessions += 1;
                        receipt.events += log.position();
                        receipt.state_keys += log.state.len() as u64;
                        keys.push(key.clone());
                    }
                    !is_theirs
                });
                let shared = tables.shared.remove(&StateOwner::user(app, user));
                receipt.state_keys += shared.map_or(0, |keys| keys.len() as u64);
                (receipt, keys)
            });
            rewritten.map_err(|source| failure(operation, source))
        })?;
        keys.iter().for_each(|key| self.hub.notify(key));
        Ok(receipt)
    }

    async fn changed(&self, key: &SessionKey, position: u64) {
        // Listen before reading the position, so that no change in between is missed.
        let notification = self.hub.listen(key);
        let current = self.transact("look for changes", |transaction| {
            let log = transaction.tables().find(key, transaction.now_us);
            Ok(log.map(SessionLog::position))
        });
        if let Ok(Some(current)) = current
            && current <= position
        {
            // Other processes and expiry do not notify the hub, so the wait is bounded.
            let _ = tokio::time::timeout(POLL_INTERVAL, notification).await;
        }
    }

    async fn flush(&self) -> Result<()> {
        // Each commit has synced the file.
        Ok(())
    }

    fn transfer(&self) -> Result<&dyn TransferStore> {
        Ok(self)
    }

    fn maintenance(&self) -> Result<&dyn MaintenanceStore> {
        Ok(self)
    }
}

/// Returns the events of a window. Applies its conditions in the order of its fields.
fn select_events(log: &SessionLog, window: Window) -> Vec<(u64, Arc<Event>)> {
    let range = window.first.max(1)..=window.last.min(log.position());
    let since = window.after_timestamp.unwrap_or(f64::NEG_INFINITY);
    let events = range.filter_map(|position| log.event(position));
    let mut events: Vec<_> = events
        .filter(|(_, event)| event.timestamp >= since)
        .collect();
    trim_to_window(&mut events, window);
    trim_to_bytes(&mut events, window.bytes);
    events
}

/// Plans the writes to app and user state. Fails if either would exceed the limit.
fn plan_shared(
    tables: &Tables,
    key: &SessionKey,
    deltas: &[&Changes],
    bytes_max: usize,
) -> Result<Vec<Change>> {
    let app = deltas.iter().map(|delta| &delta.app);
    let user = deltas.iter().map(|delta| &delta.user);
    let scopes = [
        (LimitKind::AppState, StateOwner::app(&key.app), merge(app)),
        (
            LimitKind::UserState,
            StateOwner::user(&key.app, &key.user),
            merge(user),
        ),
    ];
    let mut planned = Vec::new();
    for (what, owner, keys) in scopes {
        if keys.is_empty() {
            continue;
        }
        let before = tables.shared(&owner);
        let after = merge([&before, &keys].into_iter());
        check_growth(what, state_bytes(&before), state_bytes(&after), bytes_max)?;
        planned.push(Change::SetShared { owner, keys });
    }
    Ok(planned)
}

/// Merges maps. Values of later maps win.
fn merge<'a>(maps: impl Iterator<Item = &'a JsonMap>) -> JsonMap {
    let mut merged = JsonMap::new();
    for (key, value) in maps.flatten() {
        merged.insert(key, value.clone());
    }
    merged
}

/// Returns the size that limits count: the bytes of all keys and values.
fn state_bytes(state: &JsonMap) -> usize {
    let entries = state.iter();
    entries
        .map(|(key, value)| key.len() + value.to_string().len())
        .sum()
}
