//! What a store asks while it takes memories up: is this one new, and is there room for it?

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
};

/// A memory that is to be taken up.
#[derive(Debug, Clone, Default)]
pub struct NewMemory {
    /// Its id.
    pub id: String,
    /// How it comes to be a memory.
    pub kind: MemoryKind,
    /// The conversation it was said in.
    pub session: Option<String>,
    /// Its position there.
    pub position: u64,
    /// The event it was said with.
    pub event_id: Option<String>,
    /// Who said it, by name.
    pub author: Option<String>,
    /// Who it comes from.
    pub origin: MemoryOrigin,
    /// When it was said, in seconds since 1970.
    pub timestamp: f64,
    /// When its time is up.
    pub expires_us: Option<i64>,
    /// What was said.
    pub content: Content,
    /// The user's own notes.
    pub custom_metadata: JsonMap,
    /// What it means, as far as that was worked out.
    pub vectors: MemoryVectors,
}

/// A memory that is ready to be written.
#[derive(Debug, Clone)]
pub struct PreparedMemory {
    /// The memory.
    pub new: NewMemory,
    /// Its content as JSON.
    pub content_json: String,
    /// Its notes as JSON, if there are any.
    pub metadata_json: Option<String>,
    /// Says whether two bodies are the same.
    pub body_hash: u64,
}

impl PreparedMemory {
    /// Makes it ready; fails for what cannot be written as JSON, and for a time that is none.
    pub fn new(new: NewMemory) -> Result<PreparedMemory, MemoryError> {
        if !new.timestamp.is_finite() {
            let (what, time) = (format!("timestamp of memory {:?}", new.id), new.timestamp);
            return Err(MemoryError::invalid_input(what, format!("is {time}")));
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

    /// What [`body_hash`](Self::body_hash) is with these notes.
    fn hash_with(&self, notes: Option<&str>) -> u64 {
        let author = self.new.author.as_deref().unwrap_or_default();
        body_hash(&[&self.content_json, notes.unwrap_or_default(), author])
    }

    /// How many bytes count against the limit.
    pub fn bytes(&self) -> u64 {
        let notes = self.metadata_json.as_ref().map_or(0, String::len);
        let author = self.new.author.as_ref().map_or(0, String::len);
        let tool = self.new.origin.tool().map_or(0, str::len);
        (self.content_json.len() + notes + author + tool) as u64
    }
}

/// Notes as JSON; `None` if there are none.
fn metadata_json(notes: &JsonMap) -> Result<Option<String>, MemoryError> {
    if notes.is_empty() {
        return Ok(None);
    }
    let text = Json::from(notes.clone()).to_json();
    text.map(Some).map_err(|e| unwritable("custom metadata", e))
}

fn unwritable(what: &str, error: crate::json::JsonError) -> MemoryError {
    MemoryError::invalid_input(what, format!("cannot be written: {error}"))
}

/// What to do with a memory that is known already and says something else now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// It stays as it is.
    Keep,
    /// It says what is new, unless it was changed by hand.
    Replace,
}

/// Memories that are taken up together, or not at all.
#[derive(Debug, Clone)]
pub struct MemoryBatch {
    /// Whose.
    pub scope: MemoryScope,
    /// The memories, in their order: where two have the same id, the second comes after the first.
    pub memories: Vec<PreparedMemory>,
    /// What becomes of those that are known.
    pub repeats: Repeats,
    /// What there is room for.
    pub limits: MemoryLimits,
    /// The time, in microseconds since 1970.
    pub now_us: i64,
}

/// How much a user may have remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Memories of a user.
    pub entries: u64,
    /// Bytes of what a user's memories say, as JSON with their notes, authors and tools.
    pub bytes: u64,
    /// Bytes of one memory.
    pub entry_bytes: u64,
    /// Memories that are taken up or changed for a user within a minute of the clock.
    ///
    /// It is to stop a flood, not an import: by default there is room for the whole past of a user
    /// who said a hundred things a day for five years, and yet nobody fills the memory in less than
    /// five minutes.
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

/// What a scope holds, as far as limits ask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryTotals {
    /// How many memories.
    pub entries: u64,
    /// How many bytes they take.
    pub bytes: u64,
    /// The minute since 1970 in which some were last taken up.
    pub minute: i64,
    /// How many were taken up in it.
    pub in_minute: u64,
}

