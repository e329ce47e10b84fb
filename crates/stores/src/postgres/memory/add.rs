//! Adds memories: one round trip locks and reads, a second one writes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
};

use retain_core::{
    ExistingMemory, IngestReceipt, MemoryBatch, MemoryPlan, MemoryTotals, MemoryVector,
    PreparedMemory, Tombstone, plan_batch, plan_growth,
};
use tokio::join;
use tokio_postgres::{Error, Row, Statement};

use super::{
    Outcome,
    models::ModelNumbers,
    or_roll_back, read,
    rows::signed,
    scope::{self, ScopeStatements},
};
use crate::{
    postgres::{
        erase::FenceStatements,
        named_sql::NamedSql,
        pool::{Database, Param, Transaction, if_some, statements},
        rows::unsigned,
    },
    sql::memory::{ScopeRow, count_plans, kind_number, origin_number, own_event_id},
};

/// Maximum number of memories that one statement writes.
const ROWS_MAX: usize = 1000;

/// Approximate maximum of bytes that one statement writes: client and server buffer the statement.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The memory columns that are sent as arrays, with their types.
macro_rules! arrays {
    () => {
        "unnest({seq}::int8[], {id}::text[], {kind}::int2[], {origin}::int2[], {tool}::bytea[], \
         {session}::text[], {position}::int8[], {event_id}::bytea[], {author}::bytea[], \
         {timestamp}::float8[], {expires_us}::int8[], {body_hash}::int8[], \
         {custom_metadata}::bytea[], {content}::bytea[], {fixed_model}::int8[], {fixed}::bytea[], \
         {embedding_model}::int8[], {embedding}::bytea[]) AS new \
         (seq, id, kind, origin, tool, session, position, event_id, author, timestamp, expires_us, \
          body_hash, custom_metadata, content, fixed_model, fixed, embedding_model, embedding)"
    };
}

const INSERT: &str = concat!(
    "INSERT INTO retain_memories (scope, revision, created_us, seq, id, kind, origin, tool, \
     session, position, event_id, author, timestamp, expires_us, body_hash, custom_metadata, \
     content, fixed_model, fixed, embedding_model, embedding) \
     SELECT {scope}::int8, {revision}::int8, {created_us}::int8, new.* FROM ",
    arrays!()
);

const REPLACE: &str = concat!(
    "UPDATE retain_memories m SET revision = {revision}, updated_us = NULL, kind = new.kind, \
     origin = new.origin, tool = new.tool, position = new.position, event_id = new.event_id, \
     author = new.author, timestamp = new.timestamp, expires_us = new.expires_us, \
     body_hash = new.body_hash, custom_metadata = new.custom_metadata, content = new.content, \
     fixed_model = new.fixed_model, fixed = new.fixed, embedding_model = new.embedding_model, \
     embedding = new.embedding FROM ",
    arrays!(),
    " WHERE m.scope = {scope} AND m.seq = new.seq"
);

statements! {
    AddStatements {
        existing: read::EXISTING,
        tombstones: "SELECT hash FROM retain_memory_tombstones WHERE scope = \
                     (SELECT number FROM retain_memory_scopes \
                      WHERE app = $1 AND user_id = $2 AND tombstones > 0) \
                     AND hash = ANY($3::bytea[])",
    }
}

