//! Drafts: imported logs, which become sessions when they are complete.

use retain_core::{
    DraftId, Head, Json, JsonMap, LogHeader, NewEvent, Origin, Result, ScopedState, SessionError,
    SessionKey, duration_us,
    store_rules::{self, DRAFT_TTL_US},
};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    append::{EventColumns, INSERT_EVENTS},
    create::INITIAL,
    delete::{DeleteStatements, delete_sessions},
    named_sql::NamedSql,
    pool::{Database, Failure, Param, Transaction, statements},
    rows::{CachedHead, by_key, clock_us, head_columns, signed},
    state::{OwnStateChanges, OwnerKeys, StateStatements, lock_owners},
};

statements! {
    /// Statements that turn a log into a session.
    AdoptStatements {
        lock_existing: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_sessions WHERE ", by_key!(), " FOR UPDATE"
        ),
    }
}

// `in_order` also compares the last event with `last_update`, as the next append does. In a fork,
// `last_update` is the time of the fork.
const ADOPT: &str = concat!(
    "INSERT INTO retain_sessions (number, app, user_id, id, position, last_update, create_time, \
     touched_us, ttl_us, lease_token, in_order, state_bytes, origin_id, origin_position, \
     log_bytes, sized_to) \
     SELECT {log}::int8, {app}::text, {user}::text, {id}::text, {position}::int8, \
     {last_update}::float8, {create_time}::float8, coalesce({touched_us}::int8, ",
    clock_us!(),
    "), {ttl_us}::int8, {log}::int8 << 32, \
     NOT EXISTS (SELECT FROM \
      (SELECT timestamp, lead(timestamp, 1, {last_update}::float8) OVER (ORDER BY position) AS next \
       FROM retain_events WHERE log = {log} AND position > 0) times \
      WHERE next < timestamp), \
     (SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) \
      FROM retain_state WHERE log = {log} AND value IS NOT NULL), \
     {origin_id}::text, {origin_position}::int8, \
     (SELECT coalesce(sum(octet_length(body)), 0) \
      FROM retain_events WHERE log = {log} AND position > 0), {position}::int8 \
     ON CONFLICT (app, user_id, id) DO NOTHING RETURNING ",
    head_columns!()
);

