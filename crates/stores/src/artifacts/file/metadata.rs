//! Reads and writes `metadata.json`, which ADK stores beside the bytes of a version.

use retain_core::{ArtifactError, ArtifactVersion, Json, JsonMap, NewArtifact};

use super::layout::ArtifactFolder;

/// The name of the metadata file. Artifact names must not contain it.
pub(super) const FILE: &str = "metadata.json";

/// The fields that Retain reads. Like ADK, it treats a missing file as empty metadata.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) file_name: Option<String>,
    pub(super) display_name: Option<String>,
    pub(super) mime_type: Option<String>,
    custom_metadata: JsonMap,
    create_time: f64,
}

impl Metadata {
    /// Reads the metadata of a version; `None` if the file does not exist.
    pub(super) fn read(
        artifact: &ArtifactFolder,
        version: u64,
    ) -> Result<Option<Metadata>, ArtifactError> {
        let path = artifact.version(version).join(FILE);
        let Some(bytes) = artifact.read(version, &path)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).map_err(|e| artifact.corrupt(version, e))?;
        let json = Json::parse(&text).map_err(|e| artifact.corrupt(version, e))?;
        let get = |camel: &str, snake: &str| json.get(camel).or_else(|| json.get(snake));
        let get_text = |camel: &str, snake: &str| {
            let value = get(camel, snake);
            value.and_then(Json::as_str).map(str::to_owned)
        };
        let custom = get("customMetadata", "custom_metadata").and_then(Json::as_object);
        let time = get("createTime", "create_time").and_then(Json::as_f64);
        Ok(Some(Metadata {
            file_name: get_text("fileName", "file_name"),
            display_name: get_text("displayName", "display_name"),
            mime_type: get_text("mimeType", "mime_type").filter(|it| !it.is_empty()),
            custom_metadata: custom.cloned().unwrap_or_default(),
            create_time: time.unwrap_or_default(),
        }))
    }

    pub(super) fn into_version(self, version: u64, canonical_uri: String) -> ArtifactVersion {
        ArtifactVersion {
            version,
            canonical_uri,
            custom_metadata: self.custom_metadata,
            create_time: self.create_time,
            mime_type: self.mime_type,
            ..ArtifactVersion::default()
        }
    }
}

/// Encodes the metadata file of a new version.
pub(super) fn encode(
    artifact: &ArtifactFolder,
    filename: &str,
    new: &NewArtifact,
    version: u64,
) -> Result<String, ArtifactError> {
    let mut fields = JsonMap::from([("version", Json::from(version))]);
    fields.insert("canonicalUri", artifact.uri(version));
    fields.insert("customMetadata", new.custom_metadata.clone());
    fields.insert("createTime", new.create_time);
    if let Some(mime_type) = &new.mime_type {
        fields.insert("mimeType", mime_type.as_str());
    }
    fields.insert("fileName", filename);
    let blob = new.part.inline_data.as_ref();
    if let Some(display_name) = blob.and_then(|blob| blob.display_name.as_deref()) {
        fields.insert("displayName", display_name);
    }
    let text = Json::from(fields).to_json();
    text.map_err(|e| {
        ArtifactError::invalid("custom metadata", format!("cannot be encoded as JSON: {e}"))
    })
}
