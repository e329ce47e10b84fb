//! Appends a batch according to the plan of `plan_append`.

use std::sync::Arc;

use retain_core::{
    AppendOutcome, Batch, LeaseUse, LimitKind, Plan, Result, SessionKey, check_growth, plan_append,
};

use super::schema::SessionTables;

pub(super) fn append(
    tables: &mut SessionTables,
    key: &SessionKey,
    batch: &Batch,
    now_us: i64,
) -> Result<AppendOutcome> {
    let log = tables.log_mut(key, now_us)?;
    let plan = plan_append(log.status(key, now_us), batch, |id| {
        let position = log.ids.get(id).copied();
        Ok(position.map(|position| (position, Arc::clone(&log.events[position as usize - 1]))))
    })?;
    let (events, fresh, lease, token, touched_us) = match plan {
        Plan::Write {
            events,
            fresh,
            lease,
            token,
            touched_us,
        } => (events, fresh, lease, token, touched_us),
        Plan::Busy { until_us } => {
            if let LeaseUse::Take { ticket, .. } = &batch.lease
                && !ticket.is_empty()
            {
                log.queue(ticket, now_us);
            }
            return Ok(AppendOutcome::Busy { until_us, now_us });
        }
    };
    let changes = || fresh.iter().map(|&index| &batch.events[index].changes);
    let state_bytes = log.state_bytes_after(changes());
    let limit = batch.state_bytes_max;
    check_growth(LimitKind::SessionState, log.state_bytes, state_bytes, limit)?;
    let update = tables.shared.plan_update(key, changes(), limit)?;
    tables.shared.apply_update(key, update);
    let log = tables.log_mut(key, now_us)?;
    for &index in &fresh {
        log.push(&batch.events[index]);
    }
    log.state_bytes = state_bytes;
    log.lease = lease;
    log.touched_us = touched_us.unwrap_or(log.touched_us);
    // Only new events need work.
    if !fresh.is_empty() && !batch.pending_work.is_empty() {
        log.pending_work |= batch.pending_work;
        log.pending_to = log.position();
    }
    if let LeaseUse::Take { ticket, .. } = &batch.lease {
        log.leave_queue(ticket);
    }
    Ok(AppendOutcome::Done { events, token })
}
