//! A memory as the API returns it: ADK's entry and its source.

use retain_core::{MemoryEntry, MemoryInfo, MemoryKind, MemoryRecord, OriginKind, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::shapes::MemoryEntryObject;

/// A memory and its source.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
pub(crate) struct MemoryBody {
    /// The entry as ADK defines it.
    #[schemars(with = "MemoryEntryObject")]
    memory: MemoryEntry,
    /// The source of the entry.
    about: MemoryInfoBody,
}

/// The source of a memory.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MemoryInfo")]
pub(super) struct MemoryInfoBody {
    /// Its sequence number among the user's memories.
    seq: u64,
    /// How it was created.
    kind: KindName,
    /// The session that it comes from.
    session: Option<String>,
    /// Its position in the session's log, if known.
    position: Option<u64>,
    /// The event that it comes from.
    event_id: Option<String>,
    /// What produced it: a person, an agent, a tool or a direct write.
    origin: OriginName,
    /// The tool that it comes from.
    tool: Option<String>,
    /// The time of the message, in seconds since 1970.
    timestamp: f64,
    /// When it was ingested.
    created_at: f64,
    /// When it was last updated through the API; null if never.
    updated_at: Option<f64>,
    /// When it expires.
    expires_at: Option<f64>,
}

/// How a memory was created: from a session (`turn`) or by a direct write (`direct`).
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MemoryKind")]
pub(super) enum KindName {
    Turn,
    Direct,
}

/// The origin of a memory.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MemoryOrigin")]
pub(super) enum OriginName {
    Person,
    Agent,
    Tool,
    Direct,
}

impl From<MemoryKind> for KindName {
    fn from(kind: MemoryKind) -> KindName {
        match kind {
            MemoryKind::Turn => KindName::Turn,
            MemoryKind::Direct => KindName::Direct,
        }
    }
}

impl From<KindName> for MemoryKind {
    fn from(kind: KindName) -> MemoryKind {
        match kind {
            KindName::Turn => MemoryKind::Turn,
            KindName::Direct => MemoryKind::Direct,
        }
    }
}

impl From<OriginKind> for OriginName {
    fn from(origin: OriginKind) -> OriginName {
        match origin {
            OriginKind::Person => OriginName::Person,
            OriginKind::Agent => OriginName::Agent,
            OriginKind::Tool => OriginName::Tool,
            OriginKind::Direct => OriginName::Direct,
        }
    }
}

impl From<OriginName> for OriginKind {
    fn from(origin: OriginName) -> OriginKind {
        match origin {
            OriginName::Person => OriginKind::Person,
            OriginName::Agent => OriginKind::Agent,
            OriginName::Tool => OriginKind::Tool,
            OriginName::Direct => OriginKind::Direct,
        }
    }
}

impl From<MemoryInfo> for MemoryInfoBody {
    fn from(about: MemoryInfo) -> MemoryInfoBody {
        MemoryInfoBody {
            seq: about.seq,
            kind: about.kind.into(),
            position: Some(about.position).filter(|position| *position > 0),
            origin: about.origin.kind().into(),
            tool: about.origin.tool().map(str::to_owned),
            session: about.session,
            event_id: about.event_id,
            timestamp: about.timestamp,
            created_at: seconds(about.created_us),
            updated_at: about.updated_us.map(seconds),
            expires_at: about.expires_us.map(seconds),
        }
    }
}

impl From<MemoryRecord> for MemoryBody {
    fn from(record: MemoryRecord) -> MemoryBody {
        MemoryBody {
            memory: record.entry(),
            about: record.info.into(),
        }
    }
}
