//! Memories, and the tombstones of forgotten ones.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::{
    TryStreamExt as _,
    future::try_join,
    stream::{self, BoxStream},
};

use super::{
    End, Section,
    compare::{Both, Line, digest_of, hex, json_text},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    rest::Look,
    steps::{Ends, PAGE, Pace, pages},
};
use crate::memory::{
    KeptMemory, MemoryKind, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope, MemoryStatistics,
    MemoryStore, MemoryVector, NewMemory, PreparedMemory, Tombstone,
};

#[derive(Debug)]
pub(super) struct Memories {
    ends: Ends<dyn MemoryStore>,
}

/// A memory, and the hash of what was ingested.
type Kept = (MemoryRecord, u64);

impl Memories {
    pub(super) fn new(ends: Ends<dyn MemoryStore>) -> Memories {
        Memories { ends }
    }

    fn scopes(&self, end: End) -> BoxStream<'_, Result<Vec<MemoryScope>>> {
        pages(move |after: Option<MemoryScope>| {
            Box::pin(async move {
                let scopes = self.ends.at(end).scopes(after.as_ref(), PAGE).await;
                scopes.map_err(failed("the list of those who have memories"))
            })
        })
    }

    fn tombstones<'a>(
        &'a self,
        end: End,
        scope: &'a MemoryScope,
    ) -> BoxStream<'a, Result<Vec<Tombstone>>> {
        pages(move |after: Option<Tombstone>| {
            Box::pin(async move {
                let hashes = self.ends.at(end).tombstones(scope, after, PAGE).await;
                hashes.map_err(failed(name_of(scope)))
            })
        })
    }

    /// The memories of a side, including expired ones that were not deleted yet.
    async fn statistics(&self, end: End, scope: &MemoryScope) -> Result<MemoryStatistics> {
        let counted = self.ends.at(end).statistics(scope, i64::MIN).await;
        counted.map_err(failed(name_of(scope)))
    }

    async fn rows(
        &self,
        end: End,
        scope: &MemoryScope,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<Kept>> {
        let store = self.ends.at(end);
        let rows = MemoryRows::After { seq, limit };
        let rows = store.rows(scope, rows, true).await;
        let rows = rows.map_err(failed(name_of(scope)))?;
        let mut by_session: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            let session = row.about.session.as_deref();
            by_session.entry(session).or_default().push(place);
        }
        let mut hashes = vec![0; rows.len()];
        for (session, places) in by_session {
            let ids: Vec<String> = places.iter().map(|at| rows[*at].about.id.clone()).collect();
            let found = store.body_hashes(scope, session, &ids).await;
            let found = found.map_err(failed(name_of(scope)))?;
            for (place, hash) in places.into_iter().zip(found) {
                let gone = || format!("memory {:?} has gone meanwhile", rows[place].about.id);
                hashes[place] = hash.ok_or_else(|| failed(name_of(scope))(gone()))?;
            }
        }
        Ok(rows.into_iter().zip(hashes).collect())
    }

    /// Compares the target's memories with the first ones of the source; returns their number and
    /// the first difference.
    async fn compare_beginning(&self, scope: &MemoryScope) -> Result<(u64, Option<String>)> {
        let (mut seq, mut count, mut pace) = (0, 0, Pace::new());
        loop {
            let to = self.rows(End::Target, scope, seq, pace.step()).await?;
            let Some((last, _)) = to.last() else {
                break;
            };
            let from = self.rows(End::Source, scope, seq, to.len()).await?;
            seq = last.about.seq;
            count += to.len() as u64;
            let (from, to) = (lines(&from)?, lines(&to)?);
            pace.learn(to.len(), to.iter().map(Line::bytes).sum());
            let difference = Both::default().compare(&from, &to);
            if difference.is_some() {
                return Ok((count, difference));
            }
        }
        let mark = self
            .ends
            .to
            .mark(scope)
            .await
            .map_err(failed(name_of(scope)))?;
        let difference = (mark.last_seq != seq).then(|| "some were removed there".to_owned());
        Ok((count, difference))
    }

    /// The first tombstone of the target that the source lacks.
    async fn unknown_tombstone(&self, scope: &MemoryScope) -> Result<Option<String>> {
        let all = |end| {
            let pages = self.tombstones(end, scope);
            pages
                .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
                .try_flatten()
        };
        let (mut from, mut to) = (all(End::Source), all(End::Target));
        let mut known = from.try_next().await?;
        while let Some(there) = to.try_next().await? {
            while known.is_some_and(|known| known < there) {
                known = from.try_next().await?;
            }
            if known != Some(there) {
                return Ok(Some(format!(
                    "hash {} is in the target only",
                    hex(&there.0)
                )));
            }
        }
        Ok(None)
    }

    async fn restore(&self, restore: MemoryRestore) -> Result<()> {
        let what = name_of(&restore.scope);
        let steps = restore.memories.len() + restore.tombstones.len();
        let restored = self.ends.to.restore(Arc::new(restore)).await;
        restored.map_err(failed(what))?;
        self.ends.watch.advance(steps as u64);
        Ok(())
    }

    async fn copy_rows(&self, scope: &MemoryScope) -> Result<u64> {
        let mark = self
            .ends
            .to
            .mark(scope)
            .await
            .map_err(failed(name_of(scope)))?;
        let (mut seq, mut count, mut pace) = (mark.last_seq, 0, Pace::new());
        loop {
            let rows = self.rows(End::Source, scope, seq, pace.step()).await?;
            let Some((last, _)) = rows.last() else {
                return Ok(count);
            };
            seq = last.about.seq;
            count += rows.len() as u64;
            let memories = rows.into_iter().map(|row| kept(scope, row));
            let memories = memories.collect::<Result<Vec<_>>>()?;
            pace.learn(memories.len(), memories.iter().map(bytes_of).sum());
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
            self.statistics(End::Source, scope),
            self.statistics(End::Target, scope),
        )
        .await?;
        let missing = from.tombstones.saturating_sub(to.tombstones);
        let mut pages = self.tombstones(End::Source, scope);
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

    async fn verify_rows(&self, scope: &MemoryScope, both: &mut Both) -> Result<u64> {
        let (mut seq, mut count, mut pace) = (0, 0, Pace::new());
        loop {
            let (from, to) = try_join(
                self.rows(End::Source, scope, seq, pace.step()),
                self.rows(End::Target, scope, seq, pace.step()),
            )
            .await?;
            let (here, there) = (lines(&from)?, lines(&to)?);
            if let Some(difference) = both.compare(&here, &there) {
                return Err(MigrationError::mismatch(name_of(scope), difference));
            }
            let Some((last, _)) = from.last() else {
                return Ok(count);
            };
            seq = last.about.seq;
            count += from.len() as u64;
            self.ends.watch.advance(from.len() as u64);
            pace.learn(here.len(), here.iter().map(Line::bytes).sum());
        }
    }

    async fn verify_tombstones(&self, scope: &MemoryScope, both: &mut Both) -> Result<u64> {
        let mut from = self.tombstones(End::Source, scope);
        let mut to = self.tombstones(End::Target, scope);
        let mut count = 0;
        loop {
            let (here, there) = try_join(from.try_next(), to.try_next()).await?;
            if here.is_none() && there.is_none() {
                return Ok(count);
            }
            let lines = |page: Option<Vec<Tombstone>>| {
                let hashes = page.into_iter().flatten().map(|hash| hex(&hash.0));
                let lines = hashes.map(|hash| Line::new(format!("hash {hash}"), hash));
                lines.collect::<Vec<_>>()
            };
            let (here, there) = (lines(here), lines(there));
            if let Some(difference) = both.compare(&here, &there) {
                return Err(MigrationError::mismatch(name_of(scope), difference));
            }
            count += here.len() as u64;
            self.ends.watch.advance(here.len() as u64);
        }
    }
}