/// Adds a batch; returns `None` if users were erased since their number was `erasures`. `unconfirmed`
/// is the receipt of an earlier attempt whose commit was not confirmed.
pub(super) async fn add(
    database: &Database,
    models: &ModelNumbers,
    batch: &MemoryBatch,
    erasures: Option<u64>,
    unconfirmed: &mut Option<IngestReceipt>,
) -> Outcome<Option<IngestReceipt>> {
    models
        .register_models(database, list_vectors(&batch.memories))
        .await?;
    let transaction = database.transaction().await?;
    let (scopes, statements, fence) = join!(
        biased;
        ScopeStatements::prepare(&transaction),
        AddStatements::prepare(&transaction),
        FenceStatements::prepare(&transaction),
    );
    let (scopes, statements, fence) = (scopes?, statements?, fence?);
    let fence = erasures.map(|erasures| (&fence, erasures));
    let earlier = *unconfirmed;
    let planned = async {
        let existing = lock_and_read(&transaction, &scopes, &statements, fence, batch).await?;
        let Some(existing) = existing else {
            return Ok((None, None));
        };
        let (plans, totals) = existing.plan(batch)?;
        let receipt = count_plans(&plans);
        if receipt.added + receipt.replaced == 0 {
            return Ok((None, Some(earlier.unwrap_or(receipt))));
        }
        let mut row = match existing.row {
            Some(row) => row,
            None => scope::create(&transaction, &scopes, &batch.scope).await?,
        };
        row.totals = totals;
        Ok((Some((row, plans)), Some(receipt)))
    };
    let planned = planned.await;
    let (transaction, (work, receipt)) = or_roll_back(transaction, planned).await?;
    let Some((mut row, plans)) = work else {
        transaction.roll_back().await?;
        return Ok(receipt);
    };
    let writes = MemoryWrites::from_plans(&mut row, batch, &plans, models);
    *unconfirmed = receipt;
    writes
        .send(&transaction, &scopes, &mut row, batch.now_us)
        .await?;
    transaction.release();
    Ok(receipt)
}

pub(super) fn list_vectors<'a>(
    memories: impl IntoIterator<Item = &'a PreparedMemory>,
) -> Vec<&'a MemoryVector> {
    let vectors = memories.into_iter().map(|memory| &memory.new.vectors);
    let vectors = vectors.flat_map(|both| [both.fixed.as_ref(), both.embedding.as_ref()]);
    vectors.flatten().collect()
}

/// The stored rows that decide how a batch is added.
struct ExistingRows {
    row: Option<ScopeRow>,
    memories: HashMap<String, Vec<ExistingMemory>>,
    tombstones: HashSet<Tombstone>,
}

/// Begins the transaction, locks the scope, and reads the rows that the batch may conflict with.
/// Returns `None` if the number of erasures differs from that of `fence`.
async fn lock_and_read(
    transaction: &Transaction,
    scopes: &ScopeStatements,
    statements: &AddStatements,
    fence: Option<(&FenceStatements, u64)>,
    batch: &MemoryBatch,
) -> Outcome<Option<ExistingRows>> {
    let (app, user) = (&batch.scope.app, &batch.scope.user);
    let ids: Vec<&str> = batch.memories.iter().map(|it| it.new.id.as_str()).collect();
    let hashes: Vec<Tombstone> = batch
        .memories
        .iter()
        .flat_map(|it| tombstones_for(batch, it))
        .collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
    let statement = |of: fn(&FenceStatements) -> &Statement| fence.map(|(it, _)| of(it));
    let (begun, shared, count, row, memories, tombstones) = join!(
        biased;
        transaction.begin(),
        if_some(statement(|it| &it.share).map(|it| transaction.query(it, []))),
        if_some(statement(|it| &it.count).map(|it| transaction.query(it, []))),
        // The statements that follow see the commits of earlier lock holders.
        transaction.query(&scopes.lock, [app, user]),
        transaction.query(&statements.existing, [app, user, &ids]),
        transaction.query(&statements.tombstones, [app, user, &hashes]),
    );
    begun?;
    shared?;
    if let (Some((_, erasures)), Some(count)) = (fence, count?) {
        let count = count.first().map(|row| unsigned(row, 0)).transpose()?;
        if count != Some(erasures) {
            return Ok(None);
        }
    }
    Ok(Some(ExistingRows {
        row: scope::read_locked(&row?)?,
        memories: read::group_by_id(&memories?)?,
        tombstones: read_tombstones(&tombstones?)?,
    }))
}

fn read_tombstones(rows: &[Row]) -> Result<HashSet<Tombstone>, Error> {
    let mut hashes = HashSet::new();
    for row in rows {
        let hash = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(0)?);
        hashes.extend(hash.map(Tombstone));
    }
    Ok(hashes)
}

/// Returns the two possible tombstones of a memory. If it was forgotten, one of them exists.
fn tombstones_for(batch: &MemoryBatch, memory: &PreparedMemory) -> [Tombstone; 2] {
    Tombstone::excluding(&batch.scope, memory.new.session.as_deref(), &memory.new.id)
}

