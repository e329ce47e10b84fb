//! Plans ingests and edits: whether a memory is new, and whether it is within the limits.

use std::collections::HashMap;

use super::{
    identity::body_hash,
    record::{MemoryKind, MemoryOrigin, MemoryRecord, MemoryScope, MemoryVectors},
    service::MemoryError,
    store::MemoryEdit,
};
use crate::{
    content::Content,
    json::{Json, JsonMap},
    quota::{QuotaExceeded, QuotaKind, QuotaRoom, Usage, check_rooms},
    transfer_store::StateOwner,
};

/// A memory to ingest.
#[derive(Debug, Clone, Default)]
pub struct NewMemory {
    /// Its id.
    pub id: String,
    /// How it became a memory.
    pub kind: MemoryKind,
    /// The session that the memory comes from.
    pub session: Option<String>,
    /// The position of its event in the session.
    pub position: u64,
    /// The id of its event.
    pub event_id: Option<String>,
    /// The name of the author.
    pub author: Option<String>,
    /// Its origin.
    pub origin: MemoryOrigin,
    /// The time of the message, in seconds since 1970.
    pub timestamp: f64,
    /// When it expires, in microseconds since 1970; `None` if it never expires.
    pub expires_us: Option<i64>,
    /// The message.
    pub content: Content,
    /// Custom metadata.
    pub custom_metadata: JsonMap,
    /// Its embeddings, as far as they are computed.
    pub vectors: MemoryVectors,
}

/// A memory that is ready to be written.
#[derive(Debug, Clone)]
pub struct PreparedMemory {
    /// The memory.
    pub new: NewMemory,
    /// Its content as JSON.
    pub content_json: String,
    /// Its metadata as JSON, if there is any.
    pub metadata_json: Option<String>,
    /// The hash of the body, for comparisons.
    pub body_hash: u64,
}

impl PreparedMemory {
    /// Prepares a memory. Fails for values that JSON cannot represent and for an invalid time.
    pub fn new(new: NewMemory) -> Result<PreparedMemory, MemoryError> {
        if !new.timestamp.is_finite() {
            let (what, time) = (format!("timestamp of memory {:?}", new.id), new.timestamp);
            return Err(MemoryError::invalid_input(
                what,
                format!("must be a finite number, found {time}"),
            ));
        }
        let content_json = new.content.to_json().map_err(|e| unwritable("memory", e))?;
        let metadata_json = metadata_json(&new.custom_metadata)?;
        let mut prepared = PreparedMemory {
            body_hash: 0,
            content_json,
            metadata_json,
            new,
        };
        prepared.body_hash = prepared.hash_with(prepared.metadata_json.as_deref());
        Ok(prepared)
    }

    /// Returns the body hash that the memory would have with `metadata`.
    fn hash_with(&self, metadata: Option<&str>) -> u64 {
        let author = self.new.author.as_deref().unwrap_or_default();
        body_hash(&[&self.content_json, metadata.unwrap_or_default(), author])
    }

    /// Returns the number of bytes that count against the limit.
    pub fn bytes(&self) -> u64 {
        let metadata = self.metadata_json.as_ref().map_or(0, String::len);
        let author = self.new.author.as_ref().map_or(0, String::len);
        let tool = self.new.origin.tool().map_or(0, str::len);
        (self.content_json.len() + metadata + author + tool) as u64
    }
}

/// Encodes metadata as JSON; `None` if it is empty.
fn metadata_json(metadata: &JsonMap) -> Result<Option<String>, MemoryError> {
    if metadata.is_empty() {
        return Ok(None);
    }
    let text = Json::from(metadata.clone()).to_json();
    text.map(Some).map_err(|e| unwritable("custom metadata", e))
}

fn unwritable(what: &str, error: crate::json::JsonError) -> MemoryError {
    MemoryError::invalid_input(what, format!("cannot be encoded as JSON: {error}"))
}

/// What to do with an existing memory whose content has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatPolicy {
    /// Keep the existing content.
    Keep,
    /// Replace the existing content by the new one, unless the memory was edited.
    Replace,
}