fn name_of(scope: &MemoryScope) -> String {
    format!("memories of user {:?} of app {:?}", scope.user, scope.app)
}

fn bytes_of(kept: &KeptMemory) -> usize {
    let vectors = &kept.memory.new.vectors;
    let vectors = vectors.fixed.iter().chain(&vectors.embedding);
    let vectors: usize = vectors.map(|vector| vector.bytes.len()).sum();
    vectors + kept.memory.bytes() as usize
}

/// The memory in the form that another store restores.
fn kept(scope: &MemoryScope, (record, body_hash): Kept) -> Result<KeptMemory> {
    let about = record.about;
    let memory = PreparedMemory::new(NewMemory {
        id: about.id,
        kind: about.kind,
        session: about.session,
        position: about.position,
        event_id: about.event_id,
        author: about.author,
        origin: about.origin,
        timestamp: about.timestamp,
        expires_us: about.expires_us,
        content: record.content,
        custom_metadata: about.custom_metadata,
        vectors: record.vectors,
    });
    let mut memory = memory.map_err(failed(name_of(scope)))?;
    // The hash of the ingested body, which differs from the current one after an edit.
    memory.body_hash = body_hash;
    Ok(KeptMemory {
        seq: about.seq,
        memory,
        created_us: about.created_us,
        updated_us: about.updated_us,
    })
}

