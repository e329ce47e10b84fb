//! Logs that are made as a whole: forks and imports. They are nobody's until they are complete, and
//! become a session in the end.

use retain_core::{
    DraftId, Head, Json, JsonMap, LogHeader, NewEvent, Origin, Result, ScopedState, SessionError,
    SessionKey, duration_us,
};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    append::{EventColumns, INSERT_EVENTS},
    create::INITIAL,
    maintenance::{self, Burial},
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{Known, by_key, clock_us, head_columns, signed},
    state::{OwnKeys, OwnerKeys, StateStatements},
};
use crate::window::{self, DRAFT_TTL_US};

/// The values of log $1 up to position $3, for log $2.
macro_rules! versions {
    ($which:literal) => {
        concat!(
            "(log, key, position, value) SELECT $2::int8, key, position, value FROM (
               SELECT key, position, value,
                      position = max(position) OVER (PARTITION BY key) AS is_last
               FROM (
                 SELECT key, position, value FROM retain_state
                 WHERE log = $1 AND position <= $3
                 UNION ALL
                 SELECT key, position, value FROM retain_state_past
                 WHERE log = $1 AND position <= $3
               ) versions
             ) known WHERE ",
            $which
        )
    };
}
statements! {
    /// What making a whole log says to the database.
    Statements {
        // Locked, so that who erases the user waits and sees the fork; who appends does not wait.
        head: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_stores WHERE ", by_key!(), " FOR KEY SHARE"
        ),
        there: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_stores WHERE ", by_key!(), " FOR UPDATE"
        ),
        // Times are in order if none goes back, to the last update, with which the next is compared:
        // in a fork it is that of the fork.
        adopt: concat!(
            "INSERT INTO retain_stores (number, app, user_id, id, position, last_update, \
             create_time, touched_us, ttl_us, lease_token, in_order, state_bytes, origin_id, \
             origin_position) \
             SELECT $4::int8, $1::text, $2::text, $3::text, $5::int8, $6::float8, $7::float8, \
             coalesce($8::int8, ", clock_us!(), "), $9::int8, $4::int8 << 32, \
             NOT EXISTS (SELECT FROM \
              (SELECT timestamp, lead(timestamp, 1, $6::float8) OVER (ORDER BY position) AS next \
               FROM retain_events WHERE log = $4 AND position > 0) times \
              WHERE next < timestamp), \
             (SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) \
              FROM retain_state WHERE log = $4 AND value IS NOT NULL), $10::text, $11::int8 \
             ON CONFLICT (app, user_id, id) DO NOTHING RETURNING ", head_columns!()
        ),
        new_log: "INSERT INTO retain_logs DEFAULT VALUES RETURNING number",
        copy_events: "INSERT INTO retain_events \
                      (log, position, event_id, invocation, timestamp, body) \
                      SELECT $2::int8, position, event_id, invocation, timestamp, body \
                      FROM retain_events WHERE log = $1 AND position <= $3",
        // What was set up to a position: the last value of each key is current, the rest is past.
        copy_state: concat!("INSERT INTO retain_state ", versions!("is_last")),
        copy_past: concat!("INSERT INTO retain_state_past ", versions!("NOT is_last")),
        keep_draft: concat!(
            "UPDATE retain_logs SET purge_after_us = coalesce($2::int8, ", clock_us!(), ") + $3 \
             WHERE number = $1 AND purge_after_us > 0"
        ),
        end_draft: "UPDATE retain_logs SET purge_after_us = NULL, app = NULL, user_id = NULL \
                    WHERE number = $1 AND purge_after_us > 0",
        draft_has: "SELECT 1 FROM retain_events WHERE log = $1 AND position = $2",
        draft_keys: "SELECT key, octet_length(value) FROM retain_state \
                     WHERE log = $1 AND key = ANY($2)",
        insert_events: INSERT_EVENTS,
        initial: INITIAL,
        // A key as of position 0 is the oldest past if an event has set it since, else current.
        initial_past: "INSERT INTO retain_state_past (log, key, position, value) \
                       SELECT $1::int8, new.key, 0, new.value \
                       FROM unnest($2::text[], $3::bytea[]) AS new (key, value) \
                       JOIN retain_state s ON s.log = $1 AND s.key = new.key",
        initial_now: "INSERT INTO retain_state (log, key, position, value) \
                      SELECT $1::int8, key, 0, value \
                      FROM unnest($2::text[], $3::bytea[]) AS new (key, value) \
                      ON CONFLICT (log, key) DO NOTHING",
    }
}

