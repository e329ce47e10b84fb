//! The methods of `MaintenanceStore`: pending work, leases of periodic tasks, expired sessions.
//!
//! The trait is optional. Without it, `SessionStore::maintenance` returns its default error, so
//! that sweeps fail.

use std::time::Duration;

use async_trait::async_trait;
use retain::{
    Result,
    session::SessionKey,
    store::{
        ExpiredSession, ExpiryReceipt, MaintenanceStore, PendingStatistics, SessionWork, TaskLease,
        duration_us,
    },
};

use crate::{
    change::Change,
    store::{JournalStore, Transaction},
    tables::SessionLog,
};

/// Returns the sessions with pending work that no run writes, ordered by incarnation.
fn waiting<'a>(transaction: &'a Transaction<'_>) -> Vec<(&'a SessionKey, &'a SessionLog)> {
    let now_us = transaction.now_us;
    let sessions = transaction.tables().sessions.iter().filter(|(_, log)| {
        !log.pending.0.is_empty() && log.lease.until_us <= now_us && log.is_alive(now_us)
    });
    let mut found: Vec<_> = sessions.collect();
    found.sort_unstable_by_key(|(_, log)| log.incarnation);
    found
}

#[async_trait]
impl MaintenanceStore for JournalStore {
    async fn pending_work(&self, after: u64, limit: usize) -> Result<Vec<SessionWork>> {
        self.transact("find pending work", |transaction| {
            let found = waiting(transaction).into_iter();
            let found = found.filter(|(_, log)| log.incarnation > after).take(limit);
            let found = found.map(|(key, log)| SessionWork {
                key: key.clone(),
                incarnation: log.incarnation,
                position: log.pending.1,
                work: log.pending.0,
            });
            Ok(found.collect())
        })
    }

    async fn pending_statistics(&self) -> Result<PendingStatistics> {
        self.transact("count pending work", |transaction| {
            let found = waiting(transaction);
            let now_us = transaction.now_us;
            let ages = found.iter().map(|(_, log)| now_us - log.touched_us);
            let oldest_us = ages.max().map(|age| age.max(0).unsigned_abs());
            Ok(PendingStatistics {
                sessions: found.len() as u64,
                oldest: oldest_us.map(Duration::from_micros),
            })
        })
    }

    async fn finish_work(&self, done: &SessionWork) -> Result<()> {
        self.transact("finish pending work", |transaction| {
            let log = transaction.tables().sessions.get(&done.key);
            let log = log.filter(|log| {
                log.incarnation == done.incarnation && log.pending.1 <= done.position
            });
            let Some((work, position)) = log.map(|log| log.pending) else {
                return Ok(());
            };
            transaction.commit(vec![Change::SetPending {
                key: done.key.clone(),
                work: work.without(done.work),
                position,
            }])
        })
    }

    async fn update_task_lease(&self, lease: &TaskLease) -> Result<bool> {
        self.transact("take the lease of a task", |transaction| {
            let now_us = transaction.now_us;
            let held = transaction.tables().task_leases.get(&lease.task);
            if held.is_some_and(|(holder, until)| *holder != lease.holder && *until > now_us) {
                return Ok(false);
            }
            transaction.commit(vec![Change::SetTaskLease {
                task: lease.task.clone(),
                holder: lease.holder.clone(),
                until_us: now_us + lease.ttl.map_or(0, duration_us),
            }])?;
            Ok(true)
        })
    }

    async fn expired(&self, after: u64, limit: usize) -> Result<Vec<ExpiredSession>> {
        self.transact("find expired sessions", |transaction| {
            let now_us = transaction.now_us;
            let sessions = transaction.tables().sessions.iter();
            let expired = sessions.filter_map(|(key, log)| {
                let expired_us = log.expires_us().filter(|us| *us <= now_us)?;
                Some(ExpiredSession {
                    key: key.clone(),
                    incarnation: log.incarnation,
                    expired_us,
                })
            });
            let mut expired: Vec<_> = expired.filter(|it| it.incarnation > after).collect();
            expired.sort_unstable_by_key(|it| it.incarnation);
            expired.truncate(limit);
            Ok(expired)
        })
    }

    async fn delete_expired(&self, sessions: &[ExpiredSession]) -> Result<ExpiryReceipt> {
        let deleted = self.transact("delete expired sessions", |transaction| {
            let (tables, now_us) = (transaction.tables(), transaction.now_us);
            let is_expired = |session: &&ExpiredSession| {
                let log = tables.sessions.get(&session.key);
                let log = log.filter(|log| log.incarnation == session.incarnation);
                log.is_some_and(|log| !log.is_alive(now_us))
            };
            let deletes = sessions.iter().filter(is_expired).map(|session| {
                let key = session.key.clone();
                Change::Delete { key }
            });
            let deletes: Vec<Change> = deletes.collect();
            let mut receipt = ExpiryReceipt::default();
            receipt.sessions = deletes.len() as u64;
            transaction.commit(deletes)?;
            Ok(receipt)
        })?;
        let keys = sessions.iter().map(|session| &session.key);
        keys.for_each(|key| self.hub.notify(key));
        Ok(deleted)
    }

    async fn is_expired(&self, key: &SessionKey) -> Result<bool> {
        self.transact("look for an expired session", |transaction| {
            let log = transaction.tables().sessions.get(key);
            Ok(log.is_some_and(|log| !log.is_alive(transaction.now_us)))
        })
    }
}