fn lines(rows: &[Kept]) -> Result<Vec<Line>> {
    rows.iter().map(line).collect()
}

/// All details of a memory except the revision, which each store counts itself.
fn line((record, body_hash): &Kept) -> Result<Line> {
    let about = &record.about;
    let name = format!("memory {:?} (number {})", about.id, about.seq);
    // A turn without an event id has its own id as event id.
    let event_id = match about.kind {
        MemoryKind::Turn => about.event_id.as_ref().or(Some(&about.id)),
        MemoryKind::Direct => None,
    };
    let told = format!(
        "{:?} {:?} {} {event_id:?} {:?} {:?} {} {} {:?} {:?} {body_hash:x} {} {}",
        about.kind,
        about.session,
        about.position,
        about.author,
        about.origin,
        about.timestamp.to_bits(),
        about.created_us,
        about.updated_us,
        about.expires_us,
        vector_text(record.vectors.fixed.as_ref()),
        vector_text(record.vectors.embedding.as_ref()),
    );
    let notes = json_text(&name, &about.custom_metadata)?;
    let content = record.content.to_json().map_err(failed(name.as_str()))?;
    Ok(Line::new(name, [told, notes, content].join("\n")))
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

    async fn look(&self, end: End) -> Result<Look> {
        let mut look = Look::default();
        let mut pages = self.scopes(end);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                let counted = self.statistics(end, &scope).await?;
                look.counts.memories += counted.entries;
                look.counts.tombstones += counted.tombstones;
                let mark = self.ends.at(end).mark(&scope).await;
                let mark = mark.map_err(failed(name_of(&scope)))?;
                look.add(
                    &[name_of(&scope).as_bytes(), format!("{mark:?}").as_bytes()],
                    None,
                );
            }
        }
        Ok(look)
    }

    async fn there(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.scopes(End::Target);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                let what = name_of(&scope);
                let from = self.statistics(End::Source, &scope).await?;
                if from.entries + from.tombstones == 0 {
                    return Err(MigrationError::Extra { what });
                }
                let (memories, difference) = self.compare_beginning(&scope).await?;
                let difference = match difference {
                    None => self.unknown_tombstone(&scope).await?,
                    known => known,
                };
                if let Some(difference) = difference {
                    return Err(MigrationError::differs(what, difference));
                }
                counts.memories += memories;
                counts.tombstones += self.statistics(End::Target, &scope).await?.tombstones;
            }
        }
        Ok(counts)
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.scopes(End::Source);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                counts.memories += self.copy_rows(&scope).await?;
                counts.tombstones += self.copy_tombstones(&scope).await?;
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut Both) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.scopes(End::Source);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                counts.memories += self.verify_rows(&scope, both).await?;
                counts.tombstones += self.verify_tombstones(&scope, both).await?;
            }
        }
        let mut pages = self.scopes(End::Target);
        while let Some(page) = pages.try_next().await? {
            for scope in page {
                let from = self.statistics(End::Source, &scope).await?;
                if from.entries + from.tombstones == 0 {
                    let difference = "they are in the target only";
                    return Err(MigrationError::mismatch(name_of(&scope), difference));
                }
            }
        }
        Ok(counts)
    }
}