statements! {
    /// Statements that write a draft.
    DraftStatements {
        extend_ttl: concat!(
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
        // If an event has set the key, the initial value is a past value; otherwise it is current.
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

/// The head of a log that becomes a session.
pub(super) struct AdoptedLog<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) number: i64,
    pub(super) position: u64,
    pub(super) last_update: f64,
    pub(super) create_time: f64,
    pub(super) ttl_us: Option<i64>,
    /// The time from which the TTL counts; `None` means now.
    pub(super) touched_us: Option<i64>,
    pub(super) origin: Option<&'a Origin>,
}

/// Turns a log into a session. Returns no row if a session with this key exists.
pub(super) async fn adopt(
    transaction: &Transaction,
    log: &AdoptedLog<'_>,
) -> Result<Vec<Row>, Error> {
    let position = signed(log.position);
    let origin_id = log.origin.map(|origin| &origin.session_id);
    let origin_position = log.origin.map(|origin| signed(origin.position));
    let mut sql = NamedSql::default();
    sql.bind("app", &log.key.app);
    sql.bind("user", &log.key.user);
    sql.bind("id", &log.key.id);
    sql.bind("log", &log.number);
    sql.bind("position", &position);
    sql.bind("last_update", &log.last_update);
    sql.bind("create_time", &log.create_time);
    sql.bind("touched_us", &log.touched_us);
    sql.bind("ttl_us", &log.ttl_us);
    sql.bind("origin_id", &origin_id);
    sql.bind("origin_position", &origin_position);
    sql.push(ADOPT);
    transaction.run(&sql).await
}

/// Deletes an expired session with this key. Returns the session if an earlier attempt created it
/// (`made`); fails if another one is alive.
pub(super) async fn clear_key(
    transaction: &Transaction,
    key: &SessionKey,
    existing: &[Row],
    made: Option<i64>,
) -> Result<Option<CachedHead>, Failure> {
    let Some(row) = existing.first() else {
        return Ok(None);
    };
    let (head, now_us) = CachedHead::read_with_time(row)?;
    if made == Some(head.row.number) {
        return Ok(Some(head));
    }
    if head.row.is_alive(now_us) {
        return Err(SessionError::AlreadyExists { key: key.clone() }.into());
    }
    let deletion = DeleteStatements::prepare(transaction).await?;
    delete_sessions(transaction, &deletion, &[head.row.number]).await?;
    Ok(None)
}

/// Ends a transaction that creates a session: commits on success, else rolls back.
pub(super) async fn commit_or_roll_back(
    transaction: Transaction,
    key: &SessionKey,
    made: Result<CachedHead, Failure>,
) -> Result<Head, Failure> {
    match made {
        Ok(head) => {
            transaction.commit().await?;
            transaction.release();
            Ok(head.row.head(key.clone()))
        }
        Err(failure) => {
            let _ = transaction.roll_back().await;
            Err(failure)
        }
    }
}

/// Decodes the row that [`adopt`] returned.
pub(super) fn decode_adopted(key: &SessionKey, rows: &[Row]) -> Result<CachedHead, Failure> {
    match rows.first() {
        Some(row) => Ok(CachedHead::read(row)?),
        None => Err(SessionError::AlreadyExists { key: key.clone() }.into()),
    }
}

/// Creates an empty draft.
pub(super) async fn begin(
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

/// Approximate maximum size of a chunk. Both sides hold it in memory, and PostgreSQL rejects messages
/// over 1 GiB.
const CHUNK_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Splits events into chunks, each sent in one transaction.
pub(super) fn split_into_chunks(
    mut events: &[(u64, NewEvent)],
) -> impl Iterator<Item = &[(u64, NewEvent)]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(_, new): &&(u64, NewEvent)| {
            let is_first = bytes == 0;
            bytes += new.body.len();
            is_first || bytes <= CHUNK_BYTES_MAX
        };
        let count = events.iter().take_while(fits).count();
        let (chunk, rest) = events.split_at(count);
        events = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Adds events to a draft. `is_sent` is true if an earlier, unconfirmed attempt sent them.
pub(super) async fn extend(
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
        biased; DraftStatements::prepare(&transaction), StateStatements::prepare(&transaction)
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
    let (begun, extended, last_row, stored) = join!(
        biased;
        transaction.begin(),
        // The update locks the draft, so it waits for an earlier attempt that is still running.
        transaction.execute(&statements.extend_ttl, [&log, &now_us, &DRAFT_TTL_US]),
        transaction.query(&statements.draft_has, [&log, &last]),
        transaction.query(&statements.draft_keys, [&log, &keys]),
    );
    begun?;
    if extended? == 0 {
        transaction.roll_back().await?;
        return Err(store_rules::draft_gone().into());
    }
    if *is_sent && !last_row?.is_empty() {
        return Ok(transaction.roll_back().await?);
    }
    *is_sent = true;
    // The bytes of a draft are counted when it becomes a session.
    let mut own = OwnStateChanges::new(0, &stored?)?;
    for (position, new) in events {
        own.set(*position, &new.changes);
    }
    let (inserted, own, ended) = join!(
        biased;
        columns.insert(&transaction, &statements.insert_events, log),
        own.write(&transaction, &state, log),
        transaction.commit(),
    );
    inserted?;
    own?;
    ended?;
    transaction.release();
    Ok(())
}

/// Turns the draft into a session.
pub(super) async fn finish(
    database: &Database,
    draft: DraftId,
    header: &LogHeader,
    shared: &ScopedState,
    now_us: Option<i64>,
) -> Result<Head, Failure> {
    let (log, head, key) = (draft.0 as i64, &header.head, &header.head.key);
    let transaction = database.transaction().await?;
    let (statements, adoption, state) = join!(
        biased;
        DraftStatements::prepare(&transaction),
        AdoptStatements::prepare(&transaction),
        StateStatements::prepare(&transaction),
    );
    let (statements, adoption, state) = (statements?, adoption?, state?);
    let finished = async {
        let locked = lock(&transaction, &adoption, &state, key, shared, now_us).await?;
        let (owners, existing) = locked;
        // The session gets the draft's number, so an existing session with this number is from an
        // earlier attempt.
        if let Some(head) = clear_key(&transaction, key, &existing, Some(log)).await? {
            return Ok(head);
        }
        let params: [Param<'_>; _] = [&log];
        if transaction.execute(&statements.end_draft, params).await? == 0 {
            // An unconfirmed attempt may have just turned the draft into a session.
            let SessionKey { app, user, id } = key;
            let existing = transaction.query(&adoption.lock_existing, [app, user, id, &now_us]);
            let made = existing.await?.first().map(CachedHead::read).transpose()?;
            let made = made.filter(|head| head.row.number == log);
            return made.ok_or_else(|| store_rules::draft_gone().into());
        }
        write_initial(&transaction, &statements, log, header).await?;
        for owner in &owners {
            owner.write(&transaction, &state).await?;
        }
        let complete = AdoptedLog {
            key,
            number: log,
            position: head.position,
            last_update: head.last_update_time,
            create_time: head.create_time,
            ttl_us: head.ttl.map(duration_us),
            touched_us: touched_us(&transaction, head, now_us).await?,
            origin: head.origin.as_ref(),
        };
        decode_adopted(key, &adopt(&transaction, &complete).await?)
    };
    let finished = finished.await;
    let is_taken = matches!(
        finished,
        Err(Failure::Rejected(SessionError::AlreadyExists { .. }))
    );
    let finished = commit_or_roll_back(transaction, key, finished).await;
    if is_taken {
        let client = database.connection().await?;
        let sql = "UPDATE retain_logs SET purge_after_us = 0 \
                   WHERE number = $1 AND purge_after_us > 0";
        client.execute(sql, &[&log]).await?;
    }
    finished
}

/// Returns the time from which the TTL of an imported session counts, so that it expires together
/// with the exported one. Fails with `NotFound` if it has expired already.
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
        None => return Err(Failure::Transient("PostgreSQL did not return its time")),
    };
    if expires_us <= now_us {
        let key = head.key.clone();
        return Err(SessionError::NotFound { key }.into());
    }
    Ok(Some(store_rules::imported_touched_us(head, now_us)))
}

/// Begins the transaction, and locks the owners of shared state keys and the existing session with
/// this key.
async fn lock(
    transaction: &Transaction,
    statements: &AdoptStatements,
    state: &StateStatements,
    key: &SessionKey,
    shared: &ScopedState,
    now_us: Option<i64>,
) -> Result<(Vec<OwnerKeys>, Vec<Row>), Failure> {
    let SessionKey { app, user, id } = key;
    let (begun, owners, existing) = join!(
        biased;
        transaction.begin(),
        lock_owners(transaction, state, app, user, shared),
        transaction.query(&statements.lock_existing, [app, user, id, &now_us]),
    );
    begun?;
    Ok((owners?, existing?))
}

/// Writes position 0 of a draft: the initial state.
async fn write_initial(
    transaction: &Transaction,
    statements: &DraftStatements,
    log: i64,
    header: &LogHeader,
) -> Result<(), Error> {
    let initial = Json::from(header.initial.clone()).to_string();
    let own: JsonMap = store_rules::session_keys(&header.initial);
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