impl ExistingRows {
    fn plan(&self, batch: &MemoryBatch) -> Outcome<(Vec<MemoryPlan>, MemoryTotals)> {
        let last_seq = self.row.as_ref().map_or(0, |row| row.last_seq);
        let plans = plan_batch(batch, last_seq, |memory| -> Result<_, Infallible> {
            let same_id = self.memories.get(&memory.new.id).cloned();
            let has_tombstone = |hash: &Tombstone| self.tombstones.contains(hash);
            let is_forgotten = tombstones_for(batch, memory).iter().any(has_tombstone);
            Ok((same_id.unwrap_or_default(), is_forgotten))
        });
        let Ok(plans) = plans;
        let before = self.row.as_ref().map(|row| row.totals);
        let totals = plan_growth(before.unwrap_or_default(), batch, &plans)?;
        Ok((plans, totals))
    }
}

/// The rows to write, in chunks.
struct MemoryWrites<'a> {
    inserts: Vec<MemoryColumns<'a>>,
    replaces: Vec<MemoryColumns<'a>>,
    touched: Vec<u64>,
}

impl<'a> MemoryWrites<'a> {
    /// Collects the rows that the plans write. The last plan for a row wins.
    fn from_plans(
        row: &mut ScopeRow,
        batch: &'a MemoryBatch,
        plans: &[MemoryPlan],
        models: &ModelNumbers,
    ) -> MemoryWrites<'a> {
        let last = row.last_seq;
        let mut memories: BTreeMap<u64, &PreparedMemory> = BTreeMap::new();
        let mut touched = Vec::new();
        for (memory, plan) in batch.memories.iter().zip(plans) {
            match plan {
                MemoryPlan::Insert => {
                    row.last_seq += 1;
                    memories.insert(row.last_seq, memory);
                }
                MemoryPlan::Replace { seq, .. } => {
                    memories.insert(*seq, memory);
                    touched.push(*seq);
                }
                MemoryPlan::Unchanged | MemoryPlan::Forgotten => {}
            }
        }
        let new = memories.split_off(&(last + 1));
        MemoryWrites {
            inserts: build_chunks(new, models),
            replaces: build_chunks(memories, models),
            touched,
        }
    }

    /// Writes the rows and commits. Pipelines the last chunks with the commit to save a round trip.
    async fn send(
        mut self,
        transaction: &Transaction,
        scopes: &ScopeStatements,
        row: &mut ScopeRow,
        now_us: i64,
    ) -> Result<(), Error> {
        let (number, revision) = (row.number, signed(row.revision + 1));
        let (insert, replace) = (self.inserts.pop(), self.replaces.pop());
        for chunk in &self.inserts {
            let insert = chunk.insert(&number, &revision, &now_us);
            transaction.run(&insert).await?;
        }
        for chunk in &self.replaces {
            transaction.run(&chunk.replace(&number, &revision)).await?;
        }
        let insert = insert.as_ref();
        let insert = insert.map(|chunk| chunk.insert(&number, &revision, &now_us));
        let replace = replace.as_ref();
        let replace = replace.map(|chunk| chunk.replace(&number, &revision));
        // Prepare before the pipeline, because preparing a statement waits for an answer, once per
        // connection.
        for sql in [&insert, &replace].into_iter().flatten() {
            transaction.prepare(sql.text()).await?;
        }
        let (inserted, replaced, touched, committed) = join!(
            biased;
            if_some(insert.as_ref().map(|insert| transaction.run(insert))),
            if_some(replace.as_ref().map(|replace| transaction.run(replace))),
            scope::touch(transaction, scopes, row, &self.touched),
            transaction.commit(),
        );
        inserted?;
        replaced?;
        touched?;
        committed
    }
}

pub(super) fn build_chunks<'a>(
    memories: BTreeMap<u64, &'a PreparedMemory>,
    models: &ModelNumbers,
) -> Vec<MemoryColumns<'a>> {
    let mut chunks: Vec<MemoryColumns<'a>> = Vec::new();
    for (seq, memory) in memories {
        let has_room = chunks.last().is_some_and(MemoryColumns::has_room);
        if !has_room {
            chunks.push(MemoryColumns::default());
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(seq, memory, models);
        }
    }
    chunks
}

