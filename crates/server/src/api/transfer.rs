//! Export and import as NDJSON. Both are streamed, so that the length of the logs does not matter.

use axum::{
    body::{Body, BodyDataStream},
    extract::{Request, State},
    http::{Method, header},
    response::{IntoResponse as _, Response},
};
use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use retain_core::{Archive, ArchiveKinds, ExportScope, LineStream, SessionError};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Api,
    body::{media_type, ok, unsupported_media_type},
    caller::RequestCaller,
    operation::{self, Operation},
    path::{AppPath, SessionPath, UserPath},
    problem::Problem,
    query::{Kind, Param, Params},
};
use crate::{failures::log_failure, guard::Scope, routes::Access, services::Shared};

const NDJSON: &str = "application/x-ndjson";

/// Maximum length of an imported line. Events, states and memories are shorter. The line of an artifact
/// can be longer: import it with `retain import`.
const LINE_BYTES: usize = 80 * 1024 * 1024;

/// Size from which a chunk is sent. Lines that are ready together are sent together.
const CHUNK_BYTES: usize = 32 * 1024;

const ONLY: Param = Param::new(
    "only",
    Kind::Text,
    "Kinds of data, separated by commas: sessions, memories, artifacts (default: all that the services support).",
);

pub(super) fn routes(api: Api) -> Api {
    const SESSION: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/export";
    const USER: &str = "/api/v1/apps/{app}/users/{user}/export";
    const APP: &str = "/api/v1/apps/{app}/export";
    const IMPORT: &str = "/api/v1/import";
    let access = Access::Path(Scope::SessionsRead);
    let lines = operation::Body::stream(NDJSON);
    let session = Operation::new(
        Method::GET,
        SESSION,
        "exportSession",
        "Export a session, the memories that come from it and its artifacts, without loss",
    );
    let user = Operation::new(
        Method::GET,
        USER,
        "exportUser",
        "Export all sessions, memories and artifacts of a user",
    );
    let app = Operation::new(
        Method::GET,
        APP,
        "exportApp",
        "Export all sessions, memories and artifacts of an app",
    );
    let import_it = Operation::new(
        Method::POST,
        IMPORT,
        "importSessions",
        "Import an export; each session, memory and artifact version is imported completely or not at all",
    );
    let [session, user, app, import_it] =
        [session, user, app, import_it].map(|operation| operation.query(&[ONLY]));
    let import_it = import_it
        .takes_body(lines)
        .answers::<ImportReceiptBody>(200)
        .fails(&[409]);
    api.add(
        session.answers_body(200, lines).fails(&[404]),
        access,
        export_session,
    )
    .add(user.answers_body(200, lines), access, export_user)
    .add(app.answers_body(200, lines), access, export_app)
    .add(import_it, Access::Path(Scope::Admin), import)
}

/// What was imported.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ImportReceipt")]
struct ImportReceiptBody {
    /// Number of sessions.
    sessions: u64,
    /// Number of events.
    events: u64,
    /// Number of memories.
    memories: u64,
    /// Number of hashes of forgotten memories.
    tombstones: u64,
    /// Number of artifact versions.
    artifacts: u64,
}

async fn export_session(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    caller: RequestCaller,
    params: Params,
) -> Result<Response, Problem> {
    export(&server, &caller, ExportScope::Session(key), kinds(params)?).await
}

async fn export_user(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    caller: RequestCaller,
    params: Params,
) -> Result<Response, Problem> {
    export(
        &server,
        &caller,
        ExportScope::User { app, user },
        kinds(params)?,
    )
    .await
}

async fn export_app(
    State(server): State<Shared>,
    AppPath(app): AppPath,
    caller: RequestCaller,
    params: Params,
) -> Result<Response, Problem> {
    export(&server, &caller, ExportScope::App { app }, kinds(params)?).await
}

fn archive(server: &Shared) -> Archive {
    let services = &server.services;
    Archive::new(
        services.sessions.clone(),
        &*services.memory,
        &*services.artifacts,
    )
}

/// Returns the kinds that the services can export.
fn supported_kinds(server: &Shared) -> ArchiveKinds {
    let services = &server.services;
    let mut kinds = ArchiveKinds::ALL;
    kinds.memories = services.memory.memory_store().is_some();
    kinds.artifacts = services.artifacts.artifact_store().is_some();
    kinds
}

/// Returns the kinds that the request selects, if it selects any.
fn kinds(params: Params) -> Result<Option<ArchiveKinds>, Problem> {
    let params = params.only(&[ONLY])?;
    let Some(names) = params.text(&ONLY) else {
        return Ok(None);
    };
    let kinds = ArchiveKinds::from_names(names.split(',')).map_err(|name| {
        let expected = ArchiveKinds::NAMES.join(", ");
        let reason = format!("has the unknown kind {name:?}; expected {expected}");
        Problem::invalid_parameter(ONLY.name, reason)
    })?;
    Ok(Some(kinds))
}

/// Fails if a service cannot export a selected kind.
fn check_supported(kinds: ArchiveKinds, supported: ArchiveKinds) -> Result<(), Problem> {
    let unsupported = |kind: &str| {
        let detail = format!("the services of this server cannot export {kind}; see `only`");
        Err(Problem::unsupported(detail))
    };
    match kinds {
        _ if kinds.memories && !supported.memories => unsupported("memories"),
        _ if kinds.artifacts && !supported.artifacts => unsupported("artifacts"),
        _ => Ok(()),
    }
}