/// What the row of a whole session says.
struct Whole<'a> {
    key: &'a SessionKey,
    number: i64,
    position: u64,
    last_update: f64,
    create_time: f64,
    ttl_us: Option<i64>,
    /// The last write that counts; now, if it is not said.
    touched_us: Option<i64>,
    origin: Option<&'a Origin>,
}

/// Makes a log a session; fails if there is one with this address.
async fn adopt(
    transaction: &Transaction,
    statements: &Statements,
    whole: &Whole<'_>,
) -> Result<Vec<Row>, Error> {
    let SessionKey { app, user, id } = whole.key;
    let params: [Param<'_>; _] = [
        app,
        user,
        id,
        &whole.number,
        &signed(whole.position),
        &whole.last_update,
        &whole.create_time,
        &whole.touched_us,
        &whole.ttl_us,
        &whole.origin.map(|origin| &origin.session_id),
        &whole.origin.map(|origin| signed(origin.position)),
    ];
    transaction.query(&statements.adopt, params).await
}

/// What stands at an address: nothing that is in the way, or what was made there before.
async fn make_room(
    transaction: &Transaction,
    key: &SessionKey,
    there: &[Row],
    made: Option<i64>,
) -> Result<Option<Known>, Failure> {
    let Some(row) = there.first() else {
        return Ok(None);
    };
    let (known, now_us): (Known, i64) = (Known::read(row)?, row.try_get(13)?);
    if made == Some(known.row.number) {
        return Ok(Some(known));
    }
    if known.row.is_alive(now_us) {
        return Err(SessionError::AlreadyExists { key: key.clone() }.into());
    }
    let burial = Burial::prepare(transaction).await?;
    maintenance::bury(transaction, &burial, &[known.row.number]).await?;
    Ok(None)
}

/// Ends a transaction that made a session: commits it, or takes everything back.
async fn conclude(
    transaction: Transaction,
    key: &SessionKey,
    made: Result<Known, Failure>,
) -> Result<Head, Failure> {
    match made {
        Ok(known) => {
            transaction.commit().await?;
            transaction.ended();
            Ok(known.row.head(key.clone()))
        }
        Err(failure) => {
            let _ = transaction.roll_back().await;
            Err(failure)
        }
    }
}

fn adopted(key: &SessionKey, rows: &[Row]) -> Result<Known, Failure> {
    match rows.first() {
        Some(row) => Ok(Known::read(row)?),
        None => Err(SessionError::AlreadyExists { key: key.clone() }.into()),
    }
}