/// Memories that are ingested atomically.
#[derive(Debug, Clone)]
pub struct MemoryBatch {
    /// The app and user.
    pub scope: MemoryScope,
    /// The memories, in order. If two have the same id, the second is applied after the first.
    pub memories: Vec<PreparedMemory>,
    /// What to do with existing memories.
    pub repeats: RepeatPolicy,
    /// The limits.
    pub limits: MemoryLimits,
    /// The room that is left under quotas of the app, if the new memories might not fit.
    pub rooms: Vec<QuotaRoom>,
    /// The time, in microseconds since 1970.
    pub now_us: i64,
}

/// Limits of a user's memories.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// Maximum number of memories of a user.
    pub entries: u64,
    /// Maximum bytes of a user's memories: content as JSON, metadata, authors and tools.
    pub bytes: u64,
    /// Maximum bytes of one memory.
    pub entry_bytes: u64,
    /// Maximum number of memories that are ingested or edited for a user per clock minute.
    ///
    /// It stops a flood but not an import: the default admits five years of 100 messages a day in
    /// one minute, and an ingest up to the default `entries` spans at least five clock minutes.
    pub entries_per_minute: u64,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits {
            entries: 1_000_000,
            bytes: 1024 * 1024 * 1024,
            entry_bytes: 16 * 1024 * 1024,
            entries_per_minute: 200_000,
        }
    }
}

impl MemoryLimits {
    /// Sets the maximum number of memories of a user.
    pub fn with_entries(mut self, entries: u64) -> MemoryLimits {
        self.entries = entries;
        self
    }

    /// Sets the maximum bytes of a user's memories.
    pub fn with_bytes(mut self, bytes: u64) -> MemoryLimits {
        self.bytes = bytes;
        self
    }

    /// Sets the maximum bytes of one memory.
    pub fn with_entry_bytes(mut self, bytes: u64) -> MemoryLimits {
        self.entry_bytes = bytes;
        self
    }

    /// Sets the maximum number of memories that are ingested or edited for a user per clock minute.
    pub fn with_entries_per_minute(mut self, entries: u64) -> MemoryLimits {
        self.entries_per_minute = entries;
        self
    }
}

/// The totals of a scope, for the limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryTotals {
    /// The number of memories.
    pub entries: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The minute since 1970 of the last ingest.
    pub minute: i64,
    /// The number of memories ingested in that minute.
    pub in_minute: u64,
}

/// An existing memory with the same id as a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingMemory {
    /// Its number, as in [`MemoryInfo::seq`](super::MemoryInfo::seq).
    pub seq: u64,
    /// Its session.
    pub session: Option<String>,
    /// Its [`PreparedMemory::body_hash`].
    pub body_hash: u64,
    /// Its metadata as JSON, if there is any.
    pub metadata_json: Option<String>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it was edited.
    pub is_edited: bool,
    /// How it became a memory.
    pub kind: MemoryKind,
    /// When it expires, in microseconds since 1970; `None` if it never expires.
    pub expires_us: Option<i64>,
}

impl ExistingMemory {
    fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us.is_none_or(|expires| now_us < expires)
    }
}

/// What to do with a new memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPlan {
    /// Insert it.
    Insert,
    /// Replace the existing content.
    Replace {
        /// The number of the memory.
        seq: u64,
        /// The size of the replaced content in bytes.
        bytes: u64,
    },
    /// Skip it: it exists already.
    Unchanged,
    /// Skip it: it was forgotten.
    Forgotten,
}

/// Plans the memories of a batch in order: each plan takes the earlier ones into account.
///
/// `last_seq` is the highest number that was ever assigned; inserted memories get the next ones.
/// `lookup` returns the memories of the scope that have the id of a new memory, in any session, and
/// whether the new memory was forgotten.
pub fn plan_batch<E>(
    batch: &MemoryBatch,
    mut last_seq: u64,
    mut lookup: impl FnMut(&PreparedMemory) -> Result<(Vec<ExistingMemory>, bool), E>,
) -> Result<Vec<MemoryPlan>, E> {
    // The existing memories by id, and those that this batch has planned so far.
    let mut so_far: HashMap<&str, Vec<ExistingMemory>> = HashMap::new();
    let mut plans = Vec::with_capacity(batch.memories.len());
    for memory in &batch.memories {
        let (stored, is_forgotten) = lookup(memory)?;
        let same_id = so_far.entry(&memory.new.id).or_insert(stored);
        let plan = plan_memory(memory, same_id, is_forgotten, batch);
        match plan {
            MemoryPlan::Insert => {
                last_seq += 1;
                same_id.push(to_existing(memory, last_seq));
            }
            MemoryPlan::Replace { seq, .. } => {
                same_id.retain(|existing| existing.seq != seq);
                same_id.push(to_existing(memory, seq));
            }
            MemoryPlan::Unchanged | MemoryPlan::Forgotten => {}
        }
        plans.push(plan);
    }
    Ok(plans)
}

