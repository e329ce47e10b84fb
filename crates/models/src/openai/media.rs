//! Converts images, audio, video and documents, as far as a server supports them.
//!
//! Unsupported media is replaced by a line of text, with a warning: a part stays in the history, so
//! an error would make the session unusable forever.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use retain_core::{Blob, FileData, Json};

use super::{json::object, server::ServerKind};

/// Document types that chat completions accept as files.
const DOCUMENTS: [(&str, &str); 6] = [
    ("application/pdf", "pdf"),
    ("application/msword", "doc"),
    (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "docx",
    ),
    (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "pptx",
    ),
    ("application/json", "json"),
    ("application/x-sh", "sh"),
];

/// MIME types by file extension, for files without a MIME type.
const ENDINGS: [(&str, &str); 11] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("txt", "text/plain"),
];

/// A piece of a message's content.
pub(super) enum Piece {
    /// Text, which can be joined with other text.
    Text(String),
    /// Any other content, as it is sent.
    Media(Json),
}

/// Converts inline data; `None` if the blob is empty.
pub(super) fn inline(kind: ServerKind, blob: &Blob) -> Option<Piece> {
    let data = blob.data.as_ref().filter(|data| !data.is_empty())?;
    let mime = media_type(blob.mime_type.as_deref().unwrap_or_default());
    if mime.starts_with("text/") {
        return Some(Piece::Text(decoded(data)));
    }
    let encoded = STANDARD.encode(&**data);
    let uri = || format!("data:{mime};base64,{encoded}");
    let major = mime.split('/').next().unwrap_or_default();
    let format = sound_format(&mime);
    let media = match major {
        "image" if kind.takes_picture(&mime) => url_piece("image_url", uri()),
        "video" if kind.takes_video() => url_piece("video_url", uri()),
        "audio" if kind.takes_audio(format) => {
            let sound = object([("data", encoded.into()), ("format", format.into())]);
            object([("type", "input_audio".into()), ("input_audio", sound)])
        }
        _ => match document_ending(&mime).filter(|_| kind.takes_documents()) {
            Some(ending) => {
                let name = blob.display_name.clone();
                let name = name.unwrap_or_else(|| format!("document.{ending}"));
                file_piece([("filename", name.into()), ("file_data", uri().into())])
            }
            None => return Some(left_out(kind, &mime)),
        },
    };
    Some(Piece::Media(media))
}

/// Converts data at a URL; `None` without a URL.
pub(super) fn at_address(kind: ServerKind, file: &FileData) -> Option<Piece> {
    let uri = file.file_uri.as_deref().filter(|uri| !uri.is_empty())?;
    // IDs of uploaded files look like this.
    if kind.is_openai() && (uri.starts_with("file-") || uri.starts_with("assistant-")) {
        return Some(Piece::Media(file_piece([("file_id", uri.into())])));
    }
    let given = file.mime_type.as_deref().map(media_type);
    let mime = given.or_else(|| guessed(uri, file.display_name.as_deref()));
    let mime = mime.unwrap_or_default();
    let is_web = uri.starts_with("https://") || uri.starts_with("http://");
    let is_data = uri.starts_with("data:");
    let major = mime.split('/').next().unwrap_or_default();
    let media = match major {
        "image"
            if kind.takes_picture(&mime) && (is_data || is_web && kind.takes_picture_urls()) =>
        {
            url_piece("image_url", uri.to_owned())
        }
        "video" if (is_web || is_data) && kind.takes_video() => {
            url_piece("video_url", uri.to_owned())
        }
        _ if is_web && kind.takes_document_urls() && document_ending(&mime).is_some() => {
            let name = uri.rsplit('/').next().unwrap_or_default();
            file_piece([("filename", name.into()), ("file_data", uri.into())])
        }
        _ => return Some(file_left_out(kind, uri, &mime)),
    };
    Some(Piece::Media(media))
}

fn url_piece(kind: &str, url: String) -> Json {
    object([("type", kind.into()), (kind, object([("url", url.into())]))])
}

fn file_piece<const N: usize>(fields: [(&str, Json); N]) -> Json {
    object([("type", "file".into()), ("file", object(fields))])
}

/// Returns the media type without its parameters.
fn media_type(mime: &str) -> String {
    let bare = mime.split(';').next().unwrap_or_default();
    match bare.trim().to_lowercase() {
        // A common alias.
        alias if alias == "image/jpg" => "image/jpeg".to_owned(),
        mime => mime,
    }
}

fn document_ending(mime: &str) -> Option<&'static str> {
    let found = DOCUMENTS.iter().find(|(known, _)| *known == mime);
    found.map(|(_, ending)| *ending)
}

/// Guesses the media type from the extension of a URL or name.
fn guessed(uri: &str, name: Option<&str>) -> Option<String> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    [Some(path), name].into_iter().flatten().find_map(|name| {
        let ending = name.rsplit_once('.')?.1.to_lowercase();
        let found = ENDINGS.iter().find(|(known, _)| *known == ending);
        found.map(|(_, mime)| (*mime).to_owned())
    })
}

/// Returns the short name of an audio format.
fn sound_format(mime: &str) -> &str {
    let name = mime.split_once('/').map_or("", |(_, name)| name);
    let name = name.strip_prefix("x-").unwrap_or(name);
    match name {
        "mpeg" => "mp3",
        "wave" | "vnd.wave" => "wav",
        name => name,
    }
}

/// Decodes UTF-8 text, or else Latin-1, which loses nothing.
fn decoded(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) => text.to_owned(),
        Err(_) => data.iter().map(|byte| char::from(*byte)).collect(),
    }
}

fn left_out(kind: ServerKind, mime: &str) -> Piece {
    let mime = known(mime);
    let server = kind.name();
    tracing::warn!(
        server,
        mime,
        "left out data of a type that the server does not support"
    );
    Piece::Text(format!(
        "[Data of type {mime} was left out: this model does not support it]"
    ))
}

/// Describes a dropped file without its URL, which may contain a signature.
fn file_left_out(kind: ServerKind, uri: &str, mime: &str) -> Piece {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let mime = known(mime);
    let server = kind.name();
    tracing::warn!(
        server,
        scheme,
        mime,
        "left out a file URI, which the server does not support"
    );
    Piece::Text(format!(
        "[A file of type {mime} was left out: this model does not support file URIs]"
    ))
}

fn known(mime: &str) -> &str {
    match mime {
        "" => "unknown",
        mime => mime,
    }
}
