//! Export and import of logs as JSON Lines, without loss.
//!
//! A session is a header line and one line for each event. The header gives the number of events,
//! so that an import detects a truncated file. Shared state has its own line before the sessions.

use std::{collections::HashSet, sync::Arc};

use futures_core::Stream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{StoreSessionService, fold::Fold, page::Pager, usage::RoomForWrite};
use crate::{
    error::{Result, SessionError},
    event::Event,
    json::{Json, JsonMap},
    ports::{duration_us, seconds},
    quota::Usage,
    service::{ExportScope, ImportReceipt, LineStream},
    session::{Origin, SessionKey, SessionMeta},
    store::{Head, ListFields, ListQuery, NewEvent, ScopedState, SessionStore},
    transfer_store::{DraftId, LogHeader, StateOwner},
};

/// Number of events imported at a time.
const STEP: usize = 256;

/// The version of the format, in every header.
const VERSION: i64 = 1;

/// Exports everything in `scope`.
pub(super) fn export<S: SessionStore>(
    service: StoreSessionService<S>,
    scope: ExportScope,
) -> LineStream {
    let lines = stream::once(async move {
        let keys = match &scope {
            ExportScope::Session(key) => vec![load_header(&service, key).await?.head.key],
            ExportScope::User { app, user } => list_keys(&service, app, Some(user)).await?,
            ExportScope::App { app } => list_keys(&service, app, None).await?,
        };
        // Also export the shared state of users who have no sessions.
        let lone_users = match &scope {
            ExportScope::Session(_) => Vec::new(),
            ExportScope::User { app, user } => vec![SessionKey::new(app, user, "")],
            ExportScope::App { app } => list_state_owners(&service, app).await?,
        };
        let has_sessions: HashSet<&str> = keys.iter().map(|key| key.user.as_str()).collect();
        let lone_users = lone_users.into_iter();
        let lone_users: Vec<SessionKey> = lone_users
            .filter(|key| !has_sessions.contains(key.user.as_str()))
            .collect();
        let must_exist = matches!(scope, ExportScope::Session(_));
        let mut users = HashSet::new();
        let for_lone_users = service.clone();
        let parts = keys.into_iter().map(move |key| {
            let shared = users.insert(key.user.clone()).then(|| key.clone());
            let (for_shared, for_session) = (service.clone(), service.clone());
            let shared = stream::iter(shared);
            let shared = shared.then(move |key| shared_line(for_shared.clone(), key));
            shared.chain(session_lines(for_session, key, must_exist))
        });
        let lone_users = stream::iter(lone_users).filter_map(move |key| {
            let service = for_lone_users.clone();
            async move { lone_user_line(service, key).await.transpose() }
        });
        Ok::<_, SessionError>(lone_users.chain(stream::iter(parts).flatten()))
    });
    Box::pin(lines.try_flatten())
}

/// Returns the addresses of the sessions of a user or an app, sorted, from one snapshot.
async fn list_keys<S: SessionStore>(
    service: &StoreSessionService<S>,
    app: &str,
    user: Option<&str>,
) -> Result<Vec<SessionKey>> {
    let mut query = ListQuery::new(app, ListFields::Metadata);
    query.user = user.map(str::to_owned);
    let found = service.store.list(&query).await?;
    let mut keys: Vec<_> = found.sessions.iter().map(SessionMeta::key).collect();
    keys.sort();
    Ok(keys)
}

/// Lists the users of an app who have state, as addresses without a session id.
async fn list_state_owners<S: SessionStore>(
    service: &StoreSessionService<S>,
    app: &str,
) -> Result<Vec<SessionKey>> {
    let (store, mut users) = (service.store.transfer()?, Vec::new());
    let mut after = StateOwner::app(app);
    loop {
        let mut page = store.state_owners(Some(&after), STEP).await?;
        page.retain(|owner| owner.app == app);
        let Some(last) = page.last().cloned() else {
            return Ok(users);
        };
        after = last;
        let page = page.into_iter().filter_map(|owner| owner.user);
        users.extend(page.map(|user| SessionKey::new(app, user, "")));
    }
}

/// Returns the shared state of a user without sessions, if there is any.
async fn lone_user_line<S: SessionStore>(
    service: StoreSessionService<S>,
    key: SessionKey,
) -> Result<Option<String>> {
    let keys = service
        .store
        .shared_state(&key.app, Some(&key.user))
        .await?;
    match keys.is_empty() {
        true => Ok(None),
        false => shared_line(service, key).await.map(Some),
    }
}