fn to_existing(memory: &PreparedMemory, seq: u64) -> ExistingMemory {
    ExistingMemory {
        seq,
        session: memory.new.session.clone(),
        body_hash: memory.body_hash,
        metadata_json: memory.metadata_json.clone(),
        bytes: memory.bytes(),
        is_edited: false,
        kind: memory.new.kind,
        expires_us: memory.new.expires_us,
    }
}

/// Plans one memory. `same_id` holds the existing memories of the scope with its id, in any
/// session.
fn plan_memory(
    new: &PreparedMemory,
    same_id: &[ExistingMemory],
    is_forgotten: bool,
    batch: &MemoryBatch,
) -> MemoryPlan {
    if is_forgotten {
        return MemoryPlan::Forgotten;
    }
    let in_session = same_id
        .iter()
        .find(|existing| existing.session == new.new.session);
    if let Some(existing) = in_session {
        let replaced = MemoryPlan::Replace {
            seq: existing.seq,
            bytes: existing.bytes,
        };
        // An expired memory counts as deleted, even if no sweep has deleted it yet.
        if !existing.is_alive(batch.now_us) {
            return match existing.kind {
                MemoryKind::Turn => MemoryPlan::Forgotten,
                MemoryKind::Direct => replaced,
            };
        }
        let is_changed = !is_same_content(existing, new) && !existing.is_edited;
        return match is_changed && batch.repeats == RepeatPolicy::Replace {
            true => replaced,
            false => MemoryPlan::Unchanged,
        };
    }
    // A fork shares events with its origin, so an equal memory from another session is not new.
    let is_copy = |existing: &ExistingMemory| {
        existing.body_hash == new.body_hash && existing.is_alive(batch.now_us)
    };
    match same_id.iter().any(is_copy) {
        true => MemoryPlan::Unchanged,
        false => MemoryPlan::Insert,
    }
}

/// Whether `new` equals the existing memory. The metadata must be equal too, except if `new` comes
/// from a session and has none: then the existing metadata stays.
fn is_same_content(existing: &ExistingMemory, new: &PreparedMemory) -> bool {
    let has_no_metadata = new.metadata_json.is_none() && new.new.kind == MemoryKind::Turn;
    existing.body_hash == new.body_hash
        || has_no_metadata && existing.body_hash == new.hash_with(existing.metadata_json.as_deref())
}

/// Finds the memory to edit among `same_id`, the memories with the requested id. Returns `None` if
/// it is missing or expired, and an error if there are several.
pub fn plan_edited(
    id: &str,
    same_id: Vec<MemoryRecord>,
    edit: &MemoryEdit,
) -> Result<Option<MemoryRecord>, MemoryError> {
    let alive = same_id.into_iter();
    let mut alive: Vec<MemoryRecord> = alive.filter(|it| it.info.is_alive(edit.now_us)).collect();
    if alive.len() > 1 {
        let what = format!("memory id {id:?}");
        let count = alive.len();
        let reason = format!("matches {count} memories; forget all but one first");
        return Err(MemoryError::invalid_input(what, reason));
    }
    Ok(alive.pop())
}

/// Plans an edit of a memory of `bytes` bytes and returns the new totals of the scope. Fails if the
/// edit exceeds a limit.
pub fn plan_edit(
    before: MemoryTotals,
    record: &MemoryRecord,
    bytes: u64,
    edit: &MemoryEdit,
) -> Result<(PreparedMemory, MemoryTotals), MemoryError> {
    let (info, update) = (&record.info, &edit.update);
    let content = update.content.as_ref().unwrap_or(&record.content);
    let metadata = update.custom_metadata.as_ref();
    let changed = PreparedMemory::new(NewMemory {
        author: info.author.clone(),
        origin: info.origin.clone(),
        content: content.clone(),
        custom_metadata: metadata.unwrap_or(&info.custom_metadata).clone(),
        expires_us: update.expires_us.unwrap_or(info.expires_us),
        ..NewMemory::default()
    })?;
    let seq = info.seq;
    let mut growth = Growth::new(before, edit.now_us);
    growth.add(&changed, &MemoryPlan::Replace { seq, bytes });
    // A memory that exceeds a lowered limit may shrink.
    check(
        "bytes of a memory",
        bytes,
        changed.bytes(),
        edit.limits.entry_bytes,
    )?;
    let after = growth.check_limits(&edit.limits)?;
    Ok((changed, after))
}

