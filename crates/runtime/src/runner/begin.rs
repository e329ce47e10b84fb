//! Beginning a run: the message is checked and stored, and the session is taken.

use std::sync::Arc;

use retain_core::{
    Append, Content, Event, EventActions, GetSessionConfig, LlmResponse, RunToken, Session,
    SessionError, SessionKey, SessionLog, State, StateDelta, Window,
};

use super::{
    Inner, RunRequest,
    kept::{Assembled, drop_temp_keys},
    message::{self, Answered},
    store::add_metadata,
};
use crate::{
    agents::{Agent, agent_to_run, branch_of},
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
    /// The message as stored.
    pub(super) user_event: Event,
    /// The right to write, where the service has a log.
    pub(super) token: Option<RunToken>,
    /// Whom it goes to, and on which branch.
    pub(super) agent: Arc<dyn Agent>,
    pub(super) branch: Option<String>,
}

/// The message as plugins want it.
struct Incoming {
    content: Content,
    /// The call that it answers.
    answered: Option<Answered>,
    /// The id of a new run, if plugins were told one.
    run_id: Option<String>,
}

/// The message on its way into the log.
struct Message {
    event: Event,
    /// What began the run that the message goes on with.
    began_with: Option<Content>,
}

impl Inner {
    /// Begins a run on a message that was checked. The caller sees to it that this is not
    /// interrupted.
    pub(super) async fn begin(&self, key: &SessionKey, request: &RunRequest) -> Result<Begun> {
        let incoming = self.message(key, request).await?;
        let message = self.message_event(request, incoming);
        match self.sessions.log() {
            Some(log) => self.begin_in_log(log, key, request, message).await,
            None => self.begin_in_service(key, request, message).await,
        }
    }

    /// Asks the plugins about the message. The history is only read if it matters.
    async fn message(&self, key: &SessionKey, request: &RunRequest) -> Result<Incoming> {
        let content = request.message.clone();
        let answers = content.function_responses().next().is_some();
        if !answers && self.plugins.is_empty() {
            return Ok(Incoming {
                content,
                answered: None,
                run_id: None,
            });
        }
        let session = self.current(key).await?;
        let answered = message::answered(&session.events, &content)?;
        let invocation_id = answered
            .as_ref()
            .map(|answered| answered.invocation_id.as_str());
        let new_id = self.new_run_id();
        let read = ReadMessage {
            session: &session,
            invocation_id,
            run_id: invocation_id.unwrap_or(&new_id),
            artifacts: self.artifacts.as_deref(),
            message: &content,
        };
        let replaced = ask_plugins!(self.plugins, on_user_message(&read));
        let (content, answered) = match replaced {
            None => (content, answered),
            Some(replaced) => {
                let content = message::checked(replaced)?;
                let answered = message::answered(&session.events, &content)?;
                (content, answered)
            }
        };
        Ok(Incoming {
            content,
            answered,
            run_id: Some(new_id),
        })
    }

    fn new_run_id(&self) -> String {
        format!("e-{}", self.ids.new_id())
    }

    fn message_event(&self, request: &RunRequest, incoming: Incoming) -> Message {
        let Incoming {
            content,
            answered,
            run_id,
        } = incoming;
        let mut event = Event {
            id: self.ids.new_id(),
            author: "user".to_owned(),
            timestamp: self.clock.now(),
            response: LlmResponse::of(content),
            actions: EventActions {
                state_delta: request.state_delta.clone(),
                ..EventActions::default()
            },
            ..Event::default()
        };
        let mut began_with = None;
        match answered {
            Some(answered) => {
                event.invocation_id = answered.invocation_id;
                event.branch = answered.branch;
                event.isolation_scope = answered.isolation_scope;
                began_with = answered.user_content;
            }
            None => event.invocation_id = run_id.unwrap_or_else(|| self.new_run_id()),
        }
        add_metadata(&mut event, &request.config.custom_metadata);
        Message { event, began_with }
    }

    /// Stores the message with taking the lease, then reads what is new.
    async fn begin_in_log(
        &self,
        log: &dyn SessionLog,
        key: &SessionKey,
        request: &RunRequest,
        message: Message,
    ) -> Result<Begun> {
        let append = Append::from(message.event.clone()).beginning_run(request.config.turn);
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
        let stored = appended.events.into_iter().next();
        let user_event = stored.map_or(message.event, |(_, event)| Arc::unwrap_or_clone(event));
        Ok(Begun {
            assembled,
            token,
            ..self.begun(session, user_event, message.began_with)
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
        let stored = self.sessions.append_event(&mut session, message.event);
        let user_event = stored.await?;
        Ok(self.begun(session, user_event, message.began_with))
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

    /// The run that has begun: whom the message goes to depends on the history before it.
    fn begun(&self, session: Session, user_event: Event, began_with: Option<Content>) -> Begun {
        let message = user_event.content().cloned().unwrap_or_default();
        let agent = match self.tree.root().sub_agents().is_empty() {
            true => Arc::clone(self.tree.root()),
            false => agent_to_run(&self.tree, &session.events, &message),
        };
        let answers = message.function_responses().next().is_some();
        let invocation_id = answers.then_some(user_event.invocation_id.as_str());
        let branch = match Arc::ptr_eq(&agent, self.tree.root()) {
            true => None,
            false => branch_of(&session.events, agent.name(), invocation_id),
        };
        Begun {
            invocation_id: user_event.invocation_id.clone(),
            session,
            assembled: Assembled::new(),
            user_content: began_with.unwrap_or(message),
            user_event,
            token: None,
            agent,
            branch,
        }
    }
}

/// `temp:` keys live for one run: those of an earlier one go, those of the message come.
fn apply_temp(session: &mut Session, delta: &StateDelta) {
    drop_temp_keys(&mut session.state);
    let (_, _, _, temp) = State::partition_by_scope(delta);
    session.state.apply(&temp);
}