/// Exports data. Waits for the first line, so that an immediate failure sets the status. A
/// later failure aborts the response: half an export must not look complete.
async fn export(
    server: &Shared,
    caller: &RequestCaller,
    scope: ExportScope,
    kinds: Option<ArchiveKinds>,
) -> Result<Response, Problem> {
    let supported = supported_kinds(server);
    let kinds = kinds.unwrap_or(supported);
    check_supported(kinds, supported)?;
    if kinds.memories {
        caller.0.check_scope(Scope::MemoryRead)?;
    }
    let mut lines = archive(server).export(scope, kinds);
    let first = lines.next().await.transpose()?;
    let lines = stream::iter(first.map(Ok)).chain(lines);
    let pieces = stream::try_unfold(Box::pin(lines), |mut lines| async move {
        let piece = next_piece(&mut lines).await;
        let piece = piece.inspect_err(|error| log_failure(error, "export aborted"))?;
        Ok::<_, SessionError>(piece.map(|piece| (piece, lines)))
    });
    let headers = [(header::CONTENT_TYPE, NDJSON)];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Waits for a line and adds those that are ready, up to the size of a chunk.
async fn next_piece(
    lines: &mut (impl Stream<Item = Result<String, SessionError>> + Unpin),
) -> Result<Option<String>, SessionError> {
    let Some(first) = lines.next().await else {
        return Ok(None);
    };
    let mut piece = first?;
    piece.push('\n');
    while piece.len() < CHUNK_BYTES
        && let Some(Some(line)) = lines.next().now_or_never()
    {
        piece.push_str(&line?);
        piece.push('\n');
    }
    Ok(Some(piece))
}

async fn import(
    State(server): State<Shared>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    let kinds = kinds(params)?.unwrap_or(ArchiveKinds::ALL);
    let media_type = media_type(request.headers());
    if ![NDJSON, "application/jsonl", "application/ndjson"].contains(&media_type.as_str()) {
        return Err(unsupported_media_type(&media_type, NDJSON));
    }
    let lines = split_lines(request.into_body().into_data_stream());
    let receipt = archive(&server).import(lines, kinds).await?;
    ok(&ImportReceiptBody {
        sessions: receipt.sessions,
        events: receipt.events,
        memories: receipt.memories,
        tombstones: receipt.tombstones,
        artifacts: receipt.artifacts,
    })
}

/// Splits a body into lines.
struct Lines {
    body: BodyDataStream,
    /// Received bytes. The next line begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    /// The bytes from `start` to this index contain no line end.
    searched: usize,
    line: u64,
    is_ended: bool,
}

fn split_lines(body: BodyDataStream) -> LineStream {
    let lines = Lines {
        body,
        buffer: Vec::new(),
        start: 0,
        searched: 0,
        line: 0,
        is_ended: false,
    };
    Box::pin(stream::unfold(lines, |mut lines| async move {
        let next = lines.next().await.transpose()?;
        lines.is_ended |= next.is_err();
        Some((next, lines))
    }))
}

impl Lines {
    async fn next(&mut self) -> Result<Option<String>, SessionError> {
        loop {
            let found = self.buffer[self.searched..]
                .iter()
                .position(|it| *it == b'\n');
            if let Some(found) = found {
                let end = self.searched + found;
                return self.take(end, end + 1).map(Some);
            }
            self.searched = self.buffer.len();
            if self.is_ended {
                let end = self.buffer.len();
                return match self.start < end {
                    true => self.take(end, end).map(Some),
                    false => Ok(None),
                };
            }
            self.read_chunk().await?;
        }
    }

    /// Returns the line up to `end`; the next one starts at `next`.
    fn take(&mut self, end: usize, next: usize) -> Result<String, SessionError> {
        let bytes = self.buffer[self.start..end].to_vec();
        (self.start, self.searched) = (next, next);
        self.line += 1;
        String::from_utf8(bytes).map_err(|_| self.error("not valid UTF-8"))
    }

    async fn read_chunk(&mut self) -> Result<(), SessionError> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        match self.body.next().await {
            Some(Ok(bytes)) if self.buffer.len() + bytes.len() > LINE_BYTES => {
                self.line += 1;
                Err(self.error(&format!("the line is longer than {LINE_BYTES} bytes")))
            }
            Some(Ok(bytes)) => {
                self.buffer.extend_from_slice(&bytes);
                Ok(())
            }
            Some(Err(error)) => {
                self.line += 1;
                Err(self.error(&format!("cannot read the request body: {error}")))
            }
            None => {
                self.is_ended = true;
                Ok(())
            }
        }
    }

    fn error(&self, reason: &str) -> SessionError {
        SessionError::Import {
            line: self.line,
            reason: reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(pieces: &[&'static [u8]]) -> Vec<Result<String, String>> {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|it| Ok::<_, std::io::Error>(*it))
            .collect();
        let body = Body::from_stream(stream::iter(pieces)).into_data_stream();
        let lines = split_lines(body).map(|line| line.map_err(|error| error.to_string()));
        lines.collect().await
    }

    #[tokio::test]
    async fn import_lines_do_not_depend_on_chunk_boundaries() {
        let text = "{\"a\":1}\n\nзwei\nlast".as_bytes();
        let lines_of_one_chunk = lines(&[text]).await;
        let expected = ["{\"a\":1}", "", "зwei", "last"].map(|it| Ok(it.to_owned()));
        assert_eq!(lines_of_one_chunk, expected);
        for at in 0..text.len() {
            assert_eq!(
                lines(&[&text[..at], &text[at..]]).await,
                expected,
                "cut at {at}"
            );
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes).await, expected);
    }

    #[tokio::test]
    async fn invalid_utf8_in_an_import_is_reported_with_its_line() {
        let found = lines(&[b"a\n\xff\nb\n"]).await;
        assert_eq!(found[0], Ok("a".to_owned()));
        assert_eq!(
            found[1],
            Err("import failed at line 2: not valid UTF-8".to_owned())
        );
    }
}