/// Returns the totals of the scope after the plans. Fails if a total grows beyond its limit. If a
/// limit was lowered, totals above it may stay or shrink.
pub fn plan_growth(
    before: MemoryTotals,
    batch: &MemoryBatch,
    plans: &[MemoryPlan],
) -> Result<MemoryTotals, MemoryError> {
    let mut growth = Growth::new(before, batch.now_us);
    for (memory, plan) in batch.memories.iter().zip(plans) {
        if growth.add(memory, plan) {
            let limit = batch.limits.entry_bytes;
            check("bytes of a memory", 0, memory.bytes(), limit)?;
        }
    }
    let after = growth.check_limits(&batch.limits)?;
    let (entries, limit) = (before.entries, batch.limits.entries);
    if after.entries > entries && after.entries > limit {
        let owner = StateOwner::user(&batch.scope.app, &batch.scope.user);
        return Err(QuotaExceeded::new(QuotaKind::Memories, owner, limit, entries).into());
    }
    let added = after.entries.saturating_sub(entries);
    check_rooms(&batch.rooms, Usage::default().with_memories(added))?;
    Ok(after)
}

/// The running totals of a scope while a batch is planned.
struct Growth {
    before: MemoryTotals,
    after: MemoryTotals,
}

impl Growth {
    fn new(mut before: MemoryTotals, now_us: i64) -> Growth {
        let minute = now_us.div_euclid(60_000_000);
        if before.minute != minute {
            (before.minute, before.in_minute) = (minute, 0);
        }
        let after = before;
        Growth { before, after }
    }

    /// Adds what a plan writes to the totals; returns false if it writes nothing.
    fn add(&mut self, memory: &PreparedMemory, plan: &MemoryPlan) -> bool {
        let after = &mut self.after;
        match plan {
            MemoryPlan::Insert => {
                after.entries += 1;
                after.bytes += memory.bytes();
            }
            MemoryPlan::Replace { bytes, .. } => {
                after.bytes = (after.bytes + memory.bytes()).saturating_sub(*bytes);
            }
            MemoryPlan::Unchanged | MemoryPlan::Forgotten => return false,
        }
        after.in_minute += 1;
        true
    }

    fn check_limits(&self, limits: &MemoryLimits) -> Result<MemoryTotals, MemoryError> {
        let (before, after) = (&self.before, &self.after);
        for (what, before, after, limit) in [
            (
                "bytes of a user's memories",
                before.bytes,
                after.bytes,
                limits.bytes,
            ),
            (
                "memories ingested for a user within a minute",
                before.in_minute,
                after.in_minute,
                limits.entries_per_minute,
            ),
        ] {
            check(what, before, after, limit)?;
        }
        Ok(self.after)
    }
}

