//! Migrates memories and the tombstones of forgotten memories.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::{
    TryStreamExt as _,
    future::try_join,
    stream::{self, BoxStream},
};

use super::{
    Section, Side,
    compare::{HashPair, RecordField, digest_of, hex, json_text},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    steps::{BatchSize, PAGE, StorePair, pages},
    survey::SideSurvey,
};
use crate::memory::{
    MemoryError, MemoryKind, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope,
    MemoryStatistics, MemoryStore, MemoryVector, NewMemory, PreparedMemory, SourceMemory,
    Tombstone,
};

#[derive(Debug)]
pub(super) struct Memories {
    stores: StorePair<dyn MemoryStore>,
}

/// A memory, and the hash of the body with which it was ingested.
type HashedMemory = (MemoryRecord, u64);

impl Memories {
    pub(super) fn new(stores: StorePair<dyn MemoryStore>) -> Memories {
        Memories { stores }
    }

    fn scopes(&self, side: Side) -> BoxStream<'_, Result<Vec<MemoryScope>>> {
        pages(move |after: Option<MemoryScope>| {
            Box::pin(async move {
                let scopes = self.stores.at(side).scopes(after.as_ref(), PAGE).await;
                scopes.map_err(failed("the list of users with memories"))
            })
        })
    }

    fn tombstones<'a>(
        &'a self,
        side: Side,
        scope: &'a MemoryScope,
    ) -> BoxStream<'a, Result<Vec<Tombstone>>> {
        pages(move |after: Option<Tombstone>| {
            Box::pin(async move {
                let hashes = self.stores.at(side).tombstones(scope, after, PAGE).await;
                hashes.map_err(failed(name_of(scope)))
            })
        })
    }

    /// Returns the statistics of one side, including expired memories that were not deleted yet.
    async fn statistics(&self, side: Side, scope: &MemoryScope) -> Result<MemoryStatistics> {
        let counted = self.stores.at(side).statistics(scope, i64::MIN).await;
        counted.map_err(failed(name_of(scope)))
    }

    async fn rows(
        &self,
        side: Side,
        scope: &MemoryScope,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<HashedMemory>> {
        let store = &**self.stores.at(side);
        let rows = read_hashed_memories(store, scope, seq, limit).await;
        let rows = rows.map_err(failed(name_of(scope)))?.into_iter();
        let rows = rows.map(|(row, hash)| {
            let id = &row.info.id;
            let deleted = || format!("memory {id:?} was deleted during the migration");
            match hash {
                Some(hash) => Ok((row, hash)),
                None => Err(failed(name_of(scope))(deleted())),
            }
        });
        rows.collect()
    }

    /// Compares the target's memories with as many memories from the beginning of the source.
    /// Returns their number and the first difference.
    async fn compare_beginning(&self, scope: &MemoryScope) -> Result<(u64, Option<String>)> {
        let (mut seq, mut count, mut batch_size) = (0, 0, BatchSize::new());
        loop {
            let to = self
                .rows(Side::Target, scope, seq, batch_size.step())
                .await?;
            let Some((last, _)) = to.last() else {
                break;
            };
            let from = self.rows(Side::Source, scope, seq, to.len()).await?;
            seq = last.info.seq;
            count += to.len() as u64;
            let (from, to) = (fields(&from)?, fields(&to)?);
            batch_size.adapt(to.len(), to.iter().map(RecordField::bytes).sum());
            let difference = HashPair::default().compare(&from, &to);
            if difference.is_some() {
                return Ok((count, difference));
            }
        }
        let mark = self
            .stores
            .to
            .mark(scope)
            .await
            .map_err(failed(name_of(scope)))?;
        let difference =
            (mark.last_seq != seq).then(|| "some of them were deleted from the target".to_owned());
        Ok((count, difference))
    }

    /// Describes the first tombstone of the target that the source lacks.
    async fn unknown_tombstone(&self, scope: &MemoryScope) -> Result<Option<String>> {
        let all = |side| {
            let pages = self.tombstones(side, scope);
            pages
                .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
                .try_flatten()
        };
        let (mut from, mut to) = (all(Side::Source), all(Side::Target));
        let mut hash = from.try_next().await?;
        while let Some(target) = to.try_next().await? {
            while hash.is_some_and(|hash| hash < target) {
                hash = from.try_next().await?;
            }
            if hash != Some(target) {
                return Ok(Some(format!(
                    "the hash {} of a forgotten memory is in the target only",
                    hex(&target.0)
                )));
            }
        }
        Ok(None)
    }

    async fn restore(&self, restore: MemoryRestore) -> Result<()> {
        let what = name_of(&restore.scope);
        let steps = restore.memories.len() + restore.tombstones.len();
        let restored = self.stores.to.restore(Arc::new(restore)).await;
        restored.map_err(failed(what))?;
        self.stores.observer.advance(steps as u64);
        Ok(())
    }

    async fn copy_rows(&self, scope: &MemoryScope) -> Result<u64> {
        let mark = self
            .stores
            .to
            .mark(scope)
            .await
            .map_err(failed(name_of(scope)))?;
        let (mut seq, mut count, mut batch_size) = (mark.last_seq, 0, BatchSize::new());
        loop {
            let rows = self
                .rows(Side::Source, scope, seq, batch_size.step())
                .await?;
            let Some((last, _)) = rows.last() else {
                return Ok(count);
            };
            seq = last.info.seq;
            count += rows.len() as u64;
            let memories = rows.into_iter().map(|row| source_memory(scope, row));
            let memories = memories.collect::<Result<Vec<_>>>()?;
            batch_size.adapt(memories.len(), memories.iter().map(bytes_of).sum());
            let restore = MemoryRestore {
                scope: scope.clone(),
                memories,
                tombstones: Vec::new(),
            };
            self.restore(restore).await?;
        }
    }

    async fn copy_tombstones(&self, scope: &MemoryScope) -> Result<u64> {
        let (from, to) = try_join(
            self.statistics(Side::Source, scope),
            self.statistics(Side::Target, scope),
        )
        .await?;
        let missing = from.tombstones.saturating_sub(to.tombstones);
        let mut pages = self.tombstones(Side::Source, scope);
        while missing > 0
            && let Some(tombstones) = pages.try_next().await?
        {
            let restore = MemoryRestore {
                scope: scope.clone(),
                memories: Vec::new(),
                tombstones,
            };
            self.restore(restore).await?;
        }
        Ok(missing)
    }

    async fn verify_rows(&self, scope: &MemoryScope, both: &mut HashPair) -> Result<u64> {
        let (mut seq, mut count, mut batch_size) = (0, 0, BatchSize::new());
        loop {
            let (from, to) = try_join(
                self.rows(Side::Source, scope, seq, batch_size.step()),
                self.rows(Side::Target, scope, seq, batch_size.step()),
            )
            .await?;
            let (source, target) = (fields(&from)?, fields(&to)?);
            if let Some(difference) = both.compare(&source, &target) {
                return Err(MigrationError::mismatch(name_of(scope), difference));
            }
            let Some((last, _)) = from.last() else {
                return Ok(count);
            };
            seq = last.info.seq;
            count += from.len() as u64;
            self.stores.observer.advance(from.len() as u64);
            batch_size.adapt(source.len(), source.iter().map(RecordField::bytes).sum());
        }
    }

    async fn verify_tombstones(&self, scope: &MemoryScope, both: &mut HashPair) -> Result<u64> {
        let mut from = self.tombstones(Side::Source, scope);
        let mut to = self.tombstones(Side::Target, scope);
        let mut count = 0;
        loop {
            let (source, target) = try_join(from.try_next(), to.try_next()).await?;
            if source.is_none() && target.is_none() {
                return Ok(count);
            }
            let fields = |page: Option<Vec<Tombstone>>| {
                let hashes = page.into_iter().flatten().map(|hash| hex(&hash.0));
                let fields = hashes.map(|hash| RecordField::new(format!("hash {hash}"), hash));
                fields.collect::<Vec<_>>()
            };
            let (source, target) = (fields(source), fields(target));
            if let Some(difference) = both.compare(&source, &target) {
                return Err(MigrationError::mismatch(name_of(scope), difference));
            }
            count += source.len() as u64;
            self.stores.observer.advance(source.len() as u64);
        }
    }
}

