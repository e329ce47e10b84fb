//! `metadata.json`: what stands beside the bytes of a version, in ADK's form.

use retain_core::{ArtifactError, ArtifactVersion, Json, JsonMap, NewArtifact};

use super::layout::Shelf;

/// Its file name. No artifact is called so.
pub(super) const FILE: &str = "metadata.json";

/// What is read of it. Without the file everything is empty, as ADK takes it.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) file_name: Option<String>,
    pub(super) display_name: Option<String>,
    pub(super) mime_type: Option<String>,
    custom_metadata: JsonMap,
    create_time: f64,
}

impl Metadata {
    /// Reads that of a version; `None` if it has none.
    pub(super) fn read(shelf: &Shelf, version: u64) -> Result<Option<Metadata>, ArtifactError> {
        let path = shelf.version(version).join(FILE);
        let Some(bytes) = shelf.read(version, &path)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).map_err(|e| shelf.corrupt(version, e))?;
        let json = Json::parse(&text).map_err(|e| shelf.corrupt(version, e))?;
        let text_of = |camel: &str, snake: &str| {
            let value = json.get(camel).or_else(|| json.get(snake));
            value.and_then(Json::as_str).map(str::to_owned)
        };
        let value_of = |camel: &str, snake: &str| json.get(camel).or_else(|| json.get(snake));
        let notes = value_of("customMetadata", "custom_metadata").and_then(Json::as_object);
        let time = value_of("createTime", "create_time").and_then(Json::as_f64);
        Ok(Some(Metadata {
            file_name: text_of("fileName", "file_name"),
            display_name: text_of("displayName", "display_name"),
            mime_type: text_of("mimeType", "mime_type").filter(|it| !it.is_empty()),
            custom_metadata: notes.cloned().unwrap_or_default(),
            create_time: time.unwrap_or_default(),
        }))
    }

    /// As services tell it.
    pub(super) fn about(self, version: u64, canonical_uri: String) -> ArtifactVersion {
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

/// The text of the file for a new version.
pub(super) fn to_text(
    shelf: &Shelf,
    filename: &str,
    new: &NewArtifact,
    version: u64,
) -> Result<String, ArtifactError> {
    let mut fields = JsonMap::from([("version", Json::from(version))]);
    fields.insert("canonicalUri", shelf.uri(version));
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
    text.map_err(|e| ArtifactError::invalid("custom metadata", format!("cannot be written: {e}")))
}
