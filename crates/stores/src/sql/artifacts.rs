//! Artifact rows: the bytes of a version, and its part as JSON without the bytes.

use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactVersion, BoxError, Bytes, Json, NewArtifact, Part,
    SessionError, StoredArtifact,
    budget::{OverBudget, charge},
    store_rules::artifact_reference,
};

/// The columns of one version.
#[derive(Debug)]
pub(crate) struct ArtifactRow {
    /// The part without its bytes, as JSON.
    pub(crate) part: String,
    pub(crate) data: Option<Bytes>,
    pub(crate) custom_metadata: String,
    pub(crate) mime_type: Option<String>,
    pub(crate) create_time: f64,
}

impl ArtifactRow {
    pub(crate) fn from_new(mut new: NewArtifact) -> Result<ArtifactRow, ArtifactError> {
        let blob = new.part.inline_data.as_mut();
        let data = blob.and_then(|blob| blob.data.take());
        let invalid =
            |what, e| ArtifactError::invalid(what, format!("cannot be encoded as JSON: {e}"));
        let metadata = Json::from(new.custom_metadata).to_json();
        Ok(ArtifactRow {
            part: new.part.to_json().map_err(|e| invalid("artifact", e))?,
            data,
            custom_metadata: metadata.map_err(|e| invalid("custom metadata", e))?,
            mime_type: new.mime_type,
            create_time: new.create_time,
        })
    }

    /// Returns the size of its content.
    pub(crate) fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len()) + self.part.len()
    }
}

/// Returns the session column of an artifact. It is empty for user artifacts: no session has an
/// empty id.
pub(crate) fn session_column(address: &ArtifactAddress) -> &str {
    address.session.as_deref().unwrap_or_default()
}

/// Charges the bytes of an artifact to the current request: they are copied, encoded in base64 and
/// written into a response.
pub(crate) fn charge_data(bytes: usize) -> Result<(), OverBudget> {
    charge(bytes.saturating_mul(4))
}

/// Decodes a version from its row.
pub(crate) fn decode_artifact(
    address: &ArtifactAddress,
    version: u64,
    part: &str,
    data: Option<Bytes>,
) -> Result<StoredArtifact, ArtifactError> {
    let mut part = Part::from_json(part).map_err(|e| corrupt(address, version, e))?;
    if let Some(blob) = &mut part.inline_data {
        blob.data = data;
    }
    Ok(StoredArtifact { part, version })
}

/// Decodes the metadata of a version from its row.
pub(crate) fn decode_version(
    address: &ArtifactAddress,
    version: u64,
    create_time: f64,
    mime_type: Option<String>,
    metadata: &str,
) -> Result<ArtifactVersion, ArtifactError> {
    let metadata = Json::parse(metadata).map_err(|e| corrupt(address, version, e))?;
    let metadata = metadata.as_object().cloned();
    let not_an_object = || corrupt(address, version, "its custom metadata is not an object");
    let metadata = metadata.ok_or_else(not_an_object)?;
    Ok(ArtifactVersion {
        version,
        canonical_uri: artifact_reference(address, version).to_string(),
        create_time,
        mime_type,
        custom_metadata: metadata,
        ..ArtifactVersion::default()
    })
}

/// Returns the error for an unreadable version.
pub(crate) fn corrupt(
    address: &ArtifactAddress,
    version: u64,
    cause: impl Into<BoxError>,
) -> ArtifactError {
    ArtifactError::Corrupt {
        address: address.filename.clone(),
        version,
        source: cause.into(),
    }
}

/// Converts an error of the database `store` to an artifact error.
pub(crate) fn as_artifact_error(store: &'static str, error: SessionError) -> ArtifactError {
    match error {
        SessionError::OverBudget(error) => error.into(),
        SessionError::Full {
            store,
            operation,
            source,
        } => ArtifactError::Full {
            store,
            operation,
            source,
        },
        SessionError::Store {
            store,
            operation,
            source,
        } => ArtifactError::Store {
            store,
            operation,
            source,
        },
        other => ArtifactError::Store {
            store,
            operation: "access artifacts",
            source: Box::new(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_is_not_an_object_is_corrupt() {
        let address = ArtifactAddress {
            app: "app".to_owned(),
            user: "ada".to_owned(),
            session: None,
            name: "a.txt".to_owned(),
            filename: "a.txt".to_owned(),
        };
        let read = |metadata: &str| decode_version(&address, 3, 0.0, None, metadata);
        assert_eq!(read(r#"{"n":1}"#).unwrap().custom_metadata.len(), 1);
        for metadata in ["", "null", "[]", "7", "{"] {
            let error = read(metadata).unwrap_err();
            let is_corrupt = matches!(error, ArtifactError::Corrupt { version: 3, .. });
            assert!(is_corrupt, "{metadata:?}: {error:?}");
        }
    }
}
