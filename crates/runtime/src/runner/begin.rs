//! Beginning a run: the message is checked and stored, and the session is taken.

use std::sync::{Arc, Mutex};

use retain_core::{
    Append, Content, Event, EventActions, GetSessionConfig, JsonMap, RunToken, Session,
    SessionError, SessionKey, SessionLog, State, StateDelta, Window,
};

use super::{
    Inner, RunRequest,
    kept::{Assembled, drop_temp_keys},
    message::{self, Answered},
    resume::{self, Start},
    store::add_metadata,
};
use crate::{
    error::{Result, RunError},
    plugins::{ReadMessage, ask_plugins},
};

/// A run that has begun.
pub(super) struct Begun {
    pub(super) invocation_id: String,
    /// The live session, message included.
    pub(super) session: Session,
    pub(super) assembled: Assembled,
    /// What the run is about: the message, or the one that began the run that it goes on with.
    pub(super) user_content: Content,
    /// The message as stored, if there is one.
    pub(super) user_events: Vec<Event>,
    /// The right to write, where the service has a log.
    pub(super) token: Option<RunToken>,
    /// Whom it goes to.
    pub(super) start: Start,
}

/// The message as plugins want it.
struct Incoming {
    content: Content,
    /// The call that it answers.
    answered: Option<Answered>,
    /// The id of a new run, if plugins were told one.
    run_id: Option<String>,
    /// Versions of artifacts that plugins have saved of it.
    saved: JsonMap,
}

/// The message on its way into the log.
struct Message {
    /// One event, or one for each branch on which it answers.
    events: Vec<Event>,
    /// What began the run that the message goes on with.
    began_with: Option<Content>,
}

impl Inner {
    /// Begins a run on a message that was checked. The caller sees to it that this is not
    /// interrupted.
    pub(super) async fn begin(&self, key: &SessionKey, request: &RunRequest) -> Result<Begun> {
        let Some(incoming) = self.message(key, request).await? else {
            return self.take_up(key, request).await;
        };
        let message = self.message_event(request, incoming);
        match self.sessions.log() {
            Some(log) => self.begin_in_log(log, key, request, message).await,
            None => self.begin_in_service(key, request, message).await,
        }
    }

    /// Asks the plugins about the message. The history is only read if it matters. `None` if there is
    /// no message, or it is stored already.
    async fn message(&self, key: &SessionKey, request: &RunRequest) -> Result<Option<Incoming>> {
        let Some(content) = request.message.clone() else {
            return Ok(None);
        };
        let answers = content.function_responses().next().is_some();
        let id = request.invocation_id.as_deref();
        if !answers && id.is_none() && self.plugins.is_empty() {
            return Ok(Some(Incoming {
                content,
                answered: None,
                run_id: None,
                saved: JsonMap::new(),
            }));
        }
        let session = self.current(key).await?;
        let answered = message::answered(&session.events, &content)?;
        if let Some(id) = id
            && message::is_stored(&session.events, id, &content, answered.as_ref())?
        {
            return Ok(None);
        }
        let invocation_id = answered
            .as_ref()
            .map(|answered| answered.invocation_id.as_str());
        let new_id = id.map_or_else(|| self.new_run_id(), str::to_owned);
        let read = ReadMessage {
            session: &session,
            invocation_id,
            run_id: invocation_id.unwrap_or(&new_id),
            artifacts: self.artifacts.as_deref(),
            message: &content,
            saved: Mutex::default(),
        };
        let replaced = ask_plugins!(self.plugins, on_user_message(&read));
        let saved = read.into_saved();
        let (content, answered) = match replaced {
            None => (content, answered),
            Some(replaced) => {
                let content = message::checked(replaced)?;
                let answered = message::answered(&session.events, &content)?;
                (content, answered)
            }
        };
        Ok(Some(Incoming {
            content,
            answered,
            run_id: Some(new_id),
            saved,
        }))
    }

    fn new_run_id(&self) -> String {
        format!("e-{}", self.ids.new_id())
    }