/// Fails if a total grows from `before` to `after` and exceeds `limit`.
fn check(what: &'static str, before: u64, after: u64, limit: u64) -> Result<(), MemoryError> {
    if after <= before || after <= limit {
        return Ok(());
    }
    Err(MemoryError::LimitExceeded {
        what,
        limit,
        found: after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(session: Option<&str>, text: &str) -> PreparedMemory {
        let new = NewMemory {
            id: "e1".to_owned(),
            session: session.map(str::to_owned),
            content: Content::user(text),
            ..NewMemory::default()
        };
        PreparedMemory::new(new).unwrap()
    }

    fn existing(session: Option<&str>, text: &str, is_edited: bool) -> ExistingMemory {
        ExistingMemory {
            seq: 7,
            session: session.map(str::to_owned),
            body_hash: new(session, text).body_hash,
            metadata_json: None,
            bytes: 50,
            is_edited,
            kind: MemoryKind::Turn,
            expires_us: None,
        }
    }

    const NOW_US: i64 = 61_000_000;

    fn batch(memories: Vec<PreparedMemory>, repeats: RepeatPolicy) -> MemoryBatch {
        MemoryBatch {
            scope: MemoryScope::new("app", "ada"),
            memories,
            repeats,
            limits: MemoryLimits::default(),
            rooms: Vec::new(),
            now_us: NOW_US,
        }
    }

    #[test]
    fn ingest_plan_depends_on_the_existing_entry_and_the_repeat_policy() {
        let (s1, s2) = (Some("s1"), Some("s2"));
        let replaced = MemoryPlan::Replace { seq: 7, bytes: 50 };
        for (same_id, repeats, plan) in [
            (vec![], RepeatPolicy::Replace, MemoryPlan::Insert),
            (
                vec![existing(s1, "red", false)],
                RepeatPolicy::Replace,
                MemoryPlan::Unchanged,
            ),
            (
                vec![existing(s1, "blue", false)],
                RepeatPolicy::Replace,
                replaced,
            ),
            (
                vec![existing(s1, "blue", false)],
                RepeatPolicy::Keep,
                MemoryPlan::Unchanged,
            ),
            (
                vec![existing(s1, "blue", true)],
                RepeatPolicy::Replace,
                MemoryPlan::Unchanged,
            ),
            (
                vec![existing(s2, "red", false)],
                RepeatPolicy::Replace,
                MemoryPlan::Unchanged,
            ),
            (
                vec![existing(s2, "blue", false)],
                RepeatPolicy::Replace,
                MemoryPlan::Insert,
            ),
            (
                vec![existing(s2, "red", false), existing(s1, "blue", false)],
                RepeatPolicy::Replace,
                replaced,
            ),
        ] {
            let batch = batch(vec![new(s1, "red")], repeats);
            let planned = |is_forgotten| {
                let lookup = |_: &PreparedMemory| Ok::<_, ()>((same_id.clone(), is_forgotten));
                plan_batch(&batch, 7, lookup).unwrap()
            };
            assert_eq!(planned(false), [plan], "{same_id:?}");
            assert_eq!(planned(true), [MemoryPlan::Forgotten]);
        }
    }

    #[test]
    fn repeated_id_in_a_batch_is_planned_in_order() {
        let red = || new(None, "red");
        let (other, insert) = (new(None, "scarlet"), MemoryPlan::Insert);
        let bytes = |seq, bytes| MemoryPlan::Replace { seq, bytes };
        let memories = vec![red(), red(), other.clone(), red(), new(Some("s1"), "red")];
        let replaced = [
            insert,
            MemoryPlan::Unchanged,
            bytes(8, red().bytes()),
            bytes(8, other.bytes()),
            MemoryPlan::Unchanged,
        ];
        let nothing = |_: &PreparedMemory| Ok::<_, ()>((vec![], false));
        let last_wins = batch(memories.clone(), RepeatPolicy::Replace);
        assert_eq!(plan_batch(&last_wins, 7, nothing).unwrap(), replaced);
        let grown = plan_growth(MemoryTotals::default(), &last_wins, &replaced).unwrap();
        assert_eq!(
            (grown.entries, grown.bytes, grown.in_minute),
            (1, red().bytes(), 3)
        );
        let first_wins = batch(memories, RepeatPolicy::Keep);
        let plans = plan_batch(&first_wins, 7, nothing).unwrap();
        assert_eq!(plans[0], insert);
        assert!(plans[1..].iter().all(|plan| *plan == MemoryPlan::Unchanged));
    }

    #[test]
    fn plan_for_an_expired_memory_depends_on_kind_and_session() {
        let expired = |session, kind| ExistingMemory {
            kind,
            expires_us: Some(NOW_US),
            ..existing(session, "red", true)
        };
        let batch = batch(vec![new(None, "red")], RepeatPolicy::Keep);
        for (existing, plan) in [
            (expired(None, MemoryKind::Turn), MemoryPlan::Forgotten),
            (
                expired(None, MemoryKind::Direct),
                MemoryPlan::Replace { seq: 7, bytes: 50 },
            ),
            (expired(Some("s1"), MemoryKind::Turn), MemoryPlan::Insert),
        ] {
            let lookup = |_: &PreparedMemory| Ok::<_, ()>((vec![existing.clone()], false));
            assert_eq!(
                plan_batch(&batch, 7, lookup).unwrap(),
                [plan],
                "{existing:?}"
            );
        }
    }

    #[test]
    fn non_finite_time_is_rejected() {
        for timestamp in [f64::NAN, f64::INFINITY] {
            let new = NewMemory {
                timestamp,
                ..new(None, "red").new
            };
            let error = PreparedMemory::new(new).unwrap_err();
            assert!(error.to_string().contains("timestamp of memory"));
        }
    }

    #[test]
    fn edit_is_checked_against_the_limits() {
        let record = MemoryRecord {
            content: Content::user("red"),
            ..MemoryRecord::default()
        };
        let edit = |text: &str, limits| MemoryEdit {
            update: crate::memory::MemoryUpdate {
                content: Some(Content::user(text)),
                ..Default::default()
            },
            limits,
            now_us: NOW_US,
        };
        let any = MemoryLimits::default();
        let before = MemoryTotals {
            entries: 1,
            bytes: 100,
            minute: 1,
            in_minute: 2,
        };
        let long = "x".repeat(60);
        let (changed, after) = plan_edit(before, &record, 50, &edit(&long, any.clone())).unwrap();
        assert_eq!((after.entries, after.in_minute), (1, 3));
        assert_eq!(after.bytes, 50 + changed.bytes());
        for (limits, what) in [
            (
                MemoryLimits {
                    entry_bytes: 60,
                    ..any.clone()
                },
                "bytes of a memory",
            ),
            (
                MemoryLimits {
                    bytes: 101,
                    ..any.clone()
                },
                "bytes of a user",
            ),
            (
                MemoryLimits {
                    entries_per_minute: 2,
                    ..any.clone()
                },
                "within a minute",
            ),
        ] {
            let error = plan_edit(before, &record, 50, &edit(&long, limits)).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        // A total above a lowered limit may shrink.
        let tight = MemoryLimits {
            bytes: 1,
            entry_bytes: 1,
            ..any
        };
        plan_edit(before, &record, 1000, &edit("red", tight)).unwrap();
    }

    #[test]
    fn limits_reject_only_growth() {
        let batch = |limits| MemoryBatch {
            scope: MemoryScope::new("app", "ada"),
            memories: vec![new(None, "red")],
            repeats: RepeatPolicy::Keep,
            limits,
            rooms: Vec::new(),
            now_us: NOW_US,
        };
        let bytes = new(None, "red").bytes();
        let any = MemoryLimits::default();
        let before = MemoryTotals {
            entries: 3,
            bytes: 100,
            minute: 1,
            in_minute: 2,
        };
        let grown = plan_growth(before, &batch(any.clone()), &[MemoryPlan::Insert]).unwrap();
        let expected = MemoryTotals {
            entries: 4,
            bytes: 100 + bytes,
            minute: 1,
            in_minute: 3,
        };
        assert_eq!(grown, expected);
        for (limits, what) in [
            (
                MemoryLimits {
                    entries: 3,
                    ..any.clone()
                },
                "max-memories-per-user",
            ),
            (
                MemoryLimits {
                    bytes: 99 + bytes,
                    ..any.clone()
                },
                "bytes of a user",
            ),
            (
                MemoryLimits {
                    entry_bytes: bytes - 1,
                    ..any.clone()
                },
                "bytes of a memory",
            ),
            (
                MemoryLimits {
                    entries_per_minute: 2,
                    ..any.clone()
                },
                "within a minute",
            ),
        ] {
            let result = plan_growth(before, &batch(limits.clone()), &[MemoryPlan::Insert]);
            let error = result.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            plan_growth(before, &batch(limits.clone()), &[MemoryPlan::Unchanged]).unwrap();
            if limits.entries_per_minute == 2 {
                let earlier = MemoryTotals {
                    minute: 0,
                    ..before
                };
                let next = plan_growth(earlier, &batch(limits), &[MemoryPlan::Insert]);
                assert_eq!(next.unwrap().in_minute, 1);
            }
        }
        let shrunk = [MemoryPlan::Replace { seq: 1, bytes: 100 }];
        let tight = MemoryLimits {
            entries: 1,
            bytes: 1,
            ..any
        };
        assert_eq!(
            plan_growth(before, &batch(tight), &shrunk).unwrap().bytes,
            bytes
        );
    }
}
