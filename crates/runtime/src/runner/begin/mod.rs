//! Begins a run: checks and stores the message, and takes the session's lease.

pub(crate) mod message;
mod named;
pub(crate) mod resume;
pub(crate) mod session_cache;

use std::sync::{Arc, Mutex};

use retain_core::{
    Append, Content, Event, EventActions, GetSessionConfig, JsonMap, RunToken, Session,
    SessionError, SessionKey, SessionOrigin, State, StateDelta, Window,
};

use crate::{
    error::{Result, RunError},
    plugins::{ReadMessage, ask_plugins},
    runner::{Inner, RunRequest, drive::store::add_metadata},
};
use message::AnsweredCalls;
use resume::StartPoint;
use session_cache::ContentsByAgent;

/// A run that has started.
pub(crate) struct StartedRun {
    pub(crate) invocation_id: String,
    /// The live session, message included.
    pub(crate) session: Session,
    pub(crate) assembled: ContentsByAgent,
    /// The message, or the first message of the run that is being continued.
    pub(crate) user_content: Content,
    /// The message as stored, if there is one.
    pub(crate) user_events: Vec<Event>,
    /// The token of the lease, if the service has leases.
    pub(crate) token: Option<RunToken>,
    /// Where the run starts.
    pub(crate) start: StartPoint,
}

/// The message after the plugins have processed it.
pub(crate) struct IncomingMessage {
    pub(crate) content: Content,
    /// The calls that the message answers.
    answered: Option<AnsweredCalls>,
    /// The id of the new run, if plugins have received it.
    run_id: Option<String>,
    /// The versions of artifacts that plugins saved from the message.
    saved: JsonMap,
}

/// The message, ready to be appended.
pub(crate) struct Message {
    /// One event, or one for each branch with calls that the message answers.
    pub(crate) events: Vec<Event>,
    /// The first message of the run that is being continued, if any.
    pub(crate) began_with: Option<Content>,
}

impl Inner {
    /// Begins a run with a validated message. The caller must not drop this future.
    pub(crate) async fn begin(&self, key: &SessionKey, request: &RunRequest) -> Result<StartedRun> {
        let content = match (&request.message, &request.invocation_id) {
            (Some(content), None) => content,
            _ => return self.begin_named(key, request).await,
        };
        let incoming = self.pass_to_plugins(key, content).await?;
        let message = self.message_event(request, incoming);
        self.begin_with(key, request, message).await
    }

    /// Passes the message to the plugins. Reads the history only if they need it.
    async fn pass_to_plugins(
        &self,
        key: &SessionKey,
        content: &Content,
    ) -> Result<IncomingMessage> {
        let answers = content.function_responses().next().is_some();
        if !answers && self.plugins.is_empty() {
            return Ok(IncomingMessage {
                content: content.clone(),
                answered: None,
                run_id: None,
                saved: JsonMap::new(),
            });
        }
        let session = self.load_or_empty(key).await?;
        self.receive_message(&session, content, None).await
    }

    /// Passes the message to the plugins and finds the calls that it answers.
    pub(crate) async fn receive_message(
        &self,
        session: &Session,
        content: &Content,
        run_id: Option<&str>,
    ) -> Result<IncomingMessage> {
        let answered = message::find_answered_calls(&session.events, content)?;
        let invocation_id = answered
            .as_ref()
            .map(|answered| answered.invocation_id.as_str());
        let new_id = run_id.map_or_else(|| self.new_run_id(), str::to_owned);
        let origin = SessionOrigin::new(&self.log, session);
        let artifacts = self.artifacts_for(origin.as_ref());
        let read = ReadMessage {
            session,
            invocation_id,
            run_id: invocation_id.unwrap_or(&new_id),
            artifacts: artifacts.as_deref(),
            message: content,
            saved: Mutex::default(),
        };
        let replaced = ask_plugins!(self.plugins, on_user_message(&read));
        let saved = read.into_artifact_delta();
        let (content, answered) = match replaced {
            None => (content.clone(), answered),
            Some(replaced) => {
                let content = message::check_message(replaced)?;
                let answered = message::find_answered_calls(&session.events, &content)?;
                (content, answered)
            }
        };
        Ok(IncomingMessage {
            content,
            answered,
            run_id: Some(new_id),
            saved,
        })
    }

    fn new_run_id(&self) -> String {
        format!("e-{}", self.ids.new_id())
    }

