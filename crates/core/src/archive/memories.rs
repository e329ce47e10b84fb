//! Memories as lines: one for each memory with its number, times, hash and vectors, and the hashes of
//! forgotten memories in pages.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Fields, VERSION, encode_line, failed, invalid, owner_of, session_of};
use crate::{
    content::Content,
    error::Result,
    json::{Json, JsonMap},
    memory::{
        MemoryError, MemoryKind, MemoryOrigin, MemoryRecord, MemoryRestore, MemoryScope,
        MemoryStore, MemoryVector, MemoryVectors, NewMemory, PreparedMemory, SourceMemory,
        Tombstone,
    },
    migrate::{BatchSize, hex, read_hashed_memories},
    service::{ExportScope, LineStream},
    wire::Bytes,
};

/// Number of scopes or hashes per page.
const PAGE: usize = 256;

/// Maximum number and bytes of memories that are restored in one transaction.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

type Outcome<T> = Result<T, MemoryError>;

/// Exports the memories of a scope.
pub(super) fn export(store: Arc<dyn MemoryStore>, scope: ExportScope) -> LineStream {
    let (app, user) = owner_of(&scope);
    let session = session_of(&scope).map(str::to_owned);
    let scopes = list_scopes(Arc::clone(&store), app, user);
    let lines = scopes.map_ok(move |scope| {
        let memories = memory_lines(Arc::clone(&store), scope.clone(), session.clone());
        // A tombstone does not name its session, so the export of a session has none.
        let tombstones = match session {
            Some(_) => stream::empty().boxed(),
            None => tombstone_lines(Arc::clone(&store), scope),
        };
        memories.chain(tombstones)
    });
    Box::pin(lines.try_flatten().map_err(|e| failed("memory")(e.into())))
}

type Lines = stream::BoxStream<'static, Outcome<String>>;

/// Lists the scopes of an app, or the one of a user.
fn list_scopes(
    store: Arc<dyn MemoryStore>,
    app: String,
    user: Option<String>,
) -> stream::BoxStream<'static, Outcome<MemoryScope>> {
    if let Some(user) = user {
        return stream::iter([Ok(MemoryScope::new(app, user))]).boxed();
    }
    let first = MemoryScope::new(&app, "");
    let pages = stream::try_unfold((store, app, first), |(store, app, after)| async move {
        let mut page = store.scopes(Some(&after), PAGE).await?;
        page.retain(|scope| scope.app == app);
        let last = page.last().cloned();
        Ok::<_, MemoryError>(
            last.map(|last| (stream::iter(page.into_iter().map(Ok)), (store, app, last))),
        )
    });
    pages.try_flatten().boxed()
}

fn memory_lines(store: Arc<dyn MemoryStore>, scope: MemoryScope, session: Option<String>) -> Lines {
    let start = (store, scope, session, 0, BatchSize::new());
    let batches = stream::try_unfold(start, |(store, scope, session, seq, mut size)| async move {
        let rows = read_hashed_memories(&*store, &scope, seq, size.step()).await?;
        let Some((last, _)) = rows.last() else {
            return Ok::<_, MemoryError>(None);
        };
        let last = last.info.seq;
        let lines = rows.iter().filter_map(|(record, hash)| {
            let is_selected = session.is_none() || record.info.session == session;
            // A memory without a hash was deleted during the export.
            let hash = (*hash).filter(|_| is_selected)?;
            Some(memory_line(&scope, record, hash))
        });
        let lines = lines.collect::<Outcome<Vec<String>>>()?;
        size.adapt(rows.len(), lines.iter().map(String::len).sum());
        let lines = stream::iter(lines.into_iter().map(Ok));
        Ok(Some((lines, (store, scope, session, last, size))))
    });
    batches.try_flatten().boxed()
}