    fn message_event(&self, request: &RunRequest, incoming: Incoming) -> Message {
        let Incoming {
            content,
            answered,
            run_id,
            saved,
        } = incoming;
        let Some(answered) = answered else {
            let mut event = self.user_event(request);
            event.actions.artifact_delta = saved;
            event.response.content = Some(content);
            event.invocation_id = run_id.unwrap_or_else(|| self.new_run_id());
            return Message {
                events: vec![event],
                began_with: None,
            };
        };
        let mut events = Vec::new();
        for (place, content) in answered.by_place(&content) {
            let mut event = self.user_event(request);
            event.response.content = Some(content);
            event.invocation_id.clone_from(&answered.invocation_id);
            event.branch = place.branch;
            event.isolation_scope = place.isolation_scope;
            match events.is_empty() {
                true => event.actions.artifact_delta.clone_from(&saved),
                false => event.actions = EventActions::default(),
            }
            events.push(event);
        }
        Message {
            events,
            began_with: answered.user_content,
        }
    }

    /// An event of the user with what the request wants of it.
    fn user_event(&self, request: &RunRequest) -> Event {
        let mut event = Event {
            id: self.ids.new_id(),
            author: "user".to_owned(),
            timestamp: self.clock.now(),
            actions: EventActions {
                state_delta: request.state_delta.clone(),
                ..EventActions::default()
            },
            ..Event::default()
        };
        add_metadata(&mut event, &request.config.custom_metadata);
        event
    }

    /// Stores the message with taking the lease, then reads what is new.
    async fn begin_in_log(
        &self,
        log: &dyn SessionLog,
        key: &SessionKey,
        request: &RunRequest,
        message: Message,
    ) -> Result<Begun> {
        let append = Append::from(message.events.clone()).beginning_run(request.config.turn);
        let appended = match log.append(key, append.clone()).await {
            Err(SessionError::NotFound { .. }) if self.auto_create_session => {
                self.create(key).await?;
                log.append(key, append).await?
            }
            appended => appended?,
        };
        let token = appended.run;
        let loaded = self.load(log, key, request.config.get_session_config).await;
        let loaded = match (loaded, token) {
            (Err(error), Some(token)) => {
                // Without the session there is no run; a lease that stays ends by itself.
                let _ = log.end_run(key, token).await;
                return Err(error);
            }
            (loaded, _) => loaded?,
        };
        let (mut session, assembled) = loaded;
        apply_temp(&mut session, &request.state_delta);
        let stored = appended.events.into_iter();
        let stored = stored.map(|(_, event)| Arc::unwrap_or_clone(event));
        Ok(Begun {
            assembled,
            token,
            ..self.begun(session, stored.collect(), message.began_with)?
        })
    }

    /// As [`begin_in_log`](Self::begin_in_log), for a service that has no leases.
    async fn begin_in_service(
        &self,
        key: &SessionKey,
        request: &RunRequest,
        message: Message,
    ) -> Result<Begun> {
        let config = request.config.get_session_config.unwrap_or_default();
        let mut session = self.get_or_create(key, config).await?;
        let mut stored = Vec::new();
        for event in message.events {
            stored.push(self.sessions.append_event(&mut session, event).await?);
        }
        self.begun(session, stored, message.began_with)
    }

    /// The session as it is now, read as little as possible.
    async fn load(
        &self,
        log: &dyn SessionLog,
        key: &SessionKey,
        config: Option<GetSessionConfig>,
    ) -> Result<(Session, Assembled)> {
        if config.is_none()
            && let Some((mut session, assembled)) = self.kept.get(key)
        {
            match log.refresh(&mut session).await {
                Ok(()) => return Ok((session, assembled)),
                // Another session has taken the id.
                Err(SessionError::NotFound { .. }) => self.kept.forget(key),
                Err(error) => return Err(error.into()),
            }
        }
        let window = config.map_or(Window::ALL, Window::from);
        let read = log.read(key, window).await?;
        let session = read.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
        Ok((session, Assembled::new()))
    }

    /// The session before the message, for those who must know it. One that will be made with the
    /// message is empty.
    async fn current(&self, key: &SessionKey) -> Result<Session> {
        let read = match self.sessions.log() {
            Some(log) => self.load(log, key, None).await.map(|(session, assembled)| {
                self.kept.put(key.clone(), session.clone(), assembled);
                Some(session)
            }),
            None => {
                let config = GetSessionConfig::default();
                let read = self
                    .sessions
                    .get_session(&key.app, &key.user, &key.id, config);
                read.await.map_err(RunError::from)
            }
        };
        let is_missing =
            |error: &RunError| matches!(error, RunError::Session(SessionError::NotFound { .. }));
        let read = match read {
            Err(error) if is_missing(&error) => None,
            read => read?,
        };
        match read {
            Some(session) => Ok(session),
            None if self.auto_create_session => Ok(Session::new(&key.app, &key.user, &key.id)),
            None => Err(SessionError::NotFound { key: key.clone() }.into()),
        }
    }

