//! Leases without an append: prolonged, given back, waited for no longer.

use std::time::Duration;

use retain_core::{LeaseUse, Result, SessionError, SessionKey, plan_renewal};
use tokio::join;

use super::{
    append::{self, Statements, now},
    pool::{Database, Failure, Param, if_some},
    rows::{CachedHead, number_by_key},
};

/// Prolongs or gives back a lease. Gives back the head, to be remembered.
pub(super) async fn renew(
    database: &Database,
    key: &SessionKey,
    token: u64,
    ttl: Option<Duration>,
    now_us: Option<i64>,
) -> Result<CachedHead, Failure> {
    let transaction = database.transaction().await?;
    let statements = Statements::prepare(&transaction).await?;
    let clock = transaction.query(&statements.clock, []);
    let (begun, head, clock) = join!(
        biased;
        transaction.begin(),
        transaction.query(&statements.lock_head, [&key.app, &key.user, &key.id]),
        if_some(now_us.is_none().then_some(clock)),
    );
    begun?;
    let head = head?.first().map(CachedHead::read).transpose()?;
    let now_us = now(now_us, clock?)?;
    let decided = || -> Result<CachedHead> {
        let known = head.filter(|known| known.row.is_alive(now_us));
        let mut known = known.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
        let standing = known.row.standing(key, None, now_us);
        known.row.lease = plan_renewal(standing, &LeaseUse::Hold { token, ttl })?;
        known.revision += 1;
        Ok(known)
    };
    let known = match decided() {
        Ok(known) => known,
        Err(error) => {
            let _ = transaction.roll_back().await;
            return Err(error.into());
        }
    };
    let (set, ended) = join!(
        biased;
        append::set_head(&transaction, &statements, &known.row),
        transaction.commit(),
    );
    set?;
    ended?;
    transaction.ended();
    Ok(known)
}

/// Takes a caller out of the queue.
pub(super) async fn withdraw(
    database: &Database,
    key: &SessionKey,
    ticket: &str,
) -> Result<(), Failure> {
    const WITHDRAW: &str = concat!(
        "DELETE FROM retain_tickets WHERE ticket = $4 AND session = ",
        number_by_key!()
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(WITHDRAW).await?;
    let params: [Param<'_>; _] = [&key.app, &key.user, &key.id, &ticket];
    client.execute(&statement, &params).await?;
    Ok(())
}
