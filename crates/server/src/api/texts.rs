//! The JSON texts of the API, for commands that print the same.

use retain_core::{EraseReport, MemoryRecord};
use retain_memory::MemoryHit;
use serde::Serialize;

use super::{
    erase::EraseReportBody,
    memory::{HitBody, MemoryBody},
};

/// Returns the receipt of an erase as the API returns it.
pub fn erase_report_json(report: EraseReport) -> serde_json::Result<String> {
    to_json(&EraseReportBody::from(report))
}

/// Returns a memory as the API lists it.
pub fn memory_json(record: MemoryRecord) -> serde_json::Result<String> {
    to_json(&MemoryBody::from(record))
}

/// Returns a hit of a search, with its explanation, as the API returns it.
pub fn memory_hit_json(hit: MemoryHit) -> serde_json::Result<String> {
    to_json(&HitBody::new(hit, true))
}

fn to_json(body: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(body)
}
