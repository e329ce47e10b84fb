//! A memory as callers see it: ADK's entry, and where it comes from.

use retain_core::{MemoryAbout, MemoryEntry, MemoryKind, MemoryRecord, OriginKind, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::shapes::MemoryEntryObject;

/// A memory and where it comes from.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
pub(super) struct MemoryBody {
    /// As ADK has it.
    #[schemars(with = "MemoryEntryObject")]
    memory: MemoryEntry,
    /// Where it comes from.
    about: About,
}

/// Where a memory comes from.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MemoryAbout")]
pub(super) struct About {
    /// Its number among the user's memories.
    seq: u64,
    /// How it came to be a memory.
    kind: KindName,
    /// The conversation it was said in.
    session: Option<String>,
    /// Its position in the conversation's log, if that is known.
    position: Option<u64>,
    /// The event it was said with.
    event_id: Option<String>,
    /// Who it comes from.
    origin: OriginName,
    /// The tool it comes from.
    tool: Option<String>,
    /// When it was said, in seconds since 1970.
    timestamp: f64,
    /// When it was taken up.
    created_at: f64,
    /// When it was changed by hand.
    updated_at: Option<f64>,
    /// When its time is up.
    expires_at: Option<f64>,
}

/// How a memory came to be one: said in a conversation, or given as a memory.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MemoryKind")]
pub(super) enum KindName {
    Turn,
    Direct,
}

/// Who a memory comes from.
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

impl From<MemoryAbout> for About {
    fn from(about: MemoryAbout) -> About {
        About {
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
            about: record.about.into(),
        }
    }
}