async fn load_header<S: SessionStore>(
    service: &StoreSessionService<S>,
    key: &SessionKey,
) -> Result<LogHeader> {
    service.settings.limits.check_key(key)?;
    let header = service.store.transfer()?.log_header(key).await?;
    header.ok_or_else(|| SessionError::not_found(key))
}

async fn shared_line<S: SessionStore>(
    service: StoreSessionService<S>,
    key: SessionKey,
) -> Result<String> {
    let app = service.store.shared_state(&key.app, None).await?;
    let user = service
        .store
        .shared_state(&key.app, Some(&key.user))
        .await?;
    let line = JsonMap::from([
        ("retain", Json::from("shared")),
        ("version", VERSION.into()),
        ("appName", key.app.into()),
        ("userId", key.user.into()),
        ("appState", app.into()),
        ("userState", user.into()),
    ]);
    encode_line(line)
}

/// Exports one session. Skips a session that was deleted meanwhile, unless `must_exist`.
fn session_lines<S: SessionStore>(
    service: StoreSessionService<S>,
    key: SessionKey,
    must_exist: bool,
) -> LineStream {
    let lines = stream::once(async move {
        let header = match load_header(&service, &key).await {
            Err(SessionError::NotFound { .. }) if !must_exist => None,
            header => Some(header?),
        };
        let head = header.as_ref().map(|header| header.head.clone());
        let first = stream::iter(header.map(|header| header_line(&header)));
        let pages = head.map(|head| event_pages(&service, head));
        let events = stream::iter(pages).flatten();
        let events = events.map_ok(|lines| stream::iter(lines.into_iter().map(Ok)));
        Ok::<_, SessionError>(first.chain(events.try_flatten()))
    });
    Box::pin(lines.try_flatten())
}

fn header_line(header: &LogHeader) -> Result<String> {
    let head = &header.head;
    let mut line = JsonMap::from([
        ("retain", Json::from("session")),
        ("version", VERSION.into()),
        ("appName", head.key.app.as_str().into()),
        ("userId", head.key.user.as_str().into()),
        ("id", head.key.id.as_str().into()),
        ("createTime", head.create_time.into()),
        ("lastUpdateTime", head.last_update_time.into()),
        ("events", head.position.into()),
        ("state", header.initial.clone().into()),
    ]);
    if let Some(ttl) = head.ttl {
        line.insert("ttlSeconds", seconds(duration_us(ttl)));
    }
    if let Some(origin) = &head.origin {
        let session_id = Json::from(origin.session_id.as_str());
        let origin = [
            ("sessionId", session_id),
            ("position", origin.position.into()),
        ];
        line.insert("origin", JsonMap::from(origin));
    }
    encode_line(line)
}

/// Exports the events up to the position of `head`, page by page.
fn event_pages<S: SessionStore>(
    service: &StoreSessionService<S>,
    head: Head,
) -> impl Stream<Item = Result<Vec<String>>> + use<S> {
    let pages = Pager::new(Arc::clone(&service.store), head.key.clone(), 0);
    let pages = pages.with_incarnation(head.incarnation);
    let start = (pages, head, 0);
    stream::try_unfold(start, |(mut pages, head, position)| async move {
        if position >= head.position {
            return Ok(None);
        }
        let events = pages.next().await?;
        let events = events.into_iter();
        let events: Vec<_> = events.take_while(|(at, _)| *at <= head.position).collect();
        let last = events.last().map_or(head.position, |(at, _)| *at);
        let lines = events
            .iter()
            .map(|(at, event)| event_line(&head.key, *at, event));
        Ok(Some((lines.collect::<Result<_>>()?, (pages, head, last))))
    })
}

