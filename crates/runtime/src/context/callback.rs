//! What callbacks and instruction providers get to see of a run.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use retain_core::{
    Content, Event, EventActions, Json, JsonMap, MemoryEntry, MemoryError, RunOptions,
    SearchMemoryResponse, Session, State,
};

use super::{InvocationContext, LiveState};

/// A view of the run that cannot change anything.
#[derive(Debug, Clone)]
pub struct ReadonlyContext {
    pub(crate) invocation: InvocationContext,
}

impl ReadonlyContext {
    pub(crate) fn new(invocation: InvocationContext) -> ReadonlyContext {
        ReadonlyContext { invocation }
    }

    /// The id of the run.
    pub fn invocation_id(&self) -> &str {
        self.invocation.invocation_id()
    }

    /// The agent that runs.
    pub fn agent_name(&self) -> &str {
        self.invocation.agent_name()
    }

    /// The app.
    pub fn app_name(&self) -> &str {
        &self.invocation.session_key().app
    }

    /// The user.
    pub fn user_id(&self) -> &str {
        &self.invocation.session_key().user
    }

    /// The id of the session.
    pub fn session_id(&self) -> &str {
        &self.invocation.session_key().id
    }

    /// The names of the agents above this one, nearest first.
    pub fn agents_above(&self) -> impl Iterator<Item = &str> {
        let above = self.invocation.shared.tree.ancestors(self.agent_name());
        above.map(|agent| agent.name())
    }

    /// What the agent is good for.
    pub fn agent_description(&self) -> &str {
        self.invocation.agent.description()
    }

    /// What the user said to start the run.
    pub fn user_content(&self) -> &Content {
        self.invocation.user_content()
    }

    /// The options for a run or a rewind that a tool or callback starts: it is cancelled with this
    /// run, and fails at once where it would wait for this run to end.
    pub fn run_options(&self) -> RunOptions {
        self.invocation.run_options()
    }

    /// The session as it is now. Cheap, however long the history.
    pub fn session(&self) -> Session {
        self.invocation.session().snapshot()
    }

    /// The state as it is now.
    pub fn state(&self) -> State {
        let session = self.invocation.session();
        session.update(|session| session.state.clone())
    }

    /// One value of the state.
    pub fn get(&self, key: &str) -> Option<Json> {
        let session = self.invocation.session();
        session.update(|session| session.state.get(key).cloned())
    }

    /// Fills the placeholders of an instruction template from state and artifacts, as ADK does for
    /// instructions that are plain text. For instruction providers, whose text is left as it is.
    ///
    /// Fails if a placeholder that is not optional has no value.
    pub async fn inject_session_state(
        &self,
        template: &str,
    ) -> Result<String, crate::template::TemplateError> {
        let template = crate::template::Template::parse(template);
        self.invocation.render(&template).await
    }
}

/// What a callback may do beyond reading: write state, keep artifacts, look into memory, act.
///
/// What it writes belongs to the event that the callback is about and is stored with it.
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

    /// The state, to read and to write.
    pub fn state(&self) -> LiveState {
        LiveState::new(self.invocation.session().clone(), Arc::clone(&self.actions))
    }

    /// Looks at the actions of the event that this is about, or changes them: transfer, escalate,
    /// skip summarization. State is written with [`state`](Self::state), not in here.
    pub fn update_actions<T>(&self, change: impl FnOnce(&mut EventActions) -> T) -> T {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, EventActions> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches what is known of the user beyond this session.
    pub async fn search_memory(&self, query: &str) -> Result<SearchMemoryResponse, MemoryError> {
        let key = self.invocation.session_key();
        let found = self.memory()?.search_memory(&key.app, &key.user, query);
        self.store_call(found).await
    }

    /// Adds this session, as far as it has come, to memory.
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

    /// Adds memories as they are.
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

    /// A view for reading only.
    pub fn readonly(&self) -> super::ReadonlyContext {
        self.readonly.clone()
    }

    /// The actions so far; whoever holds this context starts new ones.
    pub(crate) fn take_actions(&self) -> EventActions {
        std::mem::take(&mut *self.lock())
    }
}