fn memory_line(scope: &MemoryScope, record: &MemoryRecord, hash: u64) -> Outcome<String> {
    let info = &record.info;
    let mut line = JsonMap::from([
        ("retain", Json::from("memory")),
        ("version", VERSION.into()),
        ("appName", scope.app.as_str().into()),
        ("userId", scope.user.as_str().into()),
        ("id", info.id.as_str().into()),
        ("seq", info.seq.into()),
        ("kind", kind_name(info.kind).into()),
        ("origin", origin_name(&info.origin).into()),
        ("position", info.position.into()),
        ("timestamp", info.timestamp.into()),
        ("createdUs", info.created_us.into()),
        ("bodyHash", format!("{hash:016x}").into()),
    ]);
    let texts = [
        ("tool", info.origin.tool()),
        ("session", info.session.as_deref()),
        ("eventId", info.event_id.as_deref()),
        ("author", info.author.as_deref()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            line.insert(name, text);
        }
    }
    for (name, time) in [
        ("updatedUs", info.updated_us),
        ("expiresUs", info.expires_us),
    ] {
        if let Some(time) = time {
            line.insert(name, time);
        }
    }
    if !info.custom_metadata.is_empty() {
        line.insert("customMetadata", info.custom_metadata.clone());
    }
    let vectors = &record.vectors;
    for (name, vector) in [("fixed", &vectors.fixed), ("embedding", &vectors.embedding)] {
        if let Some(vector) = vector {
            line.insert(name, vector_json(vector));
        }
    }
    let content = record.content.to_json().map_err(MemoryError::backend)?;
    encode_line(line, ("content", &content)).map_err(MemoryError::backend)
}

fn vector_json(vector: &MemoryVector) -> JsonMap {
    JsonMap::from([
        ("model", Json::from(vector.model.as_str())),
        ("dims", vector.dims.into()),
        (
            "bytes",
            Bytes::from(vector.bytes.as_slice()).to_base64().into(),
        ),
    ])
}

fn tombstone_lines(store: Arc<dyn MemoryStore>, scope: MemoryScope) -> Lines {
    let lines = stream::try_unfold((store, scope, None), |(store, scope, after)| async move {
        let page = store.tombstones(&scope, after, PAGE).await?;
        let Some(last) = page.last().copied() else {
            return Ok::<_, MemoryError>(None);
        };
        let hashes = page.iter().map(|hash| Json::from(hex(&hash.0)));
        let hashes = Json::from(hashes.collect::<Vec<Json>>());
        let line = JsonMap::from([
            ("retain", Json::from("tombstones")),
            ("version", VERSION.into()),
            ("appName", scope.app.as_str().into()),
            ("userId", scope.user.as_str().into()),
            ("hashes", hashes),
        ]);
        let line = Json::from(line).to_json().map_err(MemoryError::backend)?;
        Ok(Some((line, (store, scope, Some(last)))))
    });
    lines.boxed()
}

fn kind_name(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Turn => "turn",
        MemoryKind::Direct => "direct",
    }
}

fn origin_name(origin: &MemoryOrigin) -> &'static str {
    match origin {
        MemoryOrigin::Person => "person",
        MemoryOrigin::Agent => "agent",
        MemoryOrigin::Tool { .. } => "tool",
        MemoryOrigin::Direct => "direct",
    }
}

/// Numbers of records that were stored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoredMemories {
    pub(super) memories: u64,
    pub(super) tombstones: u64,
}

/// The memories that are not stored yet. They are stored in batches, each completely or not at all.
#[derive(Debug, Default)]
pub(super) struct MemoryImport {
    pending: Option<MemoryRestore>,
    bytes: usize,
}

impl MemoryImport {
    pub(super) async fn add_memory(
        &mut self,
        store: &dyn MemoryStore,
        line: &JsonMap,
    ) -> Result<StoredMemories, String> {
        let fields = Fields(line);
        let (scope, memory) = (fields.scope()?, parse_memory(&fields)?);
        let stored = self.flush_unless(store, &scope).await?;
        let vectors = &memory.memory.new.vectors;
        let vectors = vectors.fixed.iter().chain(&vectors.embedding);
        let vector_bytes: usize = vectors.map(|vector| vector.bytes.len()).sum();
        self.bytes += memory.memory.bytes() as usize + vector_bytes;
        self.pending_of(scope).memories.push(memory);
        Ok(stored)
    }

    pub(super) async fn add_tombstones(
        &mut self,
        store: &dyn MemoryStore,
        line: &JsonMap,
    ) -> Result<StoredMemories, String> {
        let fields = Fields(line);
        let scope = fields.scope()?;
        let hashes = fields.required("hashes", |value| {
            let hashes = value.as_array()?.iter();
            hashes
                .map(|hash| parse_hash(hash.as_str()?))
                .collect::<Option<Vec<Tombstone>>>()
        })?;
        let stored = self.flush_unless(store, &scope).await?;
        self.pending_of(scope).tombstones.extend(hashes);
        Ok(stored)
    }

