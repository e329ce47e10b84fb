//! `EventActions`: what an event does beyond what it says.

use crate::{
    content::Content,
    json::{Json, JsonMap},
    state::StateDelta,
    wire::{Shaped, wire_object, wire_text},
    wire_shapes::{AuthConfigs, ToolConfirmations, UiWidgets},
};

wire_object! {
    /// What an event does: changes of state and artifacts, transfer, escalation, compaction, rewind.
    pub struct EventActions: EVENT_ACTIONS {
        /// The function response is the answer; the model is not asked to put it into words.
        skip_summarization: Option<bool>,
        /// Changes of state, with their scope prefixes.
        state_delta: StateDelta,
        /// New artifact versions by file name.
        artifact_delta: JsonMap,
        /// The agent that goes on.
        transfer_to_agent: Option<String>,
        /// Why it does.
        transfer_reason: Option<String>,
        /// Ends the surrounding loop.
        escalate: Option<bool>,
        /// Credentials that tools ask for, by call id.
        requested_auth_configs: Shaped<AuthConfigs>,
        /// Confirmations that tools ask for, by call id.
        requested_tool_confirmations: Shaped<ToolConfirmations>,
        /// This event sums up a stretch of history.
        compaction: Option<EventCompaction>,
        /// The agent has finished its run.
        end_of_agent: Option<bool>,
        /// A checkpoint of the agent.
        agent_state: Option<JsonMap>,
        /// History from this invocation on is taken back.
        rewind_before_invocation_id: Option<String>,
        /// Which edge of a workflow is taken.
        route: Option<Json>,
        /// Widgets to show.
        render_ui_widgets: Option<Shaped<UiWidgets>>,
        /// The structured answer of the model.
        set_model_response: Option<Json>,
    }
}

wire_object! {
    /// A summary that stands for the events of a span of time.
    pub struct EventCompaction: EVENT_COMPACTION {
        /// The first event's time.
        start_timestamp: f64,
        /// The last event's time.
        end_timestamp: f64,
        /// The summary.
        compacted_content: Content,
    }
}

wire_text!(EventActions);