fn event_line(key: &SessionKey, position: u64, event: &Event) -> Result<String> {
    let body = event.to_json();
    let body = body.map_err(|e| SessionError::corrupt_event(key, position, e))?;
    Ok(format!(r#"{{"position":{position},"event":{body}}}"#))
}

fn encode_line(line: JsonMap) -> Result<String> {
    let text = Json::from(line).to_json();
    text.map_err(|e| SessionError::invalid("export", e.to_string()))
}

/// Imports the lines of an [`export`].
pub(super) async fn import<S: SessionStore>(
    service: &StoreSessionService<S>,
    mut lines: LineStream,
) -> Result<ImportReceipt> {
    let mut import = Import {
        service,
        receipt: ImportReceipt::default(),
        shared: None,
        open: None,
        line: 0,
    };
    while let Some(line) = lines.next().await {
        let line = line?;
        import.line += 1;
        if !line.trim().is_empty() {
            import.read_line(&line).await?;
        }
    }
    import.finish_session().await?;
    import.finish_shared().await?;
    Ok(import.receipt)
}

struct Import<'a, S> {
    service: &'a StoreSessionService<S>,
    receipt: ImportReceipt,
    /// The last shared-state line.
    shared: Option<SharedLine>,
    /// The session that is being imported.
    open: Option<OpenLog>,
    /// The number of the current line.
    line: u64,
}

/// A line of shared state. Its keys are written together with the next session of the user, so that
/// a rejected session adds none. If no session follows, they are written alone.
struct SharedLine {
    app: String,
    user: String,
    keys: ScopedState,
    /// Whether an imported session has written the keys.
    is_written: bool,
}

/// A session whose events are being imported.
struct OpenLog {
    header: LogHeader,
    draft: DraftId,
    fold: Fold,
    ids: HashSet<String>,
    /// Events that are not in the draft yet.
    pending: Vec<(u64, NewEvent)>,
    /// The position of the next event.
    next: u64,
    /// The room that the session and its events take under quotas.
    rooms: Vec<RoomForWrite>,
}

impl OpenLog {
    /// Adds the pending events to the draft, if the quotas have room for them.
    async fn write_pending<S: SessionStore>(
        &mut self,
        service: &StoreSessionService<S>,
    ) -> Result<()> {
        let events = std::mem::take(&mut self.pending);
        let size = Usage::of_events(events.iter().map(|(_, new)| new));
        let room = service.reserve_all(&self.header.head.key, size).await?;
        self.rooms.push(room);
        let store = service.store.transfer()?;
        store.extend_draft(self.draft, &events).await
    }
}

impl SharedLine {
    fn is_of(&self, key: &SessionKey) -> bool {
        self.app == key.app && self.user == key.user
    }
}

impl<S: SessionStore> Import<'_, S> {
    async fn read_line(&mut self, line: &str) -> Result<()> {
        let value = Json::parse(line).map_err(|e| self.error(e.to_string()))?;
        let Some(map) = value.as_object() else {
            return Err(self.error("expected a JSON object"));
        };
        match map["retain"].as_str() {
            _ if map.contains_key("event") => self.add_event(map).await,
            Some(kind @ ("session" | "shared")) => {
                if map["version"].as_i64() != Some(VERSION) {
                    let version = &map["version"];
                    return Err(self.error(format!(
                        "unsupported format version {version}; expected {VERSION}"
                    )));
                }
                self.finish_session().await?;
                match kind {
                    "session" => self.begin_session(map).await,
                    _ => self.begin_shared(map).await,
                }
            }
            _ => {
                Err(self
                    .error("unknown kind of line; expected a session, shared state or an event"))
            }
        }
    }

    async fn begin_shared(&mut self, map: &JsonMap) -> Result<()> {
        let shared = self.parse_shared(map)?;
        self.finish_shared().await?;
        self.shared = Some(shared);
        Ok(())
    }

    fn parse_shared(&self, map: &JsonMap) -> Result<SharedLine> {
        let limits = &self.service.settings.limits;
        let keys = |field: &str| -> Result<JsonMap> {
            let Some(keys) = map.get(field) else {
                return Ok(JsonMap::new());
            };
            let keys = keys.as_object().ok_or_else(|| self.missing(field))?;
            keys.keys()
                .try_for_each(|key| limits.check_state_key(key))?;
            Ok(keys.clone())
        };
        let (app, user) = (
            self.parse_text(map, "appName")?,
            self.parse_text(map, "userId")?,
        );
        limits.check_id("app name", &app)?;
        limits.check_id("user id", &user)?;
        Ok(SharedLine {
            app,
            user,
            keys: ScopedState {
                app: keys("appState")?,
                user: keys("userState")?,
                ..ScopedState::default()
            },
            is_written: false,
        })
    }

    /// Writes the shared state of the last shared-state line, unless a session has written it.
    async fn finish_shared(&mut self) -> Result<()> {
        match self.shared.take() {
            Some(line) if !line.is_written => {
                let store = self.service.store.transfer()?;
                let added = store.add_shared_keys(&line.app, &line.user, &line.keys);
                added.await
            }
            _ => Ok(()),
        }
    }

    async fn begin_session(&mut self, map: &JsonMap) -> Result<()> {
        let header = self.parse_header(map)?;
        let limits = &self.service.settings.limits;
        limits.check_key(&header.head.key)?;
        if let Some(origin) = &header.head.origin {
            limits.check_text("origin", &origin.session_id)?;
        }
        self.service.initial_changes(&header.initial)?;
        let one = Usage::default().with_sessions(1);
        let room = self.service.reserve_all(&header.head.key, one).await?;
        let store = self.service.store.transfer()?;
        let draft = store.begin_draft(&header.head.key).await?;
        self.open = Some(OpenLog {
            fold: Fold::new(&header.initial),
            header,
            draft,
            ids: HashSet::new(),
            pending: Vec::new(),
            next: 1,
            rooms: vec![room],
        });
        Ok(())
    }

    fn parse_header(&self, map: &JsonMap) -> Result<LogHeader> {
        let missing = |field: &str| self.missing(field);
        let text = |field: &str| self.parse_text(map, field);
        let float = |field: &str| map[field].as_f64().ok_or_else(|| missing(field));
        let state = map["state"].as_object().cloned();
        let origin = map.get("origin").map(|origin| {
            Some(Origin {
                session_id: origin["sessionId"].as_str()?.to_owned(),
                position: origin["position"].as_u64()?,
            })
        });
        let ttl = map
            .get("ttlSeconds")
            .map(|ttl| std::time::Duration::try_from_secs_f64(ttl.as_f64()?).ok());
        Ok(LogHeader {
            head: Head {
                key: SessionKey::new(text("appName")?, text("userId")?, text("id")?),
                incarnation: 0,
                position: map["events"].as_u64().ok_or_else(|| missing("events"))?,
                create_time: float("createTime")?,
                last_update_time: float("lastUpdateTime")?,
                ttl: ttl
                    .map(|ttl| ttl.ok_or_else(|| missing("ttlSeconds")))
                    .transpose()?,
                expires_us: None,
                origin: origin
                    .map(|o| o.ok_or_else(|| missing("origin")))
                    .transpose()?,
            },
            initial: state.ok_or_else(|| missing("state"))?,
        })
    }

    async fn add_event(&mut self, map: &JsonMap) -> Result<()> {
        let event = map["event"]
            .to_json()
            .and_then(|text| Event::from_json(&text));
        let event = event.map_err(|e| self.error(e.to_string()))?;
        let Some(log) = &mut self.open else {
            return Err(
                self.error("found an event before any session line; expected a session line")
            );
        };
        let position = log.next;
        if map["position"].as_u64() != Some(position) || position > log.header.head.position {
            let found = map["position"].clone();
            return Err(self.error(format!("expected position {position}, found {found}")));
        }
        if event.id.is_empty() {
            return Err(self.error("the event has no id"));
        }
        if event.timestamp == 0.0 {
            return Err(self.error(format!("event {:?} has no timestamp", event.id)));
        }
        if !log.ids.insert(event.id.clone()) {
            let id = &event.id;
            return Err(self.error(format!(
                "event id {id:?} is already used by an earlier event"
            )));
        }
        let changes = log.fold.step(position, &event);
        let (mut ready, _) = self.service.prepare(event)?;
        ready.changes.session = changes;
        log.pending.push((position, ready));
        log.next += 1;
        if log.pending.len() == STEP {
            log.write_pending(self.service).await?;
        }
        Ok(())
    }

    /// Turns the draft of the current session into the session.
    async fn finish_session(&mut self) -> Result<()> {
        let Some(mut log) = self.open.take() else {
            return Ok(());
        };
        let expected = log.header.head.position;
        if log.next != expected + 1 {
            let found = log.next - 1;
            let key = &log.header.head.key;
            let reason =
                format!("session {key} is incomplete: expected {expected} events, found {found}");
            return Err(self.error(reason));
        }
        log.write_pending(self.service).await?;
        let store = self.service.store.transfer()?;
        let shared = self.shared_for(&log.header.head.key);
        store.finish_draft(log.draft, &log.header, &shared).await?;
        log.rooms.drain(..).for_each(RoomForWrite::settle);
        if let Some(line) = &mut self.shared {
            line.is_written |= line.is_of(&log.header.head.key);
        }
        self.receipt.sessions += 1;
        self.receipt.events += expected;
        Ok(())
    }

    /// Returns the shared keys to write together with the session `key`.
    fn shared_for(&self, key: &SessionKey) -> ScopedState {
        match &self.shared {
            Some(line) if line.is_of(key) => line.keys.clone(),
            Some(line) if line.app == key.app => ScopedState {
                app: line.keys.app.clone(),
                ..ScopedState::default()
            },
            _ => ScopedState::default(),
        }
    }

    fn parse_text(&self, map: &JsonMap, field: &str) -> Result<String> {
        let text = map[field].as_str().map(str::to_owned);
        text.ok_or_else(|| self.missing(field))
    }

    fn missing(&self, field: &str) -> SessionError {
        self.error(format!("the field {field:?} is missing or invalid"))
    }

    fn error(&self, reason: impl Into<String>) -> SessionError {
        SessionError::Import {
            line: self.line,
            reason: reason.into(),
        }
    }
}