    async fn get_or_create(&self, key: &SessionKey, config: GetSessionConfig) -> Result<Session> {
        let read = self
            .sessions
            .get_session(&key.app, &key.user, &key.id, config);
        match read.await? {
            Some(session) => Ok(session),
            None if self.auto_create_session => self.create(key).await,
            None => Err(SessionError::NotFound { key: key.clone() }.into()),
        }
    }

    /// Makes the session; one that somebody else has just made is as good.
    async fn create(&self, key: &SessionKey) -> Result<Session> {
        let id = Some(key.id.as_str());
        let created = self.sessions.create_session(&key.app, &key.user, None, id);
        match created.await {
            Err(SessionError::AlreadyExists { .. }) => {
                let config = GetSessionConfig::default();
                let read = self
                    .sessions
                    .get_session(&key.app, &key.user, &key.id, config);
                let read = read.await?;
                Ok(read.ok_or_else(|| SessionError::NotFound { key: key.clone() })?)
            }
            created => Ok(created?),
        }
    }

    /// The run that has begun on a message.
    fn begun(
        &self,
        session: Session,
        user_events: Vec<Event>,
        began_with: Option<Content>,
    ) -> Result<Begun> {
        let Some(first) = user_events.first() else {
            // Every message has an event, and every event that is appended is given back.
            let reason = "the session service did not give back what it stored".to_owned();
            return Err(RunError::BrokenOff { reason });
        };
        let start = resume::for_message(&self.tree, &session, first, self.is_resumable);
        let message = first.content().cloned().unwrap_or_default();
        Ok(Begun {
            invocation_id: first.invocation_id.clone(),
            session,
            assembled: Assembled::new(),
            user_content: began_with.unwrap_or(message),
            user_events,
            token: None,
            start,
        })
    }

    /// Takes a run up again that has stored its message.
    async fn take_up(&self, key: &SessionKey, request: &RunRequest) -> Result<Begun> {
        let Some(id) = request.invocation_id.as_deref() else {
            return Err(RunError::InvalidMessage {
                reason: "is missing; give one, or the id of a run that is to go on".to_owned(),
            });
        };
        if !self.is_resumable {
            let invocation_id = id.to_owned();
            return Err(RunError::NotResumable { invocation_id });
        }
        let Some(log) = self.sessions.log() else {
            let config = GetSessionConfig::default();
            let session = self.get_or_create(key, config).await?;
            return self.taken_up(request, id, session, Assembled::new()).await;
        };
        let begin = Append::default().beginning_run(request.config.turn);
        let token = log.append(key, begin).await?.run;
        let taken_up = async {
            let (mut session, assembled) = self.load(log, key, None).await?;
            apply_temp(&mut session, &request.state_delta);
            self.taken_up(request, id, session, assembled).await
        };
        match (taken_up.await, token) {
            (Err(error), Some(token)) => {
                // Without the session there is no run; a lease that stays ends by itself.
                let _ = log.end_run(key, token).await;
                Err(error)
            }
            (begun, token) => Ok(Begun { token, ..begun? }),
        }
    }

    /// The run as it goes on. Changes of state are stored now that it is known to exist.
    async fn taken_up(
        &self,
        request: &RunRequest,
        id: &str,
        mut session: Session,
        assembled: Assembled,
    ) -> Result<Begun> {
        let (start, user_content) = resume::without_message(&self.tree, &session, id)?;
        let mut user_events = Vec::new();
        if !request.state_delta.is_empty() {
            let mut event = self.user_event(request);
            event.invocation_id = id.to_owned();
            // Outside the run, which alone writes: nothing can come between.
            user_events.push(self.sessions.append_event(&mut session, event).await?);
        }
        Ok(Begun {
            invocation_id: id.to_owned(),
            session,
            assembled,
            user_content,
            user_events,
            token: None,
            start,
        })
    }
}

/// `temp:` keys live for one run: those of an earlier one go, those of the message come.
fn apply_temp(session: &mut Session, delta: &StateDelta) {
    drop_temp_keys(&mut session.state);
    let (_, _, _, temp) = State::partition_by_scope(delta);
    session.state.apply(&temp);
}
