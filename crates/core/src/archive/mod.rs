//! `Archive`: exports and imports sessions, memories and artifacts as JSON Lines, without loss.
//!
//! The lines of sessions are those of [`SessionLog::export`]; `memories` and `artifacts` add their own
//! kinds of lines. A stream holds one page of records at a time, whatever the size of the data.

mod artifacts;
mod memories;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, stream};

use crate::{
    artifacts::{ArtifactService, ArtifactStore},
    error::{Result, SessionError},
    json::{Json, JsonMap},
    memory::{MemoryScope, MemoryService, MemoryStore},
    service::{ExportScope, ImportReceipt, LineStream, SessionLog},
};

use memories::MemoryImport;

/// The version of the format, in every line.
const VERSION: i64 = 1;

/// The kinds of data that an export or import includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveKinds {
    /// Sessions and shared state.
    pub sessions: bool,
    /// Memories and the hashes of forgotten ones.
    pub memories: bool,
    /// Artifacts.
    pub artifacts: bool,
}

impl ArchiveKinds {
    /// The names of the kinds.
    pub const NAMES: [&str; 3] = ["sessions", "memories", "artifacts"];

    /// All kinds.
    pub const ALL: ArchiveKinds = ArchiveKinds {
        sessions: true,
        memories: true,
        artifacts: true,
    };

    /// Selects the kinds with these names. Fails with the first unknown name.
    ///
    /// ```
    /// use retain_core::ArchiveKinds;
    /// let kinds = ArchiveKinds::from_names(["sessions", "artifacts"]).unwrap();
    /// assert!(kinds.sessions && kinds.artifacts && !kinds.memories);
    /// assert_eq!(ArchiveKinds::from_names(["keys"]), Err("keys"));
    /// ```
    pub fn from_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<ArchiveKinds, &'a str> {
        let mut kinds = ArchiveKinds {
            sessions: false,
            memories: false,
            artifacts: false,
        };
        for name in names {
            match name {
                "sessions" => kinds.sessions = true,
                "memories" => kinds.memories = true,
                "artifacts" => kinds.artifacts = true,
                other => return Err(other),
            }
        }
        Ok(kinds)
    }
}

/// Exports and imports the data of several services as one stream of lines.
#[derive(Debug, Clone)]
pub struct Archive {
    sessions: Arc<dyn SessionLog>,
    memory: Option<Arc<dyn MemoryStore>>,
    artifacts: Option<Arc<dyn ArtifactStore>>,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Session,
    Memory,
    Tombstones,
    Artifact,
}

impl Archive {
    /// Creates an archive of these services. Memories and artifacts need services over a store.
    pub fn new(
        sessions: Arc<dyn SessionLog>,
        memory: &dyn MemoryService,
        artifacts: &dyn ArtifactService,
    ) -> Archive {
        Archive {
            sessions,
            memory: memory.memory_store(),
            artifacts: artifacts.artifact_store(),
        }
    }

    /// Creates an archive of sessions and of these stores.
    pub fn over(
        sessions: Arc<dyn SessionLog>,
        memory: Option<Arc<dyn MemoryStore>>,
        artifacts: Option<Arc<dyn ArtifactStore>>,
    ) -> Archive {
        Archive {
            sessions,
            memory,
            artifacts,
        }
    }

    /// Exports the data of `scope`: of a session, also the memories that come from it and its own
    /// artifacts. Fails if a service cannot export a selected kind.
    pub fn export(&self, scope: ExportScope, kinds: ArchiveKinds) -> LineStream {
        let (memory, artifacts) = (self.memory.as_ref(), self.artifacts.as_ref());
        let memory = match (kinds.memories, memory) {
            (true, None) => return unsupported("memory", "memories", "sessions,artifacts"),
            (selected, store) => store.filter(|_| selected),
        };
        let artifacts = match (kinds.artifacts, artifacts) {
            (true, None) => return unsupported("artifact", "artifacts", "sessions,memories"),
            (selected, store) => store.filter(|_| selected),
        };
        let sessions = kinds.sessions.then(|| self.sessions.export(scope.clone()));
        let memories = memory.map(|store| memories::export(Arc::clone(store), scope.clone()));
        let artifacts = artifacts.map(|store| artifacts::export(Arc::clone(store), scope));
        let parts = [sessions, memories, artifacts].into_iter().flatten();
        Box::pin(stream::iter(parts.collect::<Vec<LineStream>>()).flatten())
    }

