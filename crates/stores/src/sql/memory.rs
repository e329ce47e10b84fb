//! Memories as rows: what stands in one, what becomes of it, and what a user's row says of all of
//! them.

use std::collections::HashMap;

use retain_core::{
    BoxError, ForgetReceipt, IngestReceipt, Json, JsonMap, MemoryError, MemoryInfo, MemoryKind,
    MemoryMark, MemoryOrigin, MemoryPlan, MemoryScope, MemoryTotals, MemoryVector, PreparedMemory,
    Tombstone,
    store_rules::{MEMORY_CHANGES_MAX, MemoryRemoval},
};

/// Memories that one transaction of an erase removes.
pub(crate) const ERASE_CHUNK: usize = 2000;

/// The columns of [`MemoryInfo`] behind its number, in the order of [`RawMemoryInfo`].
macro_rules! about_columns {
    () => {
        "id, revision, kind, origin, tool, session, position, event_id, author, timestamp, \
         created_us, updated_us, expires_us, custom_metadata"
    };
}

/// How many bytes of a memory count against the limit, as `PreparedMemory::bytes` has it.
macro_rules! memory_bytes {
    () => {
        "octet_length(content) + coalesce(octet_length(custom_metadata), 0) \
         + coalesce(octet_length(author), 0) + coalesce(octet_length(tool), 0)"
    };
}

pub(crate) use {about_columns, memory_bytes};

/// The row of a user's memories.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScopeRow {
    pub(crate) number: i64,
    pub(crate) revision: u64,
    pub(crate) last_seq: u64,
    pub(crate) floor: u64,
    pub(crate) touched: u64,
    pub(crate) tombstones: u64,
    pub(crate) totals: MemoryTotals,
}

impl ScopeRow {
    pub(crate) fn mark(&self) -> MemoryMark {
        MemoryMark {
            generation: self.number as u64,
            revision: self.revision,
            last_seq: self.last_seq,
        }
    }

    /// Whether it is known what has changed since this mark.
    pub(crate) fn is_known_since(&self, since: MemoryMark) -> bool {
        let known = self.floor..=self.revision;
        self.mark().generation == since.generation && known.contains(&since.revision)
    }

    /// Starts a revision in which `touched` memories were changed or removed. False if they are more
    /// than are recorded; then readers rebuild.
    pub(crate) fn start_revision(&mut self, touched: usize) -> bool {
        self.revision += 1;
        self.touched += touched as u64;
        let is_noted = self.touched <= MEMORY_CHANGES_MAX as u64;
        if !is_noted {
            (self.touched, self.floor) = (0, self.revision);
        }
        is_noted
    }

    /// Takes what is gone off the totals.
    pub(crate) fn subtract(&mut self, gone: &ForgetReceipt) {
        let totals = &mut self.totals;
        totals.entries = totals.entries.saturating_sub(gone.memories);
        totals.bytes = totals.bytes.saturating_sub(gone.bytes);
        self.tombstones += gone.tombstones;
    }
}

/// What the plans for a batch come to.
pub(crate) fn added(plans: &[MemoryPlan]) -> IngestReceipt {
    let mut added = IngestReceipt::default();
    for plan in plans {
        match plan {
            MemoryPlan::Insert => added.added += 1,
            MemoryPlan::Replace { .. } => added.replaced += 1,
            MemoryPlan::Known => added.known += 1,
            MemoryPlan::Forgotten => added.forgotten += 1,
        }
    }
    added
}

/// A memory that is to go.
#[derive(Debug, Clone)]
pub(crate) struct RemovedMemory {
    pub(crate) seq: u64,
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) kind: i64,
    pub(crate) bytes: u64,
}

impl RemovedMemory {
    /// The hash that is left of it, if one is.
    pub(crate) fn tombstone(&self, scope: &MemoryScope, how: MemoryRemoval) -> Option<Tombstone> {
        match how {
            MemoryRemoval::ById => Some(Tombstone::of_id(scope, &self.id)),
            MemoryRemoval::Expiry if self.kind == kind_number(MemoryKind::Direct) => None,
            MemoryRemoval::ByAddress | MemoryRemoval::Expiry => {
                let session = self.session.as_deref();
                Some(Tombstone::of_entry(scope, session, &self.id))
            }
        }
    }
}

pub(crate) fn kind_number(kind: MemoryKind) -> i64 {
    match kind {
        MemoryKind::Turn => 0,
        MemoryKind::Direct => 1,
    }
}

