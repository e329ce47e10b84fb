//! The contexts of callbacks and instruction providers.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use retain_core::{
    Content, Event, EventActions, Json, JsonMap, MemoryEntry, MemoryError, RunOptions,
    SearchMemoryResponse, Session, State,
};

use super::{InvocationContext, LiveState};

/// A read-only view of the run.
#[derive(Debug, Clone)]
pub struct ReadonlyContext {
    pub(crate) invocation: InvocationContext,
}

impl ReadonlyContext {
    pub(crate) fn new(invocation: InvocationContext) -> ReadonlyContext {
        ReadonlyContext { invocation }
    }

    /// Returns the id of the run.
    pub fn invocation_id(&self) -> &str {
        self.invocation.invocation_id()
    }

    /// Returns the name of the running agent.
    pub fn agent_name(&self) -> &str {
        self.invocation.agent_name()
    }

    /// Returns the name of the app.
    pub fn app_name(&self) -> &str {
        &self.invocation.session_key().app
    }

    /// Returns the id of the user.
    pub fn user_id(&self) -> &str {
        &self.invocation.session_key().user
    }

    /// Returns the id of the session.
    pub fn session_id(&self) -> &str {
        &self.invocation.session_key().id
    }

    /// Returns the names of the agents above this one, nearest first.
    pub fn agents_above(&self) -> impl Iterator<Item = &str> {
        let above = self.invocation.shared.tree.ancestors(self.agent_name());
        above.map(|agent| agent.name())
    }

    /// Returns the description of the agent.
    pub fn agent_description(&self) -> &str {
        self.invocation.agent.description()
    }

    /// Returns the user's message that began the run.
    pub fn user_content(&self) -> &Content {
        self.invocation.user_content()
    }

    /// Returns the options for a run or a rewind that a tool or callback starts. With them,
    /// cancelling this run also cancels the started run, which fails immediately if it would have
    /// to wait for this run to end.
    pub fn run_options(&self) -> RunOptions {
        self.invocation.run_options()
    }

    /// Returns a snapshot of the session. Cheap, however long the history.
    pub fn session(&self) -> Session {
        self.invocation.session().snapshot()
    }

    /// Returns a copy of the current state.
    pub fn state(&self) -> State {
        let session = self.invocation.session();
        session.update(|session| session.state.clone())
    }

    /// Returns one value of the state.
    pub fn get(&self, key: &str) -> Option<Json> {
        let session = self.invocation.session();
        session.update(|session| session.state.get(key).cloned())
    }

    /// Renders the placeholders in an instruction template with state and artifacts, as ADK does
    /// for plain text instructions. Meant for instruction providers, whose text is sent verbatim.
    ///
    /// Fails if a required placeholder has no value.
    pub async fn inject_session_state(
        &self,
        template: &str,
    ) -> Result<String, crate::template::TemplateError> {
        let template = crate::template::Template::parse(template);
        self.invocation.render(&template).await
    }
}

/// The context of a callback, which can read and write state, save artifacts, search memory and set
/// actions.
///
/// Its writes belong to the callback's event and are stored with it.
#[derive(Debug, Clone)]
pub struct CallbackContext {
    readonly: ReadonlyContext,
    actions: Arc<Mutex<EventActions>>,
}

impl Deref for CallbackContext {
    type Target = ReadonlyContext;

    fn deref(&self) -> &ReadonlyContext {
        &self.readonly
    }
}

impl CallbackContext {
    pub(crate) fn new(
        invocation: InvocationContext,
        actions: Arc<Mutex<EventActions>>,
    ) -> CallbackContext {
        CallbackContext {
            readonly: ReadonlyContext::new(invocation),
            actions,
        }
    }

    /// Returns the state, for reading and writing.
    pub fn state(&self) -> LiveState {
        LiveState::new(self.invocation.session().clone(), Arc::clone(&self.actions))
    }

    /// Reads or changes the actions of the callback's event: transfer, escalate, skip
    /// summarization. Write state with [`state`](Self::state), not here.
    pub fn update_actions<T>(&self, change: impl FnOnce(&mut EventActions) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, EventActions> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches the user's memories from all sessions.
    pub async fn search_memory(&self, query: &str) -> Result<SearchMemoryResponse, MemoryError> {
        let key = self.invocation.session_key();
        let search = self.memory()?.search_memory(&key.app, &key.user, query);
        self.store_call(search).await
    }

    /// Adds this session, up to its current event, to memory.
    pub async fn add_session_to_memory(&self) -> Result<(), MemoryError> {
        let session = self.session();
        let added = self.memory()?.add_session_to_memory(&session);
        self.store_call(added).await
    }

    /// Adds these events to memory.
    pub async fn add_events_to_memory(
        &self,
        events: &[Arc<Event>],
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let key = self.invocation.session_key();
        let memory = self.memory()?;
        let added = memory.add_events_to_memory(
            &key.app,
            &key.user,
            events,
            Some(&key.id),
            custom_metadata,
        );
        self.store_call(added).await
    }

    /// Adds these entries to memory, unchanged.
    pub async fn add_memory(
        &self,
        memories: &[MemoryEntry],
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let key = self.invocation.session_key();
        let memory = self.memory()?;
        let added = memory.add_memory(&key.app, &key.user, memories, custom_metadata);
        self.store_call(added).await
    }

    pub(crate) async fn store_call<F: Future>(&self, call: F) -> F::Output {
        self.invocation.shared.store_call(call).await
    }

    fn memory(&self) -> Result<&dyn retain_core::MemoryService, MemoryError> {
        let memory = self.invocation.shared.memory.as_deref();
        memory.ok_or(MemoryError::NoService)
    }

    /// Returns a read-only view.
    pub fn readonly(&self) -> super::ReadonlyContext {
        self.readonly.clone()
    }

    /// Returns the actions so far and resets them.
    pub(crate) fn take_actions(&self) -> EventActions {
        std::mem::take(&mut *self.lock())
    }
}