    /// Imports the selected kinds of an export and skips the others. Each session, memory and artifact
    /// version is imported completely or not at all.
    pub async fn import(&self, lines: LineStream, kinds: ArchiveKinds) -> Result<ImportReceipt> {
        let imported = Arc::new(Mutex::new(ImportReceipt::default()));
        let splitter = LineSplitter {
            archive: self.clone(),
            kinds,
            lines,
            line: 0,
            memories: MemoryImport::default(),
            receipt: Arc::clone(&imported),
        };
        // The sessions take their lines from this stream, which imports the other lines on the way.
        let for_sessions = stream::try_unfold(splitter, LineSplitter::next);
        let mut receipt = self.sessions.import(Box::pin(for_sessions)).await?;
        let others = *imported.lock().unwrap_or_else(PoisonError::into_inner);
        receipt.memories = others.memories;
        receipt.tombstones = others.tombstones;
        receipt.artifacts = others.artifacts;
        Ok(receipt)
    }
}

fn unsupported(service: &str, kind: &str, others: &str) -> LineStream {
    let reason = format!("the {service} service cannot export its {kind}; select only {others}");
    let error = SessionError::Store {
        store: "the archive",
        operation: "export",
        source: reason.into(),
    };
    Box::pin(stream::iter([Err(error)]))
}

/// Separates the lines of sessions from the others.
struct LineSplitter {
    archive: Archive,
    kinds: ArchiveKinds,
    lines: LineStream,
    /// The number of the current line.
    line: u64,
    memories: MemoryImport,
    receipt: Arc<Mutex<ImportReceipt>>,
}

impl LineSplitter {
    /// Returns the next line for the sessions. A line of another kind is imported here and replaced by
    /// a blank one, so that errors name the right line.
    async fn next(mut self) -> Result<Option<(String, LineSplitter)>> {
        let Some(line) = self.lines.next().await.transpose()? else {
            self.flush_memories().await?;
            return Ok(None);
        };
        self.line += 1;
        let Some((kind, map)) = self.parse_other(&line)? else {
            let line = if self.kinds.sessions {
                line
            } else {
                String::new()
            };
            return Ok(Some((line, self)));
        };
        match kind {
            LineKind::Memory | LineKind::Tombstones if self.kinds.memories => {
                let Some(store) = self.archive.memory.clone() else {
                    return Err(self.error("the memory service cannot import memories"));
                };
                let added = match kind {
                    LineKind::Memory => self.memories.add_memory(&*store, &map).await,
                    _ => self.memories.add_tombstones(&*store, &map).await,
                };
                let added = added.map_err(|reason| self.error(reason))?;
                self.update_receipt(|receipt| {
                    receipt.memories += added.memories;
                    receipt.tombstones += added.tombstones;
                });
            }
            LineKind::Artifact if self.kinds.artifacts => {
                let Some(store) = self.archive.artifacts.clone() else {
                    return Err(self.error("the artifact service cannot import artifacts"));
                };
                let imported = artifacts::import(&*store, &map).await;
                imported.map_err(|reason| self.error(reason))?;
                self.update_receipt(|receipt| receipt.artifacts += 1);
            }
            _ => {}
        }
        Ok(Some((String::new(), self)))
    }

    async fn flush_memories(&mut self) -> Result<()> {
        if let Some(store) = self.archive.memory.clone() {
            let added = self.memories.flush(&*store).await;
            let added = added.map_err(|reason| self.error(reason))?;
            self.update_receipt(|receipt| {
                receipt.memories += added.memories;
                receipt.tombstones += added.tombstones;
            });
        }
        Ok(())
    }

