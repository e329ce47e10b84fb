//! Begins or resumes a run whose id the request sets.
//!
//! It takes the lease before it reads the log, so that of two equal requests, one begins the run
//! and the other resumes it.

use std::sync::Arc;

use retain_core::{Append, Content, Json, RunToken, Session, SessionError, SessionKey};

use super::{
    IncomingMessage, StartedRun, apply_temp,
    message::{self, DIGEST},
    resume,
    session_cache::ContentsByAgent,
};
use crate::{
    error::{Result, RunError},
    runner::{Inner, RunRequest},
};

impl Inner {
    /// Begins or resumes the run whose id the request sets.
    pub(crate) async fn begin_named(
        &self,
        key: &SessionKey,
        request: &RunRequest,
    ) -> Result<StartedRun> {
        let id = request.invocation_id.as_deref();
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            let reason = match request.message {
                Some(_) => "has an empty run id; omit the id to start a new run",
                None => "missing; send a message, or the id of the run to resume",
            };
            return Err(RunError::InvalidMessage {
                reason: reason.to_owned(),
            });
        };
        let token = self.take_lease(key, request).await?;
        let started_run = async {
            let (session, assembled) = self.load(key, None).await?;
            self.begin_or_resume(token, request, id, session, assembled)
                .await
        };
        match (started_run.await, token) {
            (Err(error), Some(token)) => {
                // No run has started, so release the lease. If `end_run` fails too, the lease
                // expires by itself.
                let _ = self.log.end_run(key, token).await;
                Err(error)
            }
            (started_run, token) => Ok(StartedRun {
                token,
                ..started_run?
            }),
        }
    }

    /// Takes the lease of the session without appending anything.
    async fn take_lease(&self, key: &SessionKey, request: &RunRequest) -> Result<Option<RunToken>> {
        let begin = || Append::default().beginning_run(request.config.run_options.clone());
        let may_create = self.auto_create_session && request.message.is_some();
        let started_run = match self.log.append(key, begin()).await {
            Err(SessionError::NotFound { .. }) if may_create => {
                self.create(key).await?;
                self.log.append(key, begin()).await
            }
            started_run => started_run,
        };
        Ok(started_run?.run)
    }

    async fn begin_or_resume(
        &self,
        token: Option<RunToken>,
        request: &RunRequest,
        id: &str,
        session: Session,
        assembled: ContentsByAgent,
    ) -> Result<StartedRun> {
        let is_stored = |content| message::is_stored(&session.events, id, content);
        match &request.message {
            Some(content) if !is_stored(content)? => {
                let incoming = self.receive_message(&session, content, Some(id)).await?;
                self.begin_with_id(token, request, content, incoming, session)
                    .await
            }
            _ => self.resume_run(request, id, session, assembled).await,
        }
    }

    /// Stores a message under the run id in the request.
    async fn begin_with_id(
        &self,
        token: Option<RunToken>,
        request: &RunRequest,
        original: &Content,
        incoming: IncomingMessage,
        mut session: Session,
    ) -> Result<StartedRun> {
        let is_replaced = incoming.content != *original;
        let mut message = self.message_event(request, incoming);
        if let Some(first) = message.events.first_mut().filter(|_| is_replaced) {
            // A retry of the request carries the original message, which this digest identifies.
            let metadata = first.response.custom_metadata.get_or_insert_default();
            metadata.insert(DIGEST, Json::from(message::digest(original)));
        }
        let append = Append::from(message.events).followed_by(self.work_after_runs());
        let append = match token {
            Some(token) => append.within_run(token),
            None => append,
        };
        let appended = self.log.append(&session.key(), append).await?;
        let stored = appended.events.into_iter();
        let stored = stored
            .map(|(_, event)| Arc::unwrap_or_clone(event))
            .collect();
        self.log.refresh(&mut session).await?;
        apply_temp(&mut session, &request.state_delta);
        self.started_run(session, stored, message.began_with)
    }

    /// Resumes a run whose message is stored. Once the run is known to exist, stores the state
    /// changes of a request without a message; those of a message are already in the log.
    async fn resume_run(
        &self,
        request: &RunRequest,
        id: &str,
        mut session: Session,
        assembled: ContentsByAgent,
    ) -> Result<StartedRun> {
        if !self.is_resumable {
            let invocation_id = id.to_owned();
            return Err(RunError::NotResumable { invocation_id });
        }
        let (start, user_content) = resume::start_without_message(&self.tree, &session, id)?;
        apply_temp(&mut session, &request.state_delta);
        let mut user_events = Vec::new();
        if !request.state_delta.is_empty() && request.message.is_none() {
            let mut event = self.user_event(request);
            event.invocation_id = id.to_owned();
            // Append outside the run. The run holds the lease, so no other run can write in
            // between.
            user_events.push(self.sessions.append_event(&mut session, event).await?);
        }
        Ok(StartedRun {
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