    fn pending_of(&mut self, scope: MemoryScope) -> &mut MemoryRestore {
        self.pending.get_or_insert_with(|| MemoryRestore {
            scope,
            memories: Vec::new(),
            tombstones: Vec::new(),
        })
    }

    /// Stores the pending memories, unless they are few and of this scope.
    async fn flush_unless(
        &mut self,
        store: &dyn MemoryStore,
        scope: &MemoryScope,
    ) -> Result<StoredMemories, String> {
        let has_room = |pending: &MemoryRestore| {
            let records = pending.memories.len() + pending.tombstones.len() / PAGE;
            pending.scope == *scope && records < BATCH && self.bytes < BATCH_BYTES
        };
        match &self.pending {
            Some(pending) if !has_room(pending) => self.flush(store).await,
            _ => Ok(StoredMemories::default()),
        }
    }

    /// Stores the pending memories.
    pub(super) async fn flush(
        &mut self,
        store: &dyn MemoryStore,
    ) -> Result<StoredMemories, String> {
        self.bytes = 0;
        let Some(pending) = self.pending.take() else {
            return Ok(StoredMemories::default());
        };
        let stored = StoredMemories {
            memories: pending.memories.len() as u64,
            tombstones: pending.tombstones.len() as u64,
        };
        let restored = store.restore(Arc::new(pending)).await;
        restored.map_err(|error| match error {
            MemoryError::Backend(cause) => format!("the memory service failed: {cause}"),
            error => error.to_string(),
        })?;
        Ok(stored)
    }
}

fn parse_memory(fields: &Fields<'_>) -> Result<SourceMemory, String> {
    let content = fields.required("content", |value| value.to_json().ok())?;
    let content = Content::from_json(&content).map_err(|error| error.to_string())?;
    let tool = fields.optional_text("tool")?;
    let origin = fields.text("origin")?;
    let origin = match (origin.as_str(), tool) {
        ("person", _) => MemoryOrigin::Person,
        ("agent", _) => MemoryOrigin::Agent,
        ("direct", _) => MemoryOrigin::Direct,
        ("tool", Some(name)) => MemoryOrigin::Tool { name },
        _ => return Err(invalid("origin")),
    };
    let kind = match fields.text("kind")?.as_str() {
        "turn" => MemoryKind::Turn,
        "direct" => MemoryKind::Direct,
        _ => return Err(invalid("kind")),
    };
    let memory = PreparedMemory::new(NewMemory {
        id: fields.text("id")?,
        kind,
        session: fields.optional_text("session")?,
        position: fields.required("position", Json::as_u64)?,
        event_id: fields.optional_text("eventId")?,
        author: fields.optional_text("author")?,
        origin,
        timestamp: fields.required("timestamp", Json::as_f64)?,
        expires_us: fields.optional("expiresUs", Json::as_i64)?,
        content,
        custom_metadata: fields.object("customMetadata")?,
        vectors: MemoryVectors {
            fixed: fields.optional("fixed", parse_vector)?,
            embedding: fields.optional("embedding", parse_vector)?,
        },
    });
    let mut memory = memory.map_err(|error| error.to_string())?;
    let hash = fields.text("bodyHash")?;
    memory.body_hash = u64::from_str_radix(&hash, 16).map_err(|_| invalid("bodyHash"))?;
    Ok(SourceMemory {
        seq: fields.required("seq", Json::as_u64)?,
        memory,
        created_us: fields.required("createdUs", Json::as_i64)?,
        updated_us: fields.optional("updatedUs", Json::as_i64)?,
    })
}

fn parse_vector(value: &Json) -> Option<MemoryVector> {
    let map = value.as_object()?;
    Some(MemoryVector {
        model: map["model"].as_str()?.to_owned(),
        dims: usize::try_from(map["dims"].as_u64()?).ok()?,
        bytes: Bytes::from_base64(map["bytes"].as_str()?)?.to_vec(),
    })
}

/// Parses a hash in hexadecimal.
fn parse_hash(text: &str) -> Option<Tombstone> {
    let number = u128::from_str_radix(text, 16).ok();
    let number = number.filter(|_| text.len() == 32)?;
    Some(Tombstone(number.to_be_bytes()))
}