    /// Parses a line that is not one of a session. Most lines are events, so the line is parsed only if
    /// it may be of another kind.
    fn parse_other(&self, line: &str) -> Result<Option<(LineKind, JsonMap)>> {
        let kinds = [
            ("\"memory\"", LineKind::Memory),
            ("\"tombstones\"", LineKind::Tombstones),
            ("\"artifact\"", LineKind::Artifact),
        ];
        if !line.contains("\"retain\"") || !kinds.iter().any(|(name, _)| line.contains(name)) {
            return Ok(None);
        }
        let value = Json::parse(line).map_err(|error| self.error(error.to_string()))?;
        let Some(map) = value.as_object() else {
            return Ok(None);
        };
        let kind = match map["retain"].as_str() {
            Some("memory") => LineKind::Memory,
            Some("tombstones") => LineKind::Tombstones,
            Some("artifact") => LineKind::Artifact,
            _ => LineKind::Session,
        };
        if kind == LineKind::Session || map.contains_key("event") {
            return Ok(None);
        }
        if map["version"].as_i64() != Some(VERSION) {
            let version = &map["version"];
            let reason = format!("unsupported format version {version}; expected {VERSION}");
            return Err(self.error(reason));
        }
        Ok(Some((kind, map.clone())))
    }

    fn update_receipt(&self, update: impl FnOnce(&mut ImportReceipt)) {
        update(&mut self.receipt.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn error(&self, reason: impl Into<String>) -> SessionError {
        SessionError::Import {
            line: self.line,
            reason: reason.into(),
        }
    }
}

/// Returns the app and user of a scope; the user is empty for an app.
fn owner_of(scope: &ExportScope) -> (String, Option<String>) {
    match scope {
        ExportScope::Session(key) => (key.app.clone(), Some(key.user.clone())),
        ExportScope::User { app, user } => (app.clone(), Some(user.clone())),
        ExportScope::App { app } => (app.clone(), None),
    }
}

/// Returns the session of a scope, if it is limited to one.
fn session_of(scope: &ExportScope) -> Option<&str> {
    match scope {
        ExportScope::Session(key) => Some(&key.id),
        _ => None,
    }
}

/// Converts the failure of another store into the error of a stream.
fn failed(
    store: &'static str,
) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> SessionError {
    move |source| SessionError::Store {
        store,
        operation: "export",
        source,
    }
}

/// Encodes a line, and adds a field whose value is JSON text already.
fn encode_line(fields: JsonMap, (name, text): (&str, &str)) -> Result<String, String> {
    let mut line = Json::from(fields).to_json().map_err(|e| e.to_string())?;
    line.pop();
    line.push_str(&format!(",\"{name}\":{text}}}"));
    Ok(line)
}

/// Reads the fields of a line, and describes one that is missing or invalid.
struct Fields<'a>(&'a JsonMap);

impl<'a> Fields<'a> {
    fn text(&self, name: &str) -> Result<String, String> {
        let text = self.0[name].as_str().map(str::to_owned);
        text.ok_or_else(|| invalid(name))
    }

    /// Reads a field that may be missing.
    fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Json) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.0.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| invalid(name)),
        }
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        self.optional(name, |value| value.as_str().map(str::to_owned))
    }

    fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Json) -> Option<T>,
    ) -> Result<T, String> {
        self.optional(name, read)?.ok_or_else(|| invalid(name))
    }

    /// Reads an object that is empty if it is missing.
    fn object(&self, name: &str) -> Result<JsonMap, String> {
        let object = self.optional(name, |value| value.as_object().cloned());
        Ok(object?.unwrap_or_default())
    }

    fn scope(&self) -> Result<MemoryScope, String> {
        Ok(MemoryScope::new(
            self.text("appName")?,
            self.text("userId")?,
        ))
    }
}

fn invalid(name: &str) -> String {
    format!("the field {name:?} is missing or invalid")
}