/// A memory that has the id of a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownMemory {
    /// Its number.
    pub seq: u64,
    /// Its session.
    pub session: Option<String>,
    /// Its [`PreparedMemory::body_hash`].
    pub body_hash: u64,
    /// Its notes as JSON, if there are any.
    pub metadata_json: Option<String>,
    /// How many bytes it takes.
    pub bytes: u64,
    /// Whether it was changed by hand.
    pub is_edited: bool,
    /// How it came to be a memory.
    pub kind: MemoryKind,
    /// When its time is up.
    pub expires_us: Option<i64>,
}

impl KnownMemory {
    fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us.is_none_or(|expires| now_us < expires)
    }
}

/// What becomes of a new memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPlan {
    /// It is written.
    Insert,
    /// It takes the place of what it said before.
    Replace {
        /// The number of the memory.
        seq: u64,
        /// How many bytes that took.
        bytes: u64,
    },
    /// It is there already.
    Known,
    /// It was forgotten, and stays so.
    Forgotten,
}

/// Decides about the memories of a batch, as if they came one after the other.
///
/// `last_seq`: the number of the newest memory that there ever was; those that are inserted have the
/// ones behind it. `look` says which memories of the scope have the id of a new one, in any session,
/// and whether the new one was forgotten.
pub fn plan_batch<E>(
    batch: &MemoryBatch,
    mut last_seq: u64,
    mut look: impl FnMut(&PreparedMemory) -> Result<(Vec<KnownMemory>, bool), E>,
) -> Result<Vec<MemoryPlan>, E> {
    // By id, what is known when the memories so far are taken up.
    let mut so_far: HashMap<&str, Vec<KnownMemory>> = HashMap::new();
    let mut plans = Vec::with_capacity(batch.memories.len());
    for memory in &batch.memories {
        let (stored, is_forgotten) = look(memory)?;
        let same_id = so_far.entry(&memory.new.id).or_insert(stored);
        let plan = plan_memory(memory, same_id, is_forgotten, batch);
        match plan {
            MemoryPlan::Insert => {
                last_seq += 1;
                same_id.push(taken_up(memory, last_seq));
            }
            MemoryPlan::Replace { seq, .. } => {
                same_id.retain(|known| known.seq != seq);
                same_id.push(taken_up(memory, seq));
            }
            MemoryPlan::Known | MemoryPlan::Forgotten => {}
        }
        plans.push(plan);
    }
    Ok(plans)
}