/// Reads memories after a number with the hashes of their bodies as ingested; the hash of a memory
/// that was deleted meanwhile is `None`.
pub(crate) async fn read_hashed_memories(
    store: &dyn MemoryStore,
    scope: &MemoryScope,
    seq: u64,
    limit: usize,
) -> Result<Vec<(MemoryRecord, Option<u64>)>, MemoryError> {
    let rows = MemoryRows::After { seq, limit };
    let rows = store.rows(scope, rows, true).await?;
    let mut by_session: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let session = row.info.session.as_deref();
        by_session.entry(session).or_default().push(index);
    }
    let mut hashes = vec![None; rows.len()];
    for (session, indexes) in by_session {
        let ids: Vec<String> = indexes.iter().map(|at| rows[*at].info.id.clone()).collect();
        let found = store.body_hashes(scope, session, &ids).await?;
        for (index, hash) in indexes.into_iter().zip(found) {
            hashes[index] = hash;
        }
    }
    Ok(rows.into_iter().zip(hashes).collect())
}

fn name_of(scope: &MemoryScope) -> String {
    format!("memories of user {:?} of app {:?}", scope.user, scope.app)
}

fn bytes_of(source: &SourceMemory) -> usize {
    let vectors = &source.memory.new.vectors;
    let vectors = vectors.fixed.iter().chain(&vectors.embedding);
    let vectors: usize = vectors.map(|vector| vector.bytes.len()).sum();
    vectors + source.memory.bytes() as usize
}

