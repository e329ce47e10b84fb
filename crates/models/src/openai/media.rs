//! Converts images, audio, video and documents, as far as a server supports them.
//!
//! A line of text replaces unsupported media, with a warning: the history contains the part
//! forever, so an error would make the session unusable.

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

/// MIME types by file extension, for files without a stated MIME type.
const MIME_BY_EXTENSION: [(&str, &str); 11] = [
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
pub(super) fn from_blob(kind: ServerKind, blob: &Blob) -> Option<Piece> {
    let data = blob.data.as_ref().filter(|data| !data.is_empty())?;
    let mime = media_type(blob.mime_type.as_deref().unwrap_or_default());
    if mime.starts_with("text/") {
        return Some(Piece::Text(decode_text(data)));
    }
    let encoded = STANDARD.encode(&**data);
    let uri = || format!("data:{mime};base64,{encoded}");
    let major = mime.split('/').next().unwrap_or_default();
    let format = audio_format(&mime);
    let media = match major {
        "image" if kind.supports_image(&mime) => url_piece("image_url", uri()),
        "video" if kind.supports_video() => url_piece("video_url", uri()),
        "audio" if kind.supports_audio(format) => {
            let audio = object([("data", encoded.into()), ("format", format.into())]);
            object([("type", "input_audio".into()), ("input_audio", audio)])
        }
        _ => match document_extension(&mime).filter(|_| kind.supports_documents()) {
            Some(extension) => {
                let name = blob.display_name.clone();
                let name = name.unwrap_or_else(|| format!("document.{extension}"));
                file_piece([("filename", name.into()), ("file_data", uri().into())])
            }
            None => return Some(unsupported_media(kind, &mime)),
        },
    };
    Some(Piece::Media(media))
}

/// Converts data at a URL; `None` without a URL.
pub(super) fn from_uri(kind: ServerKind, file: &FileData) -> Option<Piece> {
    let uri = file.file_uri.as_deref().filter(|uri| !uri.is_empty())?;
    // OpenAI's IDs of uploaded files have these prefixes.
    if kind.is_openai() && (uri.starts_with("file-") || uri.starts_with("assistant-")) {
        return Some(Piece::Media(file_piece([("file_id", uri.into())])));
    }
    let given = file.mime_type.as_deref().map(media_type);
    let mime = given.or_else(|| guess_media_type(uri, file.display_name.as_deref()));
    let mime = mime.unwrap_or_default();
    let is_web = uri.starts_with("https://") || uri.starts_with("http://");
    let is_data = uri.starts_with("data:");
    let major = mime.split('/').next().unwrap_or_default();
    let media = match major {
        "image"
            if kind.supports_image(&mime) && (is_data || is_web && kind.supports_image_urls()) =>
        {
            url_piece("image_url", uri.to_owned())
        }
        "video" if (is_web || is_data) && kind.supports_video() => {
            url_piece("video_url", uri.to_owned())
        }
        _ if is_web && kind.supports_document_urls() && document_extension(&mime).is_some() => {
            let name = uri.rsplit('/').next().unwrap_or_default();
            file_piece([("filename", name.into()), ("file_data", uri.into())])
        }
        _ => return Some(unsupported_file(kind, uri, &mime)),
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
        // A common but unregistered type.
        alias if alias == "image/jpg" => "image/jpeg".to_owned(),
        mime => mime,
    }
}

fn document_extension(mime: &str) -> Option<&'static str> {
    let found = DOCUMENTS.iter().find(|(known, _)| *known == mime);
    found.map(|(_, extension)| *extension)
}

/// Guesses the media type from the extension of a URL or name.
fn guess_media_type(uri: &str, name: Option<&str>) -> Option<String> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    [Some(path), name].into_iter().flatten().find_map(|name| {
        let extension = name.rsplit_once('.')?.1.to_lowercase();
        let found = MIME_BY_EXTENSION
            .iter()
            .find(|(known, _)| *known == extension);
        found.map(|(_, mime)| (*mime).to_owned())
    })
}

/// Returns the short name of an audio format.
fn audio_format(mime: &str) -> &str {
    let name = mime.split_once('/').map_or("", |(_, name)| name);
    let name = name.strip_prefix("x-").unwrap_or(name);
    match name {
        "mpeg" => "mp3",
        "wave" | "vnd.wave" => "wav",
        name => name,
    }
}

/// Decodes UTF-8 text. Other bytes are decoded as Latin-1, which never fails.
fn decode_text(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) => text.to_owned(),
        Err(_) => data.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Returns the text that replaces inline data.
fn unsupported_media(kind: ServerKind, mime: &str) -> Piece {
    let mime = mime_or_unknown(mime);
    let server = kind.name();
    tracing::warn!(
        server,
        mime,
        "dropped data of a type that the server does not support"
    );
    Piece::Text(format!(
        "[Data of type {mime} was omitted: this model does not support it]"
    ))
}

/// Returns the text that replaces a file. It omits the URL, which may contain a secret signature.
fn unsupported_file(kind: ServerKind, uri: &str, mime: &str) -> Piece {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let mime = mime_or_unknown(mime);
    let server = kind.name();
    tracing::warn!(
        server,
        scheme,
        mime,
        "dropped a file URI, which the server does not support"
    );
    Piece::Text(format!(
        "[A file of type {mime} was omitted: this model does not support file URIs]"
    ))
}

fn mime_or_unknown(mime: &str) -> &str {
    match mime {
        "" => "unknown",
        mime => mime,
    }
}
