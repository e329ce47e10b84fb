//! Creates a session, whose initial state is position 0 of its log.

use retain_core::{Json, LimitKind, NewSession, Result, SessionKey, check_limit, duration_us};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    draft::clear_key,
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{CachedHead, by_key, clock_us, head_columns, signed},
    state::{OwnStateChanges, OwnerKeys, StateStatements},
};

/// Writes the initial state of a session.
pub(super) const INITIAL: &str = "INSERT INTO retain_events \
    (log, position, event_id, invocation, timestamp, body) VALUES ($1, 0, '', '', $2, $3)";

statements! {
    /// Statements that create a session.
    CreateStatements {
        lock_existing: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_sessions WHERE ", by_key!(), " FOR UPDATE"
        ),
        // Log and session have the same number. Of two concurrent creates, one returns a row.
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

/// Creates a session. `made` is the number of the session that an earlier, unconfirmed attempt
/// created.
pub(super) async fn create(
    database: &Database,
    new: &NewSession,
    now_us: Option<i64>,
    made: &mut Option<i64>,
) -> Result<CachedHead, Failure> {
    let mut own = OwnStateChanges::default();
    own.set(0, &new.changes);
    check_limit(LimitKind::SessionState, own.bytes, new.state_bytes_max)?;
    let transaction = database.transaction().await?;
    let (statements, state) = join!(
        biased; CreateStatements::prepare(&transaction), StateStatements::prepare(&transaction)
    );
    let (statements, state) = (statements?, state?);
    let rows = begin(&transaction, &statements, &state, new, own.bytes, now_us);
    let decided = match rows.await {
        Ok(rows) => {
            decide_create(
                &transaction,
                &statements,
                new,
                own.bytes,
                now_us,
                rows,
                made,
            )
            .await
        }
        Err(failure) => Err(failure),
    };
    let (head, owners) = match decided {
        Ok(CreateOutcome::New(head, owners)) => (head, owners),
        Ok(CreateOutcome::Existing(head)) => {
            transaction.roll_back().await?;
            return Ok(head);
        }
        Err(failure) => {
            let _ = transaction.roll_back().await;
            return Err(failure);
        }
    };
    let number = head.row.number;
    *made = Some(number);
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
    transaction.release();
    Ok(head)
}

/// The rows that the first round trip returns.
struct CreateRows {
    app: Option<(Vec<Row>, Vec<Row>)>,
    user: Option<(Vec<Row>, Vec<Row>)>,
    existing: Vec<Row>,
    inserted: Vec<Row>,
}

/// The owners whose shared state changes: the app, the user.
type Owners = [Option<OwnerKeys>; 2];

enum CreateOutcome {
    /// The session was created.
    New(CachedHead, Box<Owners>),
    /// An earlier attempt of this call created the session.
    Existing(CachedHead),
}

/// Begins the transaction, locks the rows that may change, and inserts the head unless one exists.
async fn begin(
    transaction: &Transaction,
    statements: &CreateStatements,
    state: &StateStatements,
    new: &NewSession,
    bytes: usize,
    now_us: Option<i64>,
) -> Result<CreateRows, Failure> {
    let (app, user, id) = (&new.key.app, &new.key.user, &new.key.id);
    let app_keys: Vec<&str> = new.changes.app.keys().collect();
    let user_keys: Vec<&str> = new.changes.user.keys().collect();
    let lock_app = OwnerKeys::lock(transaction, state, app, "", &app_keys);
    let lock_user = OwnerKeys::lock(transaction, state, app, user, &user_keys);
    let (begun, app, user, existing, inserted) = join!(
        biased;
        transaction.begin(),
        if_some((!app_keys.is_empty()).then_some(lock_app)),
        if_some((!user_keys.is_empty()).then_some(lock_user)),
        transaction.query(&statements.lock_existing, [app, user, id, &now_us]),
        insert(transaction, statements, new, bytes, now_us),
    );
    begun?;
    Ok(CreateRows {
        app: app?,
        user: user?,
        existing: existing?,
        inserted: inserted?,
    })
}

async fn insert(
    transaction: &Transaction,
    statements: &CreateStatements,
    new: &NewSession,
    bytes: usize,
    now_us: Option<i64>,
) -> Result<Vec<Row>, Error> {
    let SessionKey { app, user, id } = &new.key;
    let (ttl_us, bytes) = (new.ttl.map(duration_us), signed(bytes as u64));
    let params: [Param<'_>; _] = [app, user, id, &new.create_time, &now_us, &ttl_us, &bytes];
    transaction.query(&statements.insert, params).await
}

/// Decides the outcome from the rows of the first round trip. Replaces an expired session.
async fn decide_create(
    transaction: &Transaction,
    statements: &CreateStatements,
    new: &NewSession,
    bytes: usize,
    now_us: Option<i64>,
    rows: CreateRows,
    made: &Option<i64>,
) -> Result<CreateOutcome, Failure> {
    let (app, user) = (&new.key.app, &new.key.user);
    let mut inserted = rows.inserted;
    if !rows.existing.is_empty() {
        if let Some(head) = clear_key(transaction, &new.key, &rows.existing, *made).await? {
            return Ok(CreateOutcome::Existing(head));
        }
        inserted = insert(transaction, statements, new, bytes, now_us).await?;
    }
    let Some(row) = inserted.first() else {
        // A concurrent writer, perhaps an earlier attempt of this call, created the session.
        return Err(Failure::Transient(
            "another writer created the session concurrently",
        ));
    };
    let head = CachedHead::read(row)?;
    let mut owners = [None, None];
    for (index, (user, found, keys)) in [
        ("", rows.app, &new.changes.app),
        (user, rows.user, &new.changes.user),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(found) = found {
            let mut owner = OwnerKeys::new(app, user, found)?;
            owner.set(keys, new.state_bytes_max)?;
            owners[index] = Some(owner);
        }
    }
    Ok(CreateOutcome::New(head, Box::new(owners)))
}