/// Converts a memory to the form that another store restores.
fn source_memory(scope: &MemoryScope, (record, body_hash): HashedMemory) -> Result<SourceMemory> {
    let info = record.info;
    let memory = PreparedMemory::new(NewMemory {
        id: info.id,
        kind: info.kind,
        session: info.session,
        position: info.position,
        event_id: info.event_id,
        author: info.author,
        origin: info.origin,
        timestamp: info.timestamp,
        expires_us: info.expires_us,
        content: record.content,
        custom_metadata: info.custom_metadata,
        vectors: record.vectors,
    });
    let mut memory = memory.map_err(failed(name_of(scope)))?;
    // The hash of the ingested body, which differs from the current one after an edit.
    memory.body_hash = body_hash;
    Ok(SourceMemory {
        seq: info.seq,
        memory,
        created_us: info.created_us,
        updated_us: info.updated_us,
    })
}

fn fields(rows: &[HashedMemory]) -> Result<Vec<RecordField>> {
    rows.iter().map(field).collect()
}

/// Returns a memory as a field for comparison, without the revision, which each store counts
/// itself.
fn field((record, body_hash): &HashedMemory) -> Result<RecordField> {
    let info = &record.info;
    let name = format!("memory {:?} (number {})", info.id, info.seq);
    // A memory of kind `Turn` without an event id has its own id as event id.
    let event_id = match info.kind {
        MemoryKind::Turn => info.event_id.as_ref().or(Some(&info.id)),
        MemoryKind::Direct => None,
    };
    let properties = format!(
        "{:?} {:?} {} {event_id:?} {:?} {:?} {} {} {:?} {:?} {body_hash:x} {} {}",
        info.kind,
        info.session,
        info.position,
        info.author,
        info.origin,
        info.timestamp.to_bits(),
        info.created_us,
        info.updated_us,
        info.expires_us,
        vector_text(record.vectors.fixed.as_ref()),
        vector_text(record.vectors.embedding.as_ref()),
    );
    let metadata = json_text(&name, &info.custom_metadata)?;
    let content = record.content.to_json().map_err(failed(name.as_str()))?;
    Ok(RecordField::new(
        name,
        [properties, metadata, content].join("\n"),
    ))
}

fn vector_text(vector: Option<&MemoryVector>) -> String {
    let text = |it: &MemoryVector| format!("{:?} {} {}", it.model, it.dims, digest_of(&it.bytes));
    vector.map(text).unwrap_or_default()
}

#[async_trait]
impl Section for Memories {
    fn name(&self) -> &'static str {
        "memories"
    }

    async fn survey(&self, side: Side) -> Result<SideSurvey> {
        let mut survey = SideSurvey::default();
        let mut pages = self.scopes(side);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                let counted = self.statistics(side, &scope).await?;
                survey.counts.memories += counted.entries;
                survey.counts.tombstones += counted.tombstones;
                let mark = self.stores.at(side).mark(&scope).await;
                let mark = mark.map_err(failed(name_of(&scope)))?;
                survey.add(
                    &[name_of(&scope).as_bytes(), format!("{mark:?}").as_bytes()],
                    None,
                );
            }
        }
        Ok(survey)
    }

    async fn count_present(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.scopes(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                let what = name_of(&scope);
                let from = self.statistics(Side::Source, &scope).await?;
                if from.entries + from.tombstones == 0 {
                    return Err(MigrationError::Extra { what });
                }
                let (memories, difference) = self.compare_beginning(&scope).await?;
                let difference = match difference {
                    None => self.unknown_tombstone(&scope).await?,
                    difference => difference,
                };
                if let Some(difference) = difference {
                    return Err(MigrationError::differs(what, difference));
                }
                counts.memories += memories;
                counts.tombstones += self.statistics(Side::Target, &scope).await?.tombstones;
            }
        }
        Ok(counts)
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.scopes(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                counts.memories += self.copy_rows(&scope).await?;
                counts.tombstones += self.copy_tombstones(&scope).await?;
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut HashPair) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.scopes(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                counts.memories += self.verify_rows(&scope, both).await?;
                counts.tombstones += self.verify_tombstones(&scope, both).await?;
            }
        }
        let mut pages = self.scopes(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                let from = self.statistics(Side::Source, &scope).await?;
                if from.entries + from.tombstones == 0 {
                    let difference = "they are in the target only";
                    return Err(MigrationError::mismatch(name_of(&scope), difference));
                }
            }
        }
        Ok(counts)
    }
}
