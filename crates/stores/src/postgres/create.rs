//! Creates a session: its state is position 0 of its log.

use retain_core::{
    Json, LimitKind, NewSession, Result, SessionError, SessionKey, check_limit, duration_us,
};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    delete::{Burial, bury},
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{CachedHead, by_key, clock_us, head_columns, signed},
    state::{OwnerKeys, SessionStateText, StateStatements},
};

/// Writes the state that a session is created with.
pub(super) const INITIAL: &str = "INSERT INTO retain_events \
    (log, position, event_id, invocation, timestamp, body) VALUES ($1, 0, '', '', $2, $3)";

statements! {
    /// Reads and writes of creating a session.
    Statements {
        there: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_sessions WHERE ", by_key!(), " FOR UPDATE"
        ),
        // The number of the log is that of the session. Of two at once, one gets a row.
        insert: concat!(
            "WITH log AS (INSERT INTO retain_logs (purge_after_us) SELECT NULL::int8 \
             WHERE NOT EXISTS (SELECT 1 FROM retain_sessions \
             WHERE app = $1 AND user_id = $2 AND id = $3) RETURNING number) \
             INSERT INTO retain_sessions (number, app, user_id, id, position, last_update, \
             create_time, touched_us, ttl_us, lease_token, state_bytes) \
             SELECT number, $1::text, $2::text, $3::text, 0, $4::float8, $4::float8, \
             coalesce($5::int8, ", clock_us!(), "), $6::int8, number << 32, $7::int8 FROM log \
             ON CONFLICT (app, user_id, id) DO NOTHING RETURNING ", head_columns!()
        ),
        initial: INITIAL,
    }
}

/// Creates a session. `made` is the number that an earlier attempt gave it, if its commit was not
/// confirmed.
pub(super) async fn create(
    database: &Database,
    new: &NewSession,
    now_us: Option<i64>,
    made: &mut Option<i64>,
) -> Result<CachedHead, Failure> {
    let mut own = SessionStateText::default();
    own.set(0, &new.changes);
    check_limit(LimitKind::SessionState, own.bytes, new.state_bytes_max)?;
    let transaction = database.transaction().await?;
    let (statements, state) = join!(
        biased; Statements::prepare(&transaction), StateStatements::prepare(&transaction)
    );
    let (statements, state) = (statements?, state?);
    let begun = begin(&transaction, &statements, &state, new, own.bytes, now_us);
    let begun = match begun.await {
        Ok(begun) => {
            settle(
                &transaction,
                &statements,
                new,
                own.bytes,
                now_us,
                begun,
                made,
            )
            .await
        }
        Err(failure) => Err(failure),
    };
    let (known, owners) = match begun {
        Ok(CreateOutcome::New(known, owners)) => (known, owners),
        Ok(CreateOutcome::Made(known)) => {
            transaction.roll_back().await?;
            return Ok(known);
        }
        Err(failure) => {
            let _ = transaction.roll_back().await;
            return Err(failure);
        }
    };
    *made = Some(known.row.number);
    let number = known.row.number;
    let initial = Json::from(new.initial.clone()).to_string();
    let body = initial.as_bytes();
    let [app, user] = &*owners;
    let (app, user, written, own, ended) = join!(
        biased;
        if_some(app.as_ref().map(|app| app.write(&transaction, &state))),
        if_some(user.as_ref().map(|user| user.write(&transaction, &state))),
        transaction.execute(&statements.initial, [&number, &new.create_time, &body]),
        own.write(&transaction, &state, number),
        transaction.commit(),
    );
    app?;
    user?;
    written?;
    own?;
    ended?;
    transaction.ended();
    Ok(known)
}

/// What the first round trip returns.
struct CreateAnswers {
    app: Option<(Vec<Row>, Vec<Row>)>,
    user: Option<(Vec<Row>, Vec<Row>)>,
    there: Vec<Row>,
    inserted: Vec<Row>,
}

/// The owners whose shared keys are set: the app, the user.
type Owners = [Option<OwnerKeys>; 2];

enum CreateOutcome {
    /// The session was created.
    New(CachedHead, Box<Owners>),
    /// An earlier attempt of this call created it.
    Made(CachedHead),
}

/// Locks what will change and makes the row, if there is none.
async fn begin(
    transaction: &Transaction,
    statements: &Statements,
    state: &StateStatements,
    new: &NewSession,
    bytes: usize,
    now_us: Option<i64>,
) -> Result<CreateAnswers, Failure> {
    let (app, user, id) = (&new.key.app, &new.key.user, &new.key.id);
    let app_keys: Vec<&str> = new.changes.app.keys().collect();
    let user_keys: Vec<&str> = new.changes.user.keys().collect();
    let lock_app = OwnerKeys::lock(transaction, state, app, "", &app_keys);
    let lock_user = OwnerKeys::lock(transaction, state, app, user, &user_keys);
    let (begun, app, user, there, inserted) = join!(
        biased;
        transaction.begin(),
        if_some((!app_keys.is_empty()).then_some(lock_app)),
        if_some((!user_keys.is_empty()).then_some(lock_user)),
        transaction.query(&statements.there, [app, user, id, &now_us]),
        insert(transaction, statements, new, bytes, now_us),
    );
    begun?;
    Ok(CreateAnswers {
        app: app?,
        user: user?,
        there: there?,
        inserted: inserted?,
    })
}

async fn insert(
    transaction: &Transaction,
    statements: &Statements,
    new: &NewSession,
    bytes: usize,
    now_us: Option<i64>,
) -> Result<Vec<Row>, Error> {
    let SessionKey { app, user, id } = &new.key;
    let (ttl_us, bytes) = (new.ttl.map(duration_us), signed(bytes as u64));
    let params: [Param<'_>; _] = [app, user, id, &new.create_time, &now_us, &ttl_us, &bytes];
    transaction.query(&statements.insert, params).await
}

/// Decides what the rows mean. An expired session is replaced.
async fn settle(
    transaction: &Transaction,
    statements: &Statements,
    new: &NewSession,
    bytes: usize,
    now_us: Option<i64>,
    begun: CreateAnswers,
    made: &Option<i64>,
) -> Result<CreateOutcome, Failure> {
    let (app, user) = (&new.key.app, &new.key.user);
    let there = begun.there.first();
    let mut inserted = begun.inserted;
    if let Some(row) = there {
        let (known, now_us_there): (CachedHead, i64) = (CachedHead::read(row)?, row.try_get(13)?);
        if *made == Some(known.row.number) {
            return Ok(CreateOutcome::Made(known));
        }
        if !known.row.is_alive(now_us_there) {
            let burial = Burial::prepare(transaction).await?;
            bury(transaction, &burial, &[known.row.number]).await?;
            inserted = insert(transaction, statements, new, bytes, now_us).await?;
        }
    }
    let Some(row) = inserted.first() else {
        // Another writer was faster, perhaps an earlier attempt of this call.
        if there.is_none() {
            return Err(Failure::Again(
                "a session of this name was created at this moment",
            ));
        }
        let key = new.key.clone();
        return Err(SessionError::AlreadyExists { key }.into());
    };
    let known = CachedHead::read(row)?;
    let mut owners = [None, None];
    for (place, (user, found, keys)) in [
        ("", begun.app, &new.changes.app),
        (user, begun.user, &new.changes.user),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(found) = found {
            let mut owner = OwnerKeys::new(app, user, found)?;
            owner.set(keys, new.state_bytes_max)?;
            owners[place] = Some(owner);
        }
    }
    Ok(CreateOutcome::New(known, Box::new(owners)))
}
