//! Artifacts as rows: a part without its bytes, and the bytes; and how they become one again.

use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactVersion, BoxError, Bytes, Json, NewArtifact, Part,
    SessionError, StoredArtifact, store_rules::artifact_reference,
};

/// What a row says of a version, and what it holds.
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
    pub(crate) fn of(mut new: NewArtifact) -> Result<ArtifactRow, ArtifactError> {
        let blob = new.part.inline_data.as_mut();
        let data = blob.and_then(|blob| blob.data.take());
        let unwritable = |what, e| ArtifactError::invalid(what, format!("cannot be written: {e}"));
        let notes = Json::from(new.custom_metadata).to_json();
        Ok(ArtifactRow {
            part: new.part.to_json().map_err(|e| unwritable("artifact", e))?,
            data,
            custom_metadata: notes.map_err(|e| unwritable("custom metadata", e))?,
            mime_type: new.mime_type,
            create_time: new.create_time,
        })
    }
}

/// The session in an artifact's address. No session is called '': those are the user's own.
pub(crate) fn session(place: &ArtifactAddress) -> &str {
    place.session.as_deref().unwrap_or_default()
}

/// A version from its row.
pub(crate) fn stored(
    place: &ArtifactAddress,
    version: u64,
    part: &str,
    data: Option<Bytes>,
) -> Result<StoredArtifact, ArtifactError> {
    let mut part = Part::from_json(part).map_err(|e| corrupt(place, version, e))?;
    if let Some(blob) = &mut part.inline_data {
        blob.data = data;
    }
    Ok(StoredArtifact { part, version })
}

/// What is known of a version, from its row.
pub(crate) fn read_version(
    place: &ArtifactAddress,
    version: u64,
    create_time: f64,
    mime_type: Option<String>,
    notes: &str,
) -> Result<ArtifactVersion, ArtifactError> {
    let notes = Json::parse(notes).map_err(|e| corrupt(place, version, e))?;
    let notes = notes.as_object().cloned();
    let not_an_object = || corrupt(place, version, "its custom metadata is not an object");
    let notes = notes.ok_or_else(not_an_object)?;
    Ok(ArtifactVersion {
        version,
        canonical_uri: artifact_reference(place, version).to_string(),
        create_time,
        mime_type,
        custom_metadata: notes,
        ..ArtifactVersion::default()
    })
}

/// A version that cannot be read.
pub(crate) fn corrupt(
    place: &ArtifactAddress,
    version: u64,
    cause: impl Into<BoxError>,
) -> ArtifactError {
    ArtifactError::Corrupt {
        address: place.filename.clone(),
        version,
        source: cause.into(),
    }
}

/// A failure of the database `store` as one of artifacts.
pub(crate) fn as_artifact_error(store: &'static str, error: SessionError) -> ArtifactError {
    match error {
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
            operation: "keep artifacts",
            source: Box::new(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_is_not_an_object_is_corrupt() {
        let place = ArtifactAddress {
            app: "app".to_owned(),
            user: "ada".to_owned(),
            session: None,
            name: "a.txt".to_owned(),
            filename: "a.txt".to_owned(),
        };
        let read = |notes: &str| read_version(&place, 3, 0.0, None, notes);
        assert_eq!(read(r#"{"n":1}"#).unwrap().custom_metadata.len(), 1);
        for notes in ["", "null", "[]", "7", "{"] {
            let error = read(notes).unwrap_err();
            let names_it = matches!(error, ArtifactError::Corrupt { version: 3, .. });
            assert!(names_it, "{notes:?}: {error:?}");
        }
    }
}
