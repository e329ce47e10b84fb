//! Memory rows and scope rows, as the SQL stores share them.

use std::collections::HashMap;

use retain_core::{
    BoxError, ForgetReceipt, IngestReceipt, Json, JsonMap, MemoryError, MemoryInfo, MemoryKind,
    MemoryMark, MemoryOrigin, MemoryPlan, MemoryRecord, MemoryScope, MemoryTotals, MemoryVector,
    PreparedMemory, Tombstone,
    budget::{charge, json_cost},
    store_rules::{MEMORY_CHANGES_MAX, MemoryRemoval},
};

/// Maximum number of memories that one transaction of an erase removes.
pub(crate) const ERASE_CHUNK: usize = 2000;

/// The columns of [`MemoryInfo`] after its sequence number, in the order of [`RawMemoryInfo`].
macro_rules! info_columns {
    () => {
        "id, revision, kind, origin, tool, session, position, event_id, author, timestamp, \
         created_us, updated_us, expires_us, custom_metadata"
    };
}

/// The bytes of a memory that count against the limit, as in `PreparedMemory::bytes`.
macro_rules! memory_bytes {
    () => {
        "octet_length(content) + coalesce(octet_length(custom_metadata), 0) \
         + coalesce(octet_length(author), 0) + coalesce(octet_length(tool), 0)"
    };
}

pub(crate) use {info_columns, memory_bytes};

/// The scope row of a user's memories.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScopeRow {
    pub(crate) number: i64,
    pub(crate) revision: u64,
    pub(crate) last_seq: u64,
    /// The revision after which changes are recorded.
    pub(crate) floor: u64,
    /// Number of recorded changes.
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

    /// Whether all changes since this mark are recorded.
    pub(crate) fn can_list_changes_since(&self, since: MemoryMark) -> bool {
        let recorded = self.floor..=self.revision;
        self.mark().generation == since.generation && recorded.contains(&since.revision)
    }

    /// Starts a revision in which `touched` memories were changed or removed. Returns false if the
    /// changes are too many to record; readers then rebuild their indexes.
    pub(crate) fn start_revision(&mut self, touched: usize) -> bool {
        self.revision += 1;
        self.touched += touched as u64;
        let is_recorded = self.touched <= MEMORY_CHANGES_MAX as u64;
        if !is_recorded {
            (self.touched, self.floor) = (0, self.revision);
        }
        is_recorded
    }

    /// Subtracts removed memories from the totals and counts their tombstones.
    pub(crate) fn subtract(&mut self, removed: &ForgetReceipt) {
        let totals = &mut self.totals;
        totals.entries = totals.entries.saturating_sub(removed.memories);
        totals.bytes = totals.bytes.saturating_sub(removed.bytes);
        self.tombstones += removed.tombstones;
    }
}

/// Counts the plans of a batch by kind.
pub(crate) fn count_plans(plans: &[MemoryPlan]) -> IngestReceipt {
    let mut receipt = IngestReceipt::default();
    for plan in plans {
        match plan {
            MemoryPlan::Insert => receipt.added += 1,
            MemoryPlan::Replace { .. } => receipt.replaced += 1,
            MemoryPlan::Unchanged => receipt.unchanged += 1,
            MemoryPlan::Forgotten => receipt.forgotten += 1,
        }
    }
    receipt
}

/// The fields of a memory that its removal needs.
#[derive(Debug, Clone)]
pub(crate) struct RemovedMemory {
    pub(crate) seq: u64,
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) kind: i64,
    pub(crate) bytes: u64,
}

impl RemovedMemory {
    /// Returns the tombstone that the removal leaves; `None` if it leaves none.
    pub(crate) fn tombstone(&self, scope: &MemoryScope, how: MemoryRemoval) -> Option<Tombstone> {
        let is_direct = self.kind == kind_number(MemoryKind::Direct);
        how.tombstone(scope, self.session.as_deref(), &self.id, is_direct)
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
        other => Err(format!("unknown memory kind {other}").into()),
    }
}

/// Decodes the kind of an existing memory, to compare a new one with it. A corrupt kind must not
/// fail the add, so it becomes the default; reading that memory reports the corruption.
pub(crate) fn kind_or_default(number: i64) -> MemoryKind {
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
        (2, None) => Err("its origin is a tool, but the tool name is missing".into()),
        (3, _) => Ok(MemoryOrigin::Direct),
        (other, _) => Err(format!("unknown memory origin {other}").into()),
    }
}

/// Returns the event id, if it differs from the memory's id.
pub(crate) fn own_event_id(memory: &PreparedMemory) -> Option<&str> {
    let event_id = memory.new.event_id.as_deref();
    event_id.filter(|id| *id != memory.new.id)
}

fn parse_metadata(text: Option<&str>) -> Result<JsonMap, BoxError> {
    let Some(text) = text else {
        return Ok(JsonMap::new());
    };
    let metadata = Json::parse(text)?;
    let metadata = metadata.as_object().cloned();
    metadata.ok_or_else(|| "its metadata is not an object".into())
}

/// The columns of [`MemoryInfo`] before validation.
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
    /// Validates the columns. Unknown values are errors.
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

/// Embedding models (id and dimensions) by number.
pub(crate) type Models = HashMap<i64, (String, usize)>;

/// Decodes a vector. If its model is unknown, returns `None`, so that the vector is computed again.
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

/// Charges a memory with this content and bytes of vectors to the current request.
pub(crate) fn charge_record(content: &[u8], vectors: usize) -> Result<(), MemoryError> {
    let own = size_of::<MemoryRecord>() + content.len() + json_cost(content);
    Ok(charge(own + vectors)?)
}

/// Returns the error for an unreadable memory.
pub(crate) fn corrupt(id: &str, cause: impl Into<BoxError>) -> MemoryError {
    MemoryError::Corrupt {
        id: id.to_owned(),
        source: cause.into(),
    }
}