/// Memories as one array per column.
#[derive(Default)]
pub(super) struct MemoryColumns<'a> {
    bytes: usize,
    seqs: Vec<i64>,
    ids: Vec<&'a str>,
    kinds: Vec<i16>,
    origins: Vec<i16>,
    tools: Vec<Option<&'a [u8]>>,
    sessions: Vec<Option<&'a str>>,
    positions: Vec<i64>,
    event_ids: Vec<Option<&'a [u8]>>,
    authors: Vec<Option<&'a [u8]>>,
    times: Vec<f64>,
    expiries: Vec<Option<i64>>,
    hashes: Vec<i64>,
    metadata: Vec<Option<&'a [u8]>>,
    contents: Vec<&'a [u8]>,
    fixed_models: Vec<Option<i64>>,
    fixed: Vec<Option<&'a [u8]>>,
    models: Vec<Option<i64>>,
    embeddings: Vec<Option<&'a [u8]>>,
}

impl<'a> MemoryColumns<'a> {
    fn has_room(&self) -> bool {
        self.seqs.len() < ROWS_MAX && self.bytes < BYTES_MAX
    }

    fn push(&mut self, seq: u64, memory: &'a PreparedMemory, models: &ModelNumbers) {
        let new = &memory.new;
        let (fixed, embedding) = (new.vectors.fixed.as_ref(), new.vectors.embedding.as_ref());
        self.bytes += memory.bytes() as usize;
        self.seqs.push(signed(seq));
        self.ids.push(&new.id);
        self.kinds.push(kind_number(new.kind) as i16);
        self.origins.push(origin_number(&new.origin) as i16);
        self.tools.push(new.origin.tool().map(str::as_bytes));
        self.sessions.push(new.session.as_deref());
        self.positions.push(signed(new.position));
        self.event_ids.push(own_event_id(memory).map(str::as_bytes));
        self.authors.push(new.author.as_ref().map(String::as_bytes));
        self.times.push(new.timestamp);
        self.expiries.push(new.expires_us);
        self.hashes.push(memory.body_hash as i64);
        self.metadata
            .push(memory.metadata_json.as_ref().map(String::as_bytes));
        self.contents.push(memory.content_json.as_bytes());
        self.fixed_models.push(models.number(fixed));
        self.fixed.push(fixed.map(|vector| vector.bytes.as_slice()));
        self.models.push(models.number(embedding));
        self.embeddings
            .push(embedding.map(|vector| vector.bytes.as_slice()));
    }

    /// Builds the statement that inserts the rows.
    pub(super) fn insert<'p>(
        &'p self,
        scope: &'p i64,
        revision: &'p i64,
        created_us: &'p i64,
    ) -> NamedSql<'p> {
        let mut sql = self.bind(scope, revision);
        sql.bind("created_us", created_us);
        sql.push(INSERT);
        sql
    }

    /// Builds the statement that replaces rows.
    fn replace<'p>(&'p self, scope: &'p i64, revision: &'p i64) -> NamedSql<'p> {
        let mut sql = self.bind(scope, revision);
        sql.push(REPLACE);
        sql
    }

    fn bind<'p>(&'p self, scope: &'p i64, revision: &'p i64) -> NamedSql<'p> {
        let columns: [(&'static str, Param<'p>); _] = [
            ("scope", scope),
            ("revision", revision),
            ("seq", &self.seqs),
            ("id", &self.ids),
            ("kind", &self.kinds),
            ("origin", &self.origins),
            ("tool", &self.tools),
            ("session", &self.sessions),
            ("position", &self.positions),
            ("event_id", &self.event_ids),
            ("author", &self.authors),
            ("timestamp", &self.times),
            ("expires_us", &self.expiries),
            ("body_hash", &self.hashes),
            ("custom_metadata", &self.metadata),
            ("content", &self.contents),
            ("fixed_model", &self.fixed_models),
            ("fixed", &self.fixed),
            ("embedding_model", &self.models),
            ("embedding", &self.embeddings),
        ];
        let mut sql = NamedSql::default();
        for (name, values) in columns {
            sql.bind(name, values);
        }
        sql
    }
}