/// Copies a log up to `position` into a new session. `made` is the number that an attempt before
/// this one has given it, if the end of that was not heard of.
pub(super) async fn fork(
    database: &Database,
    (origin, position): &(SessionKey, u64),
    key: &SessionKey,
    create_time: f64,
    now_us: Option<i64>,
    made: &mut Option<i64>,
) -> Result<Head, Failure> {
    let position = *position;
    let transaction = database.transaction().await?;
    let statements = Statements::prepare(&transaction).await?;
    let from: [Param<'_>; _] = [&origin.app, &origin.user, &origin.id, &now_us];
    let to: [Param<'_>; _] = [&key.app, &key.user, &key.id, &now_us];
    let (begun, head, there, log) = join!(
        biased;
        // One snapshot: what is appended meanwhile moves values from one table to the other.
        transaction.begin_repeatable(),
        transaction.query(&statements.head, from),
        transaction.query(&statements.there, to),
        transaction.query(&statements.new_log, []),
    );
    begun?;
    let (head, there, log) = (head?, there?, log?);
    let forked = async {
        let head = head
            .first()
            .map(|row| Ok((Known::read(row)?, row.try_get(13)?)));
        let head: Option<(Known, i64)> = head.transpose().map_err(|e: Error| e)?;
        let head = head.filter(|(known, now_us)| known.row.is_alive(*now_us));
        let not_found = || SessionError::NotFound {
            key: origin.clone(),
        };
        let from = head.ok_or_else(not_found)?.0.row;
        window::check_position(origin, position, from.position)?;
        if let Some(known) = make_room(&transaction, key, &there, *made).await? {
            return Ok(known);
        }
        let log = log.first().ok_or(Failure::Again("no log was made"))?;
        let number: i64 = log.try_get(0)?;
        let whole = Whole {
            key,
            number,
            position,
            last_update: create_time,
            create_time,
            ttl_us: from.life.ttl_us,
            touched_us: now_us,
            origin: Some(&Origin {
                session_id: origin.id.clone(),
                position,
            }),
        };
        let copied: [Param<'_>; _] = [&from.number, &number, &signed(position)];
        let (events, state, past, row) = join!(
            biased;
            transaction.execute(&statements.copy_events, copied),
            transaction.execute(&statements.copy_state, copied),
            transaction.execute(&statements.copy_past, copied),
            adopt(&transaction, &statements, &whole),
        );
        events?;
        state?;
        past?;
        let known = adopted(key, &row?)?;
        // Only now: as long as the name is another's, it may be that of the attempt before.
        *made = Some(number);
        Ok(known)
    };
    let forked = forked.await;
    conclude(transaction, key, forked).await
}

/// Starts a log that no session has yet.
pub(super) async fn begin_draft(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
) -> Result<DraftId, Failure> {
    const BEGIN: &str = concat!(
        "INSERT INTO retain_logs (purge_after_us, app, user_id) \
         VALUES (coalesce($1::int8, ",
        clock_us!(),
        ") + $2::int8, $3, $4) RETURNING number"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(BEGIN).await?;
    let params: [Param<'_>; _] = [&now_us, &DRAFT_TTL_US, &key.app, &key.user];
    let row = client.query_one(&statement, &params).await?;
    Ok(DraftId(row.try_get::<_, i64>(0)? as u64))
}

/// How many bytes of events are sent at once, roughly: they are in the memory of both sides, and what
/// is larger than a gigabyte no server takes.
const BYTES_AT_ONCE: usize = 8 * 1024 * 1024;

/// Events in pieces that can be sent at once.
pub(super) fn pieces(mut events: &[(u64, NewEvent)]) -> impl Iterator<Item = &[(u64, NewEvent)]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(_, new): &&(u64, NewEvent)| {
            let is_first = bytes == 0;
            bytes += new.body.len();
            is_first || bytes <= BYTES_AT_ONCE
        };
        let count = events.iter().take_while(fits).count();
        let (piece, rest) = events.split_at(count);
        events = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Adds events to a draft. `is_sent`: an attempt before this one has sent them, and its end was not
/// heard of.
pub(super) async fn extend_draft(
    database: &Database,
    draft: DraftId,
    events: &[(u64, NewEvent)],
    now_us: Option<i64>,
    is_sent: &mut bool,
) -> Result<(), Failure> {
    let log = draft.0 as i64;
    let last = events.last().map_or(0, |(position, _)| signed(*position));
    let transaction = database.transaction().await?;
    let (statements, state) = join!(
        biased; Statements::prepare(&transaction), StateStatements::prepare(&transaction)
    );
    let (statements, state) = (statements?, state?);
    let mut keys: Vec<&str> = Vec::new();
    let mut columns = EventColumns::default();
    for (position, new) in events {
        keys.extend(new.changes.session.iter().map(|(key, _)| key.as_str()));
        columns.push(*position, new);
    }
    keys.sort_unstable();
    keys.dedup();
    let (begun, kept, there, stored) = join!(
        biased;
        transaction.begin(),
        // Locks the draft: an attempt that still goes on is waited for.
        transaction.execute(&statements.keep_draft, [&log, &now_us, &DRAFT_TTL_US]),
        transaction.query(&statements.draft_has, [&log, &last]),
        transaction.query(&statements.draft_keys, [&log, &keys]),
    );
    begun?;
    if kept? == 0 {
        transaction.roll_back().await?;
        return Err(window::draft_gone().into());
    }
    if *is_sent && !there?.is_empty() {
        return Ok(transaction.roll_back().await?);
    }
    *is_sent = true;
    // What a draft takes is counted when it becomes a session.
    let mut own = OwnKeys::new(0, &stored?)?;
    for (position, new) in events {
        own.set(*position, &new.changes);
    }
    let (positions, ids) = (&columns.positions, &columns.ids);
    let (invocations, times, bodies) = (&columns.invocations, &columns.times, &columns.bodies);
    let rows: [Param<'_>; _] = [&log, positions, ids, invocations, times, bodies];
    let (inserted, own, ended) = join!(
        biased;
        transaction.execute(&statements.insert_events, rows),
        own.write(&transaction, &state, log),
        transaction.commit(),
    );
    inserted?;
    own?;
    ended?;
    transaction.ended();
    Ok(())
}

/// Makes the draft a session.
pub(super) async fn finish_draft(
    database: &Database,
    draft: DraftId,
    header: &LogHeader,
    shared: &ScopedState,
    now_us: Option<i64>,
) -> Result<Head, Failure> {
    let (log, head, key) = (draft.0 as i64, &header.head, &header.head.key);
    let transaction = database.transaction().await?;
    let (statements, state) = join!(
        biased; Statements::prepare(&transaction), StateStatements::prepare(&transaction)
    );
    let (statements, state) = (statements?, state?);
    let finished = async {
        let owners = lock(&transaction, &statements, &state, key, shared, now_us).await?;
        let (owners, there) = owners;
        // The draft's number is the session's.
        if let Some(known) = make_room(&transaction, key, &there, Some(log)).await? {
            return Ok(known);
        }
        let ended: [Param<'_>; _] = [&log];
        if transaction.execute(&statements.end_draft, ended).await? == 0 {
            // An attempt whose end was not heard of may have made it a session at this moment.
            let SessionKey { app, user, id } = key;
            let there = transaction.query(&statements.there, [app, user, id, &now_us]);
            let made = there.await?.first().map(Known::read).transpose()?;
            let made = made.filter(|known| known.row.number == log);
            return made.ok_or_else(|| window::draft_gone().into());
        }
        write_initial(&transaction, &statements, log, header).await?;
        for owner in &owners {
            owner.write(&transaction, &state).await?;
        }
        let whole = Whole {
            key,
            number: log,
            position: head.position,
            last_update: head.last_update_time,
            create_time: head.create_time,
            ttl_us: head.ttl.map(duration_us),
            touched_us: touched_us(&transaction, head, now_us).await?,
            origin: head.origin.as_ref(),
        };
        adopted(key, &adopt(&transaction, &statements, &whole).await?)
    };
    let finished = finished.await;
    let is_taken = matches!(
        finished,
        Err(Failure::Decided(SessionError::AlreadyExists { .. }))
    );
    let finished = conclude(transaction, key, finished).await;
    if is_taken {
        let client = database.connection().await?;
        let sql = "UPDATE retain_logs SET purge_after_us = 0 \
                   WHERE number = $1 AND purge_after_us > 0";
        client.execute(sql, &[&log]).await?;
    }
    finished
}

/// The write that a session counts from which is to expire at a given time; `NotFound` if that time
/// has come.
async fn touched_us(
    transaction: &Transaction,
    head: &Head,
    now_us: Option<i64>,
) -> Result<Option<i64>, Failure> {
    const NOW: &str = concat!("SELECT coalesce($1::int8, ", clock_us!(), ")");
    let Some(expires_us) = head.expires_us else {
        return Ok(now_us);
    };
    let statement = transaction.prepare(NOW).await?;
    let now = transaction.query(&statement, [&now_us]).await?;
    let now_us: i64 = match now.first() {
        Some(row) => row.try_get(0)?,
        None => return Err(Failure::Again("the server did not say what time it is")),
    };
    if expires_us <= now_us {
        let key = head.key.clone();
        return Err(SessionError::NotFound { key }.into());
    }
    Ok(Some(window::touched_us(head, now_us)))
}

/// Begins; locks the owners of shared keys, and what stands at the address.
async fn lock(
    transaction: &Transaction,
    statements: &Statements,
    state: &StateStatements,
    key: &SessionKey,
    shared: &ScopedState,
    now_us: Option<i64>,
) -> Result<(Vec<OwnerKeys>, Vec<Row>), Failure> {
    let SessionKey { app, user, id } = key;
    let (begun, owners, there) = join!(
        biased;
        transaction.begin(),
        lock_owners(transaction, state, app, user, shared),
        transaction.query(&statements.there, [app, user, id, &now_us]),
    );
    begun?;
    Ok((owners?, there?))
}

/// Locks the owners of shared keys, the app first, and gives them with the keys that they lack set.
async fn lock_owners(
    transaction: &Transaction,
    state: &StateStatements,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> Result<Vec<OwnerKeys>, Failure> {
    let app_keys: Vec<&str> = shared.app.keys().collect();
    let user_keys: Vec<&str> = shared.user.keys().collect();
    let lock_app = OwnerKeys::lock(transaction, state, app, "", &app_keys);
    let lock_user = OwnerKeys::lock(transaction, state, app, user, &user_keys);
    let (locked_app, locked_user) = join!(
        biased;
        if_some((!app_keys.is_empty()).then_some(lock_app)),
        if_some((!user_keys.is_empty()).then_some(lock_user)),
    );
    let mut owners = Vec::new();
    for (user, found, keys) in [
        ("", locked_app?, &shared.app),
        (user, locked_user?, &shared.user),
    ] {
        if let Some(found) = found {
            let mut owner = OwnerKeys::new(app, user, found)?;
            owner.set_absent(keys);
            owners.push(owner);
        }
    }
    Ok(owners)
}

/// Sets the keys that the app or the user does not have yet.
pub(super) async fn add_shared(
    database: &Database,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> Result<(), Failure> {
    let transaction = database.transaction().await?;
    let statements = StateStatements::prepare(&transaction).await?;
    let (begun, owners) = join!(
        biased;
        transaction.begin(),
        lock_owners(&transaction, &statements, app, user, shared),
    );
    begun?;
    for owner in &owners? {
        owner.write(&transaction, &statements).await?;
    }
    transaction.commit().await?;
    transaction.ended();
    Ok(())
}

/// Writes position 0 of a draft.
async fn write_initial(
    transaction: &Transaction,
    statements: &Statements,
    log: i64,
    header: &LogHeader,
) -> Result<(), Error> {
    let initial = Json::from(header.initial.clone()).to_string();
    let own: JsonMap = window::session_keys(&header.initial);
    let keys: Vec<&str> = own.keys().collect();
    let values: Vec<Vec<u8>> = own
        .iter()
        .map(|(_, v)| v.to_string().into_bytes())
        .collect();
    let (time, body) = (header.head.create_time, initial.as_bytes());
    let rows: [Param<'_>; _] = [&log, &keys, &values];
    let (event, past, now) = join!(
        biased;
        transaction.execute(&statements.initial, [&log, &time, &body]),
        transaction.execute(&statements.initial_past, rows),
        transaction.execute(&statements.initial_now, rows),
    );
    event?;
    past?;
    now.map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use retain_core::{Changes, ConnectStore as _, NewSession, SessionStore as _};
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;
    use crate::postgres::PostgresStore;

    /// An attempt whose end was not heard of comes to its end while the next one is at work.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_fork_that_is_done_late_is_known_again() {
        if !is_there() {
            return;
        }
        let test = TestDatabase::new().await;
        let store = PostgresStore::connect(&test.uri()).await.unwrap();
        let (key, copy) = (
            SessionKey::new("app", "ada", "s"),
            SessionKey::new("app", "ada", "copy"),
        );
        let new = NewSession {
            key: key.clone(),
            initial: JsonMap::new(),
            changes: Changes::default(),
            create_time: 1.0,
            ttl: None,
            state_bytes_max: 1000,
        };
        store.create(new).await.unwrap();
        let mut late = test.client().await;
        let late = late.transaction().await.unwrap();
        let log = "INSERT INTO retain_logs DEFAULT VALUES RETURNING number";
        let number: i64 = late.query_one(log, &[]).await.unwrap().get(0);
        let row = "INSERT INTO retain_stores (number, app, user_id, id, position, last_update, \
                   create_time, touched_us, lease_token, state_bytes) \
                   VALUES ($1, 'app', 'ada', 'copy', 0, 1, 1, 1, $1::int8 << 32, 0)";
        late.execute(row, &[&number]).await.unwrap();
        let (origin, mut made) = ((key, 0), Some(number));
        let next = async {
            let failed = fork(&store.database, &origin, &copy, 1.0, None, &mut made).await;
            assert!(matches!(failed, Err(Failure::Database(_))), "{failed:?}");
            fork(&store.database, &origin, &copy, 1.0, None, &mut made).await
        };
        let end = async {
            let looker = test.client().await;
            let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                         WHERE datname = current_database() AND wait_event_type = 'Lock'";
            while !looker
                .query_one(waits, &[])
                .await
                .unwrap()
                .get::<_, bool>(0)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            late.commit().await.unwrap();
        };
        let (head, ()) = join!(next, end);
        assert_eq!(head.unwrap().incarnation, number as u64);
    }
}
