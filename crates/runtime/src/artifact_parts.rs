//! Converts an artifact for a model: media that models accept stay unchanged, text files become
//! text, and a description replaces any other file. `load_artifacts` and templates use it.

use retain_core::Part;

use retain_core::python_text::python_strip;

const BINARY: &str = "application/octet-stream";

/// Converts a part into one that any model accepts: media unchanged, text files as text, and for
/// anything else a line that describes it in ADK's words.
pub fn safe_part(mut part: Part, name: &str) -> Part {
    let Some(blob) = &mut part.inline_data else {
        return part;
    };
    let given = blob.mime_type.as_deref().unwrap_or_default();
    let mut mime_type = normalize_mime_type(given);
    if is_media(&mime_type) {
        if let Some((_, parameters)) = given.split_once(';') {
            mime_type = format!("{mime_type};{parameters}");
        }
        blob.mime_type = Some(mime_type);
        return part;
    }
    if mime_type.is_empty() {
        mime_type = BINARY.to_owned();
    }
    Part::text(match &blob.data {
        Some(data) if is_textual(&mime_type, name) => String::from_utf8_lossy(data).into_owned(),
        data => describe_artifact(name, &mime_type, data.as_deref()),
    })
}

/// Returns ADK's line for a file that models cannot read.
pub(crate) fn describe_artifact(name: &str, mime_type: &str, data: Option<&[u8]>) -> String {
    let Some(data) = data else {
        return format!("[Artifact: {name}, type: {mime_type}. No inline data was provided.]");
    };
    let size = data.len() as f64 / 1024.0;
    format!(
        "[Binary artifact: {name}, type: {mime_type}, size: {size:.1} KB. \
         Content cannot be displayed inline.]"
    )
}

/// Returns the media type in lower case, without parameters.
pub(crate) fn normalize_mime_type(mime_type: &str) -> String {
    let base = mime_type.split(';').next().unwrap_or_default();
    python_strip(base).to_lowercase()
}

/// Whether models accept the type unchanged. SVG and XML images are read as text instead.
pub(crate) fn is_media(mime_type: &str) -> bool {
    const TEXT_IMAGES: [&str; 3] = ["image/svg", "image/svg+xml", "image/xml"];
    let is_media = ["image/", "audio/", "video/"]
        .iter()
        .any(|kind| mime_type.starts_with(kind));
    (is_media && !TEXT_IMAGES.contains(&mime_type)) || mime_type == "application/pdf"
}

/// Whether the data is text, according to its media type or its file extension.
pub(crate) fn is_textual(mime_type: &str, name: &str) -> bool {
    const TYPES: [&str; 7] = [
        "application/csv",
        "application/json",
        "application/svg+xml",
        "application/xml",
        "image/svg",
        "image/svg+xml",
        "image/xml",
    ];
    const ENDINGS: [&str; 4] = [".csv", ".txt", ".json", ".xml"];
    let name = name.to_lowercase();
    mime_type.starts_with("text/")
        || TYPES.contains(&mime_type)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}
