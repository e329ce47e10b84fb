//! Checks and repairs that the SQL stores share: queries that find rows which contradict each other,
//! the comparison of schemas, and decoding checks.

pub(crate) mod rules;
pub(crate) mod schema;

use retain_core::{ApiKey, ArtifactAddress, Damage, Json, Location, Problem, Result, StateOwner};

use super::artifacts::{decode_artifact, decode_version};

/// The columns of an artifact version, without its bytes.
pub(crate) struct ArtifactColumns<'a> {
    pub(crate) address: &'a ArtifactAddress,
    pub(crate) version: u64,
    pub(crate) create_time: f64,
    pub(crate) mime_type: Option<String>,
    pub(crate) custom_metadata: &'a str,
    pub(crate) part: &'a str,
    pub(crate) has_data: bool,
}

/// Returns the owner of a row of shared state.
pub(crate) fn state_owner(app: String, user: String) -> StateOwner {
    match user.is_empty() {
        true => StateOwner::app(app),
        false => StateOwner::user(app, user),
    }
}

/// Checks that a value of shared state can be decoded.
pub(crate) fn check_shared_value(owner: StateOwner, name: &str, value: &[u8]) -> Option<Problem> {
    let decoded = std::str::from_utf8(value).map_err(|e| e.to_string());
    let decoded = decoded.and_then(|text| Json::parse(text).map_err(|e| e.to_string()));
    let location = Location::SharedState {
        owner,
        name: Some(name.to_owned()),
    };
    Some(Problem::unreadable(location, decoded.err()?))
}

/// Checks that a version of an artifact can be decoded and has its bytes.
pub(crate) fn check_artifact(columns: ArtifactColumns<'_>) -> Option<Problem> {
    let ArtifactColumns {
        address,
        version,
        create_time,
        mime_type,
        ..
    } = columns;
    let location = Location::Artifact {
        address: Box::new(address.clone()),
        version: Some(version),
    };
    let metadata = columns.custom_metadata;
    if let Err(error) = decode_version(address, version, create_time, mime_type, metadata) {
        return Some(Problem::unreadable(location, root_cause(&error)));
    }
    let stored = match decode_artifact(address, version, columns.part, None) {
        Ok(stored) => stored,
        Err(error) => return Some(Problem::unreadable(location, root_cause(&error))),
    };
    let what = "its content".to_owned();
    let needs_data = stored.part.inline_data.is_some();
    (needs_data != columns.has_data).then(|| {
        let damage = match needs_data {
            true => Damage::Missing { what },
            false => Damage::Differs { what, values: None },
        };
        Problem::permanent(location, damage)
    })
}

/// Checks that an API key was decoded and is valid. The marker row has an empty id.
pub(crate) fn check_key(id: String, decoded: Result<ApiKey, String>) -> Option<Problem> {
    if id.is_empty() {
        return None;
    }
    let checked = decoded.and_then(|key| key.check().map_err(|e| e.to_string()));
    Some(Problem::unreadable(Location::ApiKey { id }, checked.err()?))
}

/// The text of the first cause of an error.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
