//! Renews leases and maintains the queue for them.

use retain_core::{
    LeaseUpdate, LeaseUse, Result, SessionKey, plan_renewal, store_rules::TICKET_TTL_US,
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