fn kind(number: i64) -> Result<MemoryKind, BoxError> {
    match number {
        0 => Ok(MemoryKind::Turn),
        1 => Ok(MemoryKind::Direct),
        other => Err(format!("there is no kind {other}").into()),
    }
}

/// The kind of a memory that a new one is compared with. A corrupt one stays as it is, and reading
/// it fails.
pub(crate) fn known_kind(number: i64) -> MemoryKind {
    kind(number).unwrap_or_default()
}

pub(crate) fn origin_number(origin: &MemoryOrigin) -> i64 {
    match origin {
        MemoryOrigin::Person => 0,
        MemoryOrigin::Agent => 1,
        MemoryOrigin::Tool { .. } => 2,
        MemoryOrigin::Direct => 3,
    }
}

fn origin(number: i64, tool: Option<String>) -> Result<MemoryOrigin, BoxError> {
    match (number, tool) {
        (0, _) => Ok(MemoryOrigin::Person),
        (1, _) => Ok(MemoryOrigin::Agent),
        (2, Some(name)) => Ok(MemoryOrigin::Tool { name }),
        (2, None) => Err("it is from a tool that has no name".into()),
        (3, _) => Ok(MemoryOrigin::Direct),
        (other, _) => Err(format!("there is no origin {other}").into()),
    }
}

/// The id of the event where it is not the memory's own.
pub(crate) fn own_event_id(memory: &PreparedMemory) -> Option<&str> {
    let event_id = memory.new.event_id.as_deref();
    event_id.filter(|id| *id != memory.new.id)
}

fn parse_metadata(text: Option<&str>) -> Result<JsonMap, BoxError> {
    let Some(text) = text else {
        return Ok(JsonMap::new());
    };
    let notes = Json::parse(text)?;
    let notes = notes.as_object().cloned();
    notes.ok_or_else(|| "its metadata is not an object".into())
}

/// What a row says of a memory, not yet looked at.
#[derive(Debug)]
pub(crate) struct RawMemoryInfo {
    pub(crate) seq: u64,
    pub(crate) id: String,
    pub(crate) revision: u64,
    pub(crate) kind: i64,
    pub(crate) origin: i64,
    pub(crate) tool: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) position: u64,
    pub(crate) event_id: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) timestamp: f64,
    pub(crate) created_us: i64,
    pub(crate) updated_us: Option<i64>,
    pub(crate) expires_us: Option<i64>,
    pub(crate) custom_metadata: Option<String>,
}

impl RawMemoryInfo {
    /// What it means. Nothing is taken for something else.
    pub(crate) fn read(self) -> Result<MemoryInfo, BoxError> {
        let kind = kind(self.kind)?;
        Ok(MemoryInfo {
            seq: self.seq,
            revision: self.revision,
            kind,
            session: self.session,
            position: self.position,
            event_id: match kind {
                MemoryKind::Turn => Some(self.event_id.unwrap_or_else(|| self.id.clone())),
                MemoryKind::Direct => None,
            },
            id: self.id,
            author: self.author,
            origin: origin(self.origin, self.tool)?,
            timestamp: self.timestamp,
            created_us: self.created_us,
            updated_us: self.updated_us,
            expires_us: self.expires_us,
            custom_metadata: parse_metadata(self.custom_metadata.as_deref())?,
        })
    }
}

/// What made vectors, by number.
pub(crate) type Models = HashMap<i64, (String, usize)>;

/// A vector of a model that is not known is none: it is made anew.
pub(crate) fn vector(
    models: &Models,
    model: Option<i64>,
    bytes: Option<Vec<u8>>,
) -> Option<MemoryVector> {
    let model = model.and_then(|model| models.get(&model));
    bytes.zip(model).map(|(bytes, (model, dims))| MemoryVector {
        model: model.clone(),
        dims: *dims,
        bytes,
    })
}

/// A memory that cannot be read.
pub(crate) fn corrupt(id: &str, cause: impl Into<BoxError>) -> MemoryError {
    MemoryError::Corrupt {
        id: id.to_owned(),
        source: cause.into(),
    }
}

/// Damage: this memory cannot be read.
pub(crate) fn unreadable(scope: &MemoryScope, error: &MemoryError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let cause = cause.unwrap_or_default();
    format!("memories of {scope}: {error}: {cause}")
}

/// Reports totals in the user's row that differ from the rows.
pub(crate) fn other_totals(
    scope: &MemoryScope,
    noted: (u64, u64),
    found: (u64, u64),
) -> Option<String> {
    (noted != found).then(|| {
        format!(
            "memories of {scope}: {} of {} bytes, should be {} of {}",
            found.0, found.1, noted.0, noted.1
        )
    })
}
