//! Stores a run's events: passes them to the plugins, then appends them within the run.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Append, Event, EventActions, Json, JsonError, JsonMap, SessionError, StateScope, Window,
};

use super::Driver;
use crate::{
    error::{Result, RunError, error_kind},
    plugins::ask_plugins,
};

/// The prefix of the metadata keys that ADK reserves for itself.
const INTERNAL_METADATA: &str = "__adk_internal_";

/// The time limit for callbacks and plugins while a run ends, so that a hanging one does not hold
/// the session's lease forever.
pub(crate) const END_TIME_LIMIT: Duration = Duration::from_secs(10);

impl Driver {
    /// Stores an event of the run itself and sends it to the caller. Plugins have a time limit.
    pub(crate) async fn store(&mut self, event: Event, last: bool) -> Result<()> {
        let replaced = Box::pin(self.apply_plugins(Box::new(event.clone())));
        let event = match tokio::time::timeout(END_TIME_LIMIT, replaced).await {
            Ok(Ok(event)) => event,
            // The log must record what happened to the run, even if a plugin fails.
            Ok(Err(error)) => {
                let invocation = self.ctx.invocation_id();
                tracing::error!(
                    invocation,
                    kind = error_kind(&error),
                    "a plugin failed to process an event of the runner; storing it unchanged"
                );
                tracing::debug!(error = ?error.to_string(), "a plugin failed to process an event of \
                                                             the runner; storing it unchanged");
                Box::new(event)
            }
            Err(_) => Box::new(event),
        };
        let event = self.append(event, last).await?;
        self.send_event(event, None);
        Ok(())
    }

    /// Adds the run's metadata to the event and lets plugins replace it.
    pub(crate) async fn apply_plugins(&self, mut event: Box<Event>) -> Result<Box<Event>> {
        add_metadata(&mut event, &self.ctx.run_config().custom_metadata);
        if self.inner.plugins.is_empty() {
            return Ok(event);
        }
        let replaced = self.run_on_event_hooks(&event).await?;
        if let Some(replaced) = replaced {
            *event = self.apply_replacement(&event, replaced)?;
        }
        Ok(event)
    }

    /// Appends an agent's event. If the event is too large or exceeds a quota, reverts its state changes in the live
    /// session, because the agent may continue without the event.
    pub(crate) async fn append_or_revert(
        &mut self,
        event: Box<Event>,
        last: bool,
    ) -> Result<Box<Event>> {
        let written: Vec<String> = event
            .actions
            .state_delta
            .keys()
            .map(str::to_owned)
            .collect();
        let stored = self.append(event, last).await;
        let refused = matches!(
            stored,
            Err(RunError::Session(
                SessionError::TooLarge { .. } | SessionError::QuotaExceeded(_)
            ))
        );
        if refused && !written.is_empty() {
            self.revert_state(&written).await?;
        }
        stored
    }

    /// Resets these state keys of the live session to their stored values.
    async fn revert_state(&self, keys: &[String]) -> Result<()> {
        let key = &self.ctx.shared.key;
        let stored = self.inner.read_session(key, Window::NONE).await?;
        self.session.update(|live| {
            // `temp:` keys are not stored and have no size limit.
            let written = keys
                .iter()
                .filter(|key| StateScope::of(key) != StateScope::Temp);
            for key in written {
                match stored.state.get(key) {
                    Some(value) => drop(live.state.set(key, value.clone())),
                    None => drop(live.state.remove(key)),
                }
            }
        });
        Ok(())
    }

    /// Appends an event, unless it is partial. `last` ends the run, which releases its lease.
    pub(crate) async fn append(&mut self, event: Box<Event>, last: bool) -> Result<Box<Event>> {
        if event.is_partial() {
            return Ok(event);
        }
        let append = Append::from(*event).followed_by(self.inner.work_after_runs());
        let append = match (&self.lease, last) {
            (Some(lease), true) => append.ending_run(lease.token),
            (Some(lease), false) => append.within_run(lease.token),
            // The service has no leases, or this event follows the one that released the lease.
            (None, _) => append.beginning_run(self.options.clone()),
        };
        let appended = self.inner.log.append_live(&self.session, append).await?;
        match (&self.lease, appended.run) {
            (Some(_), _) if last => {
                self.lease = None;
                self.is_released = true;
            }
            // A new lease, which the end of the run must release.
            (None, Some(token)) => {
                let key = &self.ctx.shared.key;
                self.lease = Some(self.inner.leases.hold(key, token, &self.idle));
            }
            _ => {}
        }
        let stored = appended.events.into_iter().next();
        match stored {
            Some((_, event)) => Ok(Box::new(Arc::unwrap_or_clone(event))),
            None => Err(RunError::Cancelled),
        }
    }

    async fn run_on_event_hooks(&self, event: &Event) -> Result<Option<Event>> {
        Ok(ask_plugins!(self.inner.plugins, on_event(&self.ctx, event)))
    }

    /// Merges a plugin's replacement into an event. The fields that the replacement sets win,
    /// except the event's id, run id and timestamp, which a plugin cannot change.
    fn apply_replacement(&self, original: &Event, mut replacement: Event) -> Result<Event> {
        add_metadata(&mut replacement, &self.ctx.run_config().custom_metadata);
        let to_run_error = |error: JsonError| RunError::Agent {
            agent: original.author.clone(),
            source: error.into(),
        };
        let fields = |event: &Event| Json::parse(&event.to_json()?);
        let mut merged = fields(original).map_err(to_run_error)?;
        let replaced = fields(&replacement).map_err(to_run_error)?;
        for (name, value) in replaced.as_object().into_iter().flat_map(JsonMap::iter) {
            let is_set = match name {
                "id" | "invocationId" | "timestamp" => false,
                "author" => !replacement.author.is_empty(),
                "actions" => replacement.actions != EventActions::default(),
                _ => true,
            };
            if let Some(fields) = merged.as_object_mut().filter(|_| is_set) {
                fields.insert(name, value.clone());
            }
        }
        let mut merged = Event::from_json(&merged.to_string()).map_err(to_run_error)?;
        keep_internal_metadata(original, &mut merged);
        Ok(merged)
    }
}

/// Adds the run's metadata to an event; the event's own values win.
pub(crate) fn add_metadata(event: &mut Event, metadata: &JsonMap) {
    let mut entries = metadata
        .iter()
        .filter(|(key, _)| !key.starts_with(INTERNAL_METADATA))
        .peekable();
    if entries.peek().is_none() {
        return;
    }
    let mut all: JsonMap = entries.map(|(key, value)| (key, value.clone())).collect();
    all.extend(event.response.custom_metadata.take().into_iter().flatten());
    event.response.custom_metadata = Some(all);
}

/// Restores ADK's internal metadata, which a plugin must not drop.
fn keep_internal_metadata(original: &Event, event: &mut Event) {
    let entries = original.response.custom_metadata.iter();
    let entries = entries.flat_map(JsonMap::iter);
    let internal = entries.filter(|(key, _)| key.starts_with(INTERNAL_METADATA));
    let internal: Vec<_> = internal.map(|(key, value)| (key, value.clone())).collect();
    if !internal.is_empty() {
        let all = event.response.custom_metadata.get_or_insert_default();
        all.extend(internal);
    }
}
