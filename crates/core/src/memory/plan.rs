//! What a store asks while it takes memories up: is this one new, and is there room for it?

use super::{
    identity::body_hash,
    record::{MemoryKind, MemoryOrigin, MemoryRecord, MemoryScope, MemoryVectors},
    service::MemoryError,
    store::MemoryUpdate,
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
    /// Makes it ready; fails for what cannot be written as JSON.
    pub fn new(new: NewMemory) -> Result<PreparedMemory, MemoryError> {
        let content_json = new.content.to_json().map_err(|e| unwritable("memory", e))?;
        let metadata_json = metadata_json(&new.custom_metadata)?;
        let notes = metadata_json.as_deref().unwrap_or_default();
        let author = new.author.as_deref().unwrap_or_default();
        Ok(PreparedMemory {
            body_hash: body_hash(&[&content_json, notes, author]),
            content_json,
            metadata_json,
            new,
        })
    }

    /// What a change by hand makes of a memory.
    pub fn edited(
        record: &MemoryRecord,
        update: &MemoryUpdate,
    ) -> Result<PreparedMemory, MemoryError> {
        let about = &record.about;
        let content = update.content.as_ref().unwrap_or(&record.content);
        let notes = update.custom_metadata.as_ref();
        PreparedMemory::new(NewMemory {
            author: about.author.clone(),
            content: content.clone(),
            custom_metadata: notes.unwrap_or(&about.custom_metadata).clone(),
            expires_us: update.expires_us.unwrap_or(about.expires_us),
            ..NewMemory::default()
        })
    }

    /// How many bytes count against the limit.
    pub fn bytes(&self) -> u64 {
        let notes = self.metadata_json.as_ref().map_or(0, String::len);
        (self.content_json.len() + notes) as u64
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
    /// The memories. No two have the same id.
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
    /// Bytes of what a user's memories say, as JSON with their notes.
    pub bytes: u64,
    /// Bytes of one memory.
    pub entry_bytes: u64,
    /// Memories that are taken up for a user within a minute of the clock.
    pub entries_per_minute: u64,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits {
            entries: 1_000_000,
            bytes: 1024 * 1024 * 1024,
            entry_bytes: 16 * 1024 * 1024,
            entries_per_minute: 1_000_000,
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
    /// How many bytes it takes.
    pub bytes: u64,
    /// Whether it was changed by hand.
    pub is_edited: bool,
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

/// Decides about one memory. `same_id`: those of the scope with its id, in any session.
pub fn plan_memory(
    new: &PreparedMemory,
    same_id: &[KnownMemory],
    is_forgotten: bool,
    repeats: Repeats,
) -> MemoryPlan {
    if is_forgotten {
        return MemoryPlan::Forgotten;
    }
    let here = same_id
        .iter()
        .find(|known| known.session == new.new.session);
    if let Some(known) = here {
        let is_new = known.body_hash != new.body_hash && !known.is_edited;
        return match is_new && repeats == Repeats::Replace {
            true => MemoryPlan::Replace {
                seq: known.seq,
                bytes: known.bytes,
            },
            false => MemoryPlan::Known,
        };
    }
    // A fork has its origin's events: the same was not said twice.
    match same_id.iter().any(|known| known.body_hash == new.body_hash) {
        true => MemoryPlan::Known,
        false => MemoryPlan::Insert,
    }
}

/// What the scope holds after the plans are carried out; fails if that is more than there is room
/// for. What is over a limit that was lowered since may stay.
pub fn plan_growth(
    before: MemoryTotals,
    batch: &MemoryBatch,
    plans: &[MemoryPlan],
) -> Result<MemoryTotals, MemoryError> {
    let minute = batch.now_us.div_euclid(60_000_000);
    let mut after = before;
    if after.minute != minute {
        (after.minute, after.in_minute) = (minute, 0);
    }
    for (memory, plan) in batch.memories.iter().zip(plans) {
        match plan {
            MemoryPlan::Insert => {
                after.entries += 1;
                after.bytes += memory.bytes();
            }
            MemoryPlan::Replace { bytes, .. } => {
                after.bytes = (after.bytes + memory.bytes()).saturating_sub(*bytes);
            }
            MemoryPlan::Known | MemoryPlan::Forgotten => continue,
        }
        after.in_minute += 1;
        let limit = batch.limits.entry_bytes;
        check("bytes of a memory", 0, memory.bytes(), limit)?;
    }
    let limits = &batch.limits;
    check(
        "memories of a user",
        before.entries,
        after.entries,
        limits.entries,
    )?;
    check(
        "bytes of a user's memories",
        before.bytes,
        after.bytes,
        limits.bytes,
    )?;
    let so_far = if before.minute == minute {
        before.in_minute
    } else {
        0
    };
    let what = "memories taken up for a user within a minute";
    check(what, so_far, after.in_minute, limits.entries_per_minute)?;
    Ok(after)
}

/// Fails when something grows from `before` to `after` and over `limit`.
pub(crate) fn check(
    what: &'static str,
    before: u64,
    after: u64,
    limit: u64,
) -> Result<(), MemoryError> {
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
            bytes: 50,
            is_edited,
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
            let memory = new(s1, "red");
            assert_eq!(
                plan_memory(&memory, &same_id, false, repeats),
                plan,
                "{same_id:?}"
            );
            let forgotten = plan_memory(&memory, &same_id, true, repeats);
            assert_eq!(forgotten, MemoryPlan::Forgotten);
        }
    }

    #[test]
    fn limits_stop_growth_and_nothing_else() {
        let batch = |limits| MemoryBatch {
            scope: MemoryScope::new("app", "ada"),
            memories: vec![new(None, "red")],
            repeats: Repeats::Keep,
            limits,
            now_us: 61_000_000,
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