    pub(crate) fn message_event(&self, request: &RunRequest, incoming: IncomingMessage) -> Message {
        let IncomingMessage {
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
        for (place, content) in answered.split_by_scope(&content) {
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

    /// Creates a user event with the request's state changes and metadata.
    pub(crate) fn user_event(&self, request: &RunRequest) -> Event {
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

    /// Returns the part of the session that the run loads; `None` for all of it. A resumed run
    /// loads all, because it must see its own events.
    fn window_for(&self, request: &RunRequest, message: &Message) -> Option<GetSessionConfig> {
        let is_resumed = self.is_resumable && message.began_with.is_some();
        request.config.get_session_config.filter(|_| !is_resumed)
    }

    /// Appends the message and takes the lease in one write, then loads the session.
    async fn begin_with(
        &self,
        key: &SessionKey,
        request: &RunRequest,
        message: Message,
    ) -> Result<StartedRun> {
        let append =
            Append::from(message.events.clone()).beginning_run(request.config.run_options.clone());
        let append = append.followed_by(self.work_after_runs());
        let appended = match self.log.append(key, append.clone()).await {
            Err(SessionError::NotFound { .. }) if self.auto_create_session => {
                self.create(key).await?;
                self.log.append(key, append).await?
            }
            appended => appended?,
        };
        let token = appended.run;
        let config = self.window_for(request, &message);
        let loaded = self.load(key, config).await;
        let loaded = match (loaded, token) {
            (Err(error), Some(token)) => {
                // The run cannot start without its session. If `end_run` fails too, the lease
                // expires by itself.
                let _ = self.log.end_run(key, token).await;
                return Err(error);
            }
            (loaded, _) => loaded?,
        };
        let (mut session, assembled) = loaded;
        apply_temp(&mut session, &request.state_delta);
        let stored = appended.events.into_iter();
        let stored = stored.map(|(_, event)| Arc::unwrap_or_clone(event));
        Ok(StartedRun {
            assembled,
            token,
            ..self.started_run(session, stored.collect(), message.began_with)?
        })
    }

    /// Loads the current session, if possible from the cache.
    pub(crate) async fn load(
        &self,
        key: &SessionKey,
        config: Option<GetSessionConfig>,
    ) -> Result<(Session, ContentsByAgent)> {
        if config.is_none()
            && let Some((mut session, assembled)) = self.session_cache.get(key)
        {
            match self.log.refresh(&mut session).await {
                Ok(()) => return Ok((session, assembled)),
                // The session was deleted; a new one may have the same id.
                Err(SessionError::NotFound { .. }) => self.session_cache.evict(key),
                Err(error) => return Err(error.into()),
            }
        }
        let window = config.map_or(Window::ALL, Window::from);
        let session = self.read_session(key, window).await?;
        Ok((session, ContentsByAgent::new()))
    }

    /// Returns the session before the message; empty if the message will create it.
    async fn load_or_empty(&self, key: &SessionKey) -> Result<Session> {
        match self.load(key, None).await {
            Ok((session, assembled)) => {
                self.session_cache
                    .put(key.clone(), session.clone(), assembled);
                Ok(session)
            }
            Err(RunError::Session(SessionError::NotFound { .. })) if self.auto_create_session => {
                Ok(Session::new(&key.app, &key.user, &key.id))
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the session, unless another caller has just created it.
    pub(crate) async fn create(&self, key: &SessionKey) -> Result<()> {
        let id = Some(key.id.as_str());
        let created = self.sessions.create_session(&key.app, &key.user, None, id);
        match created.await {
            Ok(_) | Err(SessionError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the run that began with these stored events.
    pub(crate) fn started_run(
        &self,
        session: Session,
        user_events: Vec<Event>,
        began_with: Option<Content>,
    ) -> Result<StartedRun> {
        let Some(first) = user_events.first() else {
            // Every message has an event, and an append must return every event that it stored.
            let reason = "the session service did not return the events that it stored".to_owned();
            return Err(RunError::BrokenOff { reason });
        };
        let start = resume::start_for_message(&self.tree, &session, first, self.is_resumable);
        let message = first.content().cloned().unwrap_or_default();
        Ok(StartedRun {
            invocation_id: first.invocation_id.clone(),
            session,
            assembled: ContentsByAgent::new(),
            user_content: began_with.unwrap_or(message),
            user_events,
            token: None,
            start,
        })
    }
}

/// Adds the `temp:` keys of the request, which live for one run. A loaded session has none.
pub(crate) fn apply_temp(session: &mut Session, delta: &StateDelta) {
    let (_, _, _, temp) = State::partition_by_scope(delta);
    session.state.apply(&temp);
}
