//! The methods of `TransferStore`: import, export, migration, sessions with a history, and checks.
//!
//! The trait is optional. Without it, `SessionStore::transfer` returns its default error, so that
//! these operations and `check` fail.

use std::{
    collections::HashMap,
    fs,
    sync::{MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain::{
    Result, SessionError,
    session::SessionKey,
    store::{
        Damage, DraftId, Head, Location, LogHeader, NewEvent, Problem, ScopedState, StateOwner,
        TransferStore,
        rules::{DRAFT_TTL_US, draft_gone, imported_touched_us},
    },
};

use crate::{
    change::Change,
    journal::Journal,
    store::{JournalStore, failure},
    tables::{Entry, SessionLog, Tables},
};

/// Imports in progress. They are in memory, because only finished imports must survive a crash.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    last_id: u64,
    drafts: HashMap<u64, Draft>,
}

#[derive(Debug)]
struct Draft {
    entries: Vec<Entry>,
    /// Number of rewrites of the journal at the start. After a rewrite the draft is invalid,
    /// because its user might have been erased.
    rewrites: u64,
    until_us: i64,
}

impl JournalStore {
    fn drafts(&self) -> MutexGuard<'_, Drafts> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl TransferStore for JournalStore {
    /// Replays the whole file and compares the result with the data in memory.
    async fn check(&self) -> Result<Vec<Problem>> {
        let operation = "check the journal";
        self.transact(operation, |transaction| {
            let replayed = Journal::open(&self.path);
            let mut replayed = replayed.map_err(|source| failure(operation, source.into()))?;
            if let Err(problem) = replayed.refresh() {
                return Ok(vec![Problem::unreadable(Location::Database, problem)]);
            }
            let mut problems = Vec::new();
            let (stored, known) = (replayed.tables(), transaction.tables());
            for key in stored.sessions.keys().chain(known.sessions.keys()) {
                let head = |tables: &Tables| tables.sessions.get(key).map(|log| log.head(key));
                if head(stored) != head(known) {
                    let location = Location::Session { key: key.clone() };
                    let damage = Damage::Differs {
                        what: "its journal".to_owned(),
                        values: None,
                    };
                    problems.push(Problem::permanent(location, damage));
                }
            }
            Ok(problems)
        })
    }

    async fn log_header(&self, key: &SessionKey) -> Result<Option<LogHeader>> {
        self.transact("read a session", |transaction| {
            let log = transaction.tables().find(key, transaction.now_us);
            Ok(log.map(|log| LogHeader {
                head: log.head(key),
                initial: log.initial.clone(),
            }))
        })
    }

    async fn begin_draft(&self, _key: &SessionKey) -> Result<DraftId> {
        self.transact("begin an import", |transaction| {
            let now_us = transaction.now_us;
            let mut drafts = self.drafts();
            drafts.drafts.retain(|_, draft| draft.until_us > now_us);
            drafts.last_id += 1;
            let id = drafts.last_id;
            let draft = Draft {
                entries: Vec::new(),
                rewrites: transaction.journal.rewrites(),
                until_us: now_us + DRAFT_TTL_US,
            };
            drafts.drafts.insert(id, draft);
            Ok(DraftId(id))
        })
    }

    async fn extend_draft(&self, draft: DraftId, events: &[(u64, NewEvent)]) -> Result<()> {
        let mut drafts = self.drafts();
        let draft = drafts.drafts.get_mut(&draft.0).ok_or_else(draft_gone)?;
        let entries = events.iter().map(|(_, new)| Entry::new(new));
        draft.entries.extend(entries);
        draft.until_us = self.clock.now_us() + DRAFT_TTL_US;
        Ok(())
    }

    async fn finish_draft(
        &self,
        draft: DraftId,
        header: &LogHeader,
        shared: &ScopedState,
    ) -> Result<Head> {
        let draft = self.drafts().drafts.remove(&draft.0);
        let draft = draft.ok_or_else(draft_gone)?;
        let (key, head) = (&header.head.key, &header.head);
        self.transact("finish an import", |transaction| {
            let (tables, now_us) = (transaction.tables(), transaction.now_us);
            if draft.rewrites != transaction.journal.rewrites() {
                return Err(draft_gone());
            }
            tables.check_free(key, now_us)?;
            let mut log = SessionLog::new(tables.last_incarnation + 1, header.initial.clone());
            let entries = draft.entries.into_iter();
            entries.for_each(|entry| log.push(entry));
            log.create_time = head.create_time;
            log.last_update_time = head.last_update_time;
            log.ttl = head.ttl;
            log.origin = head.origin.clone();
            // The imported session keeps the expiry time in the header.
            log.touched_us = imported_touched_us(head, now_us);
            if !log.is_alive(now_us) {
                return Err(SessionError::NotFound { key: key.clone() });
            }
            let head = log.head(key);
            let mut changes = plan_missing_shared(tables, &key.app, &key.user, shared);
            changes.push(Change::Put {
                key: key.clone(),
                log: Box::new(log),
            });
            transaction.commit(changes)?;
            Ok(head)
        })
    }

    async fn addresses(&self, after: Option<&SessionKey>, limit: usize) -> Result<Vec<SessionKey>> {
        self.transact("list addresses", |transaction| {
            let sessions = transaction.tables().sessions.iter();
            let after_cursor = sessions.filter(|(key, _)| after.is_none_or(|after| *key > after));
            let alive = after_cursor.filter(|(_, log)| log.is_alive(transaction.now_us));
            Ok(alive.map(|(key, _)| key.clone()).take(limit).collect())
        })
    }

    async fn state_owners(
        &self,
        after: Option<&StateOwner>,
        limit: usize,
    ) -> Result<Vec<StateOwner>> {
        self.transact("list owners of shared state", |transaction| {
            let owners = transaction.tables().shared.keys();
            let after_cursor = owners.filter(|owner| after.is_none_or(|after| *owner > after));
            Ok(after_cursor.take(limit).cloned().collect())
        })
    }

    async fn add_shared_keys(&self, app: &str, user: &str, shared: &ScopedState) -> Result<()> {
        self.transact("add shared keys", |transaction| {
            let changes = plan_missing_shared(transaction.tables(), app, user, shared);
            transaction.commit(changes)
        })
    }

    async fn identity(&self) -> Result<Option<String>> {
        let path = fs::canonicalize(&self.path);
        let path = path.map_err(|source| failure("find the journal", source.into()))?;
        Ok(Some(path.display().to_string()))
    }
}

/// Returns the changes that set the shared keys which the app or the user does not have yet.
fn plan_missing_shared(
    tables: &Tables,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> Vec<Change> {
    let scopes = [
        (StateOwner::app(app), &shared.app),
        (StateOwner::user(app, user), &shared.user),
    ];
    let mut planned = Vec::new();
    for (owner, keys) in scopes {
        let (present, mut keys) = (tables.shared(&owner), keys.clone());
        keys.retain(|key, _| !present.contains_key(key));
        if !keys.is_empty() {
            planned.push(Change::SetShared { owner, keys });
        }
    }
    planned
}
