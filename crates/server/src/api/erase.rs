//! Erase a user from every store, and report what each store deleted.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{EraseNote, EraseReceipt, EraseReport, ErasedStore, Eraser};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Api, body::ok, operation::Operation, path::UserPath, problem::Problem, query::Params};
use crate::{guard::Scope, routes::Access, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const USER: &str = "/api/v1/apps/{app}/users/{user}";
    let erase_it = Operation::new(
        Method::DELETE,
        USER,
        "eraseUser",
        "Erase a user from every store and report what each store deleted",
    );
    api.add(
        erase_it.answers::<EraseReportBody>(200),
        Access::Path(Scope::Admin),
        erase,
    )
}

/// What was deleted, in total and by store.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EraseReceipt")]
pub(crate) struct EraseReportBody {
    /// Whether every store finished. If not, a note says what is left.
    complete: bool,
    #[serde(flatten)]
    total: EraseCounts,
    /// Number of memories; null if the memory service cannot erase them, in which case they stay.
    memories: Option<u64>,
    /// The stores, each once.
    stores: Vec<ErasedStoreBody>,
}

/// Numbers of deleted records.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EraseCounts {
    /// Number of sessions.
    sessions: u64,
    /// Number of events.
    events: u64,
    /// Number of state keys of the sessions and of the user.
    state_keys: u64,
    /// Number of artifact versions.
    artifacts: u64,
    /// Number of hashes of forgotten memories.
    tombstones: u64,
    /// Number of API keys that were bound to the user.
    api_keys: u64,
}

/// What one store deleted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ErasedStore")]
struct ErasedStoreBody {
    /// The kind of store.
    kind: &'static str,
    /// Its address without secrets; null if it is in the memory of the server.
    address: Option<String>,
    #[serde(flatten)]
    deleted: EraseCounts,
    /// Number of memories.
    memories: u64,
    /// What the store cannot guarantee, or could not finish.
    notes: Vec<EraseNoteBody>,
}

/// What a store cannot guarantee about erased data, or could not finish.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EraseNote")]
struct EraseNoteBody {
    /// Its name: `file_copies`, `database_copies`, `not_rewritten`, `not_vacuumed` or `not_erased`.
    code: &'static str,
    /// What it means, and what to do.
    text: String,
}

impl From<EraseReceipt> for EraseCounts {
    fn from(receipt: EraseReceipt) -> EraseCounts {
        EraseCounts {
            sessions: receipt.sessions,
            events: receipt.events,
            state_keys: receipt.state_keys,
            artifacts: receipt.artifacts,
            tombstones: receipt.tombstones,
            api_keys: receipt.api_keys,
        }
    }
}

impl From<EraseNote> for EraseNoteBody {
    fn from(note: EraseNote) -> EraseNoteBody {
        EraseNoteBody {
            code: note.code(),
            text: note.to_string(),
        }
    }
}

impl From<ErasedStore> for ErasedStoreBody {
    fn from(erased: ErasedStore) -> ErasedStoreBody {
        ErasedStoreBody {
            kind: erased.store.kind,
            address: erased.store.address,
            deleted: erased.receipt.into(),
            memories: erased.receipt.memories,
            notes: erased.notes.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<EraseReport> for EraseReportBody {
    fn from(report: EraseReport) -> EraseReportBody {
        let total = report.total();
        let mut notes = report.stores.iter().flat_map(|it| &it.notes);
        let cannot_erase = notes.any(|note| *note == EraseNote::NotErased);
        EraseReportBody {
            complete: report.is_complete(),
            total: total.into(),
            memories: (!cannot_erase).then_some(total.memories),
            stores: report.stores.into_iter().map(Into::into).collect(),
        }
    }
}

async fn erase(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let services = &server.services;
    server.apps.cancel_runs_of_user(&app, &user);
    let eraser = Eraser::new(
        services.sessions.clone(),
        services.memory.clone(),
        services.artifacts.clone(),
    );
    let report = eraser.erase_user(&app, &user).await?;
    server.apps.evict_user(&app, &user);
    ok(&EraseReportBody::from(report))
}
