//! Renews leases and maintains the queue for them. Also stores the leases of tasks.

use retain_core::{
    LeaseUpdate, LeaseUse, Result, SessionKey, TaskLease, duration_us, plan_renewal,
    store_rules::TICKET_TTL_US,
};

use super::schema::{SessionLog, SessionTables};

/// Renews or releases a lease, or removes a ticket from its queue.
pub(super) fn update(
    tables: &mut SessionTables,
    key: &SessionKey,
    update: &LeaseUpdate,
    now_us: i64,
) -> Result<()> {
    match update {
        LeaseUpdate::Renew { token, ttl } => {
            let log = tables.log_mut(key, now_us)?;
            let (token, ttl) = (*token, *ttl);
            log.lease = plan_renewal(log.status(key, now_us), &LeaseUse::Hold { token, ttl })?;
        }
        LeaseUpdate::Withdraw { ticket } => {
            if let Some(log) = tables.logs.get_mut(key) {
                log.leave_queue(ticket);
            }
        }
    }
    Ok(())
}

/// Takes, renews or releases the lease of a task; false if another process holds it.
pub(super) fn update_task(tables: &mut SessionTables, lease: &TaskLease, now_us: i64) -> bool {
    let held = tables.task_leases.get(&lease.task);
    if held.is_some_and(|(holder, until_us)| *holder != lease.holder && *until_us > now_us) {
        return false;
    }
    match lease.ttl {
        Some(ttl) => {
            let until_us = now_us.saturating_add(duration_us(ttl));
            let held = (lease.holder.clone(), until_us);
            tables.task_leases.insert(lease.task.clone(), held);
        }
        None => drop(tables.task_leases.remove(&lease.task)),
    }
    true
}

impl SessionLog {
    /// Adds a ticket to the queue for the lease, or extends the ticket's TTL.
    pub(super) fn queue(&mut self, ticket: &str, now_us: i64) {
        self.tickets
            .retain(|(queued, until)| *until > now_us || queued == ticket);
        let until = now_us + TICKET_TTL_US;
        match self.tickets.iter_mut().find(|(queued, _)| queued == ticket) {
            Some(queued) => queued.1 = until,
            None => self.tickets.push((ticket.to_owned(), until)),
        }
    }

    pub(super) fn leave_queue(&mut self, ticket: &str) {
        self.tickets.retain(|(queued, _)| queued != ticket);
    }
}