fn taken_up(memory: &PreparedMemory, seq: u64) -> KnownMemory {
    KnownMemory {
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

/// Decides about one memory. `same_id`: those of the scope with its id, in any session.
fn plan_memory(
    new: &PreparedMemory,
    same_id: &[KnownMemory],
    is_forgotten: bool,
    batch: &MemoryBatch,
) -> MemoryPlan {
    if is_forgotten {
        return MemoryPlan::Forgotten;
    }
    let here = same_id
        .iter()
        .find(|known| known.session == new.new.session);
    if let Some(known) = here {
        let replaced = MemoryPlan::Replace {
            seq: known.seq,
            bytes: known.bytes,
        };
        // One whose time is up is as good as gone: whether it was swept yet makes no difference.
        if !known.is_alive(batch.now_us) {
            return match known.kind {
                MemoryKind::Turn => MemoryPlan::Forgotten,
                MemoryKind::Direct => replaced,
            };
        }
        let is_new = !says_the_same(known, new) && !known.is_edited;
        return match is_new && batch.repeats == Repeats::Replace {
            true => replaced,
            false => MemoryPlan::Known,
        };
    }
    // A fork has its origin's events: the same was not said twice.
    let is_copy =
        |known: &KnownMemory| known.body_hash == new.body_hash && known.is_alive(batch.now_us);
    match same_id.iter().any(is_copy) {
        true => MemoryPlan::Known,
        false => MemoryPlan::Insert,
    }
}

/// Whether a turn says what is known. Who adds it again without notes does not take back those it
/// has; what is given is meant as it is.
fn says_the_same(known: &KnownMemory, new: &PreparedMemory) -> bool {
    let is_bare = new.metadata_json.is_none() && new.new.kind == MemoryKind::Turn;
    known.body_hash == new.body_hash
        || is_bare && known.body_hash == new.hash_with(known.metadata_json.as_deref())
}

/// The memory that a change by hand is of. `same_id`: those with the id that was named. `None` if
/// there is none or its time is up; an error if there are several.
pub fn plan_edited(
    id: &str,
    same_id: Vec<MemoryRecord>,
    edit: &MemoryEdit,
) -> Result<Option<MemoryRecord>, MemoryError> {
    let alive = same_id.into_iter();
    let mut alive: Vec<MemoryRecord> = alive.filter(|it| it.about.is_alive(edit.now_us)).collect();
    if alive.len() > 1 {
        let what = format!("memory id {id:?}");
        let count = alive.len();
        let reason = format!("is that of {count} memories; forget the others first");
        return Err(MemoryError::invalid_input(what, reason));
    }
    Ok(alive.pop())
}

/// What a change by hand makes of a memory that took `bytes`, and what the scope holds then; fails
/// if there is no room for it.
pub fn plan_edit(
    before: MemoryTotals,
    record: &MemoryRecord,
    bytes: u64,
    edit: &MemoryEdit,
) -> Result<(PreparedMemory, MemoryTotals), MemoryError> {
    let (about, update) = (&record.about, &edit.update);
    let content = update.content.as_ref().unwrap_or(&record.content);
    let notes = update.custom_metadata.as_ref();
    let changed = PreparedMemory::new(NewMemory {
        author: about.author.clone(),
        origin: about.origin.clone(),
        content: content.clone(),
        custom_metadata: notes.unwrap_or(&about.custom_metadata).clone(),
        expires_us: update.expires_us.unwrap_or(about.expires_us),
        ..NewMemory::default()
    })?;
    let seq = about.seq;
    let mut growth = Growth::since(before, edit.now_us);
    growth.take(&changed, &MemoryPlan::Replace { seq, bytes });
    // One that is over a limit that was lowered since may shrink.
    check(
        "bytes of a memory",
        bytes,
        changed.bytes(),
        edit.limits.entry_bytes,
    )?;
    let after = growth.checked(&edit.limits)?;
    Ok((changed, after))
}

/// What the scope holds after the plans are carried out; fails if that is more than there is room
/// for. What is over a limit that was lowered since may stay.
pub fn plan_growth(
    before: MemoryTotals,
    batch: &MemoryBatch,
    plans: &[MemoryPlan],
) -> Result<MemoryTotals, MemoryError> {
    let mut growth = Growth::since(before, batch.now_us);
    for (memory, plan) in batch.memories.iter().zip(plans) {
        if growth.take(memory, plan) {
            let limit = batch.limits.entry_bytes;
            check("bytes of a memory", 0, memory.bytes(), limit)?;
        }
    }
    growth.checked(&batch.limits)
}

/// What a scope comes to hold.
struct Growth {
    before: MemoryTotals,
    after: MemoryTotals,
}

impl Growth {
    fn since(mut before: MemoryTotals, now_us: i64) -> Growth {
        let minute = now_us.div_euclid(60_000_000);
        if before.minute != minute {
            (before.minute, before.in_minute) = (minute, 0);
        }
        let after = before;
        Growth { before, after }
    }

    /// Counts what a plan writes; false if that is nothing.
    fn take(&mut self, memory: &PreparedMemory, plan: &MemoryPlan) -> bool {
        let after = &mut self.after;
        match plan {
            MemoryPlan::Insert => {
                after.entries += 1;
                after.bytes += memory.bytes();
            }
            MemoryPlan::Replace { bytes, .. } => {
                after.bytes = (after.bytes + memory.bytes()).saturating_sub(*bytes);
            }
            MemoryPlan::Known | MemoryPlan::Forgotten => return false,
        }
        after.in_minute += 1;
        true
    }

    fn checked(&self, limits: &MemoryLimits) -> Result<MemoryTotals, MemoryError> {
        let (before, after) = (&self.before, &self.after);
        for (what, before, after, limit) in [
            (
                "memories of a user",
                before.entries,
                after.entries,
                limits.entries,
            ),
            (
                "bytes of a user's memories",
                before.bytes,
                after.bytes,
                limits.bytes,
            ),
            (
                "memories taken up for a user within a minute",
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

/// Fails when something grows from `before` to `after` and over `limit`.
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

    fn known(session: Option<&str>, text: &str, is_edited: bool) -> KnownMemory {
        KnownMemory {
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

    fn batch(memories: Vec<PreparedMemory>, repeats: Repeats) -> MemoryBatch {
        MemoryBatch {
            scope: MemoryScope::new("app", "ada"),
            memories,
            repeats,
            limits: MemoryLimits::default(),
            now_us: NOW_US,
        }
    }

    #[test]
    fn what_is_known_is_taken_up_once() {
        let (s1, s2) = (Some("s1"), Some("s2"));
        let replaced = MemoryPlan::Replace { seq: 7, bytes: 50 };
        for (same_id, repeats, plan) in [
            (vec![], Repeats::Replace, MemoryPlan::Insert),
            (
                vec![known(s1, "red", false)],
                Repeats::Replace,
                MemoryPlan::Known,
            ),
            (vec![known(s1, "blue", false)], Repeats::Replace, replaced),
            (
                vec![known(s1, "blue", false)],
                Repeats::Keep,
                MemoryPlan::Known,
            ),
            (
                vec![known(s1, "blue", true)],
                Repeats::Replace,
                MemoryPlan::Known,
            ),
            (
                vec![known(s2, "red", false)],
                Repeats::Replace,
                MemoryPlan::Known,
            ),
            (
                vec![known(s2, "blue", false)],
                Repeats::Replace,
                MemoryPlan::Insert,
            ),
            (
                vec![known(s2, "red", false), known(s1, "blue", false)],
                Repeats::Replace,
                replaced,
            ),
        ] {
            let batch = batch(vec![new(s1, "red")], repeats);
            let planned = |is_forgotten| {
                let look = |_: &PreparedMemory| Ok::<_, ()>((same_id.clone(), is_forgotten));
                plan_batch(&batch, 7, look).unwrap()
            };
            assert_eq!(planned(false), [plan], "{same_id:?}");
            assert_eq!(planned(true), [MemoryPlan::Forgotten]);
        }
    }

    #[test]
    fn the_same_id_twice_is_as_if_it_came_twice() {
        let red = || new(None, "red");
        let (other, insert) = (new(None, "scarlet"), MemoryPlan::Insert);
        let bytes = |seq, bytes| MemoryPlan::Replace { seq, bytes };
        let memories = vec![red(), red(), other.clone(), red(), new(Some("s1"), "red")];
        let replaced = [
            insert,
            MemoryPlan::Known,
            bytes(8, red().bytes()),
            bytes(8, other.bytes()),
            MemoryPlan::Known,
        ];
        let nothing = |_: &PreparedMemory| Ok::<_, ()>((vec![], false));
        let last_wins = batch(memories.clone(), Repeats::Replace);
        assert_eq!(plan_batch(&last_wins, 7, nothing).unwrap(), replaced);
        let grown = plan_growth(MemoryTotals::default(), &last_wins, &replaced).unwrap();
        assert_eq!(
            (grown.entries, grown.bytes, grown.in_minute),
            (1, red().bytes(), 3)
        );
        let first_wins = batch(memories, Repeats::Keep);
        let kept = plan_batch(&first_wins, 7, nothing).unwrap();
        assert_eq!(kept[0], insert);
        assert!(kept[1..].iter().all(|plan| *plan == MemoryPlan::Known));
    }

    #[test]
    fn one_whose_time_is_up_is_as_good_as_gone() {
        let expired = |session, kind| KnownMemory {
            kind,
            expires_us: Some(NOW_US),
            ..known(session, "red", true)
        };
        let batch = batch(vec![new(None, "red")], Repeats::Keep);
        for (known, plan) in [
            (expired(None, MemoryKind::Turn), MemoryPlan::Forgotten),
            (
                expired(None, MemoryKind::Direct),
                MemoryPlan::Replace { seq: 7, bytes: 50 },
            ),
            (expired(Some("s1"), MemoryKind::Turn), MemoryPlan::Insert),
        ] {
            let look = |_: &PreparedMemory| Ok::<_, ()>((vec![known.clone()], false));
            assert_eq!(plan_batch(&batch, 7, look).unwrap(), [plan], "{known:?}");
        }
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for timestamp in [f64::NAN, f64::INFINITY] {
            let new = NewMemory {
                timestamp,
                ..new(None, "red").new
            };
            let refused = PreparedMemory::new(new).unwrap_err();
            assert!(refused.to_string().contains("timestamp of memory"));
        }
    }

    #[test]
    fn changes_by_hand_are_limited_too() {
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
            let refused = plan_edit(before, &record, 50, &edit(&long, limits)).unwrap_err();
            assert!(refused.to_string().contains(what), "{refused}");
        }
        // What is too much already may become less.
        let tight = MemoryLimits {
            bytes: 1,
            entry_bytes: 1,
            ..any
        };
        plan_edit(before, &record, 1000, &edit("red", tight)).unwrap();
    }

    #[test]
    fn limits_stop_growth_and_nothing_else() {
        let batch = |limits| MemoryBatch {
            scope: MemoryScope::new("app", "ada"),
            memories: vec![new(None, "red")],
            repeats: Repeats::Keep,
            limits,
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
                "memories of a user",
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
            let refused = plan_growth(before, &batch(limits.clone()), &[MemoryPlan::Insert]);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            plan_growth(before, &batch(limits.clone()), &[MemoryPlan::Known]).unwrap();
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
