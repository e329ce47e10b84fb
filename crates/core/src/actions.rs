//! `EventActions`: the effects of an event. Also confirmations of tool calls.

use crate::{
    content::Content,
    json::{Json, JsonMap},
    state::StateDelta,
    wire::{Shaped, wire_object, wire_text},
    wire_shapes::{AuthConfigs, ToolConfirmations, UiWidgets},
};

wire_object! {
    /// The effects of an event: state and artifact changes, transfer, escalation, compaction,
    /// rewind.
    pub struct EventActions: EVENT_ACTIONS {
        /// The function response is the final answer; the model does not summarize it.
        skip_summarization: Option<bool>,
        /// Changes of state, with their scope prefixes.
        state_delta: StateDelta,
        /// New artifact versions by file name.
        artifact_delta: JsonMap,
        /// The agent that continues the run.
        transfer_to_agent: Option<String>,
        /// The reason for the transfer.
        transfer_reason: Option<String>,
        /// Whether the surrounding loop ends after this event.
        escalate: Option<bool>,
        /// Credentials that tools request, by call id.
        requested_auth_configs: Shaped<AuthConfigs>,
        /// Confirmations that tools request, by call id.
        requested_tool_confirmations: Shaped<ToolConfirmations>,
        /// The summary that this event stores.
        compaction: Option<EventCompaction>,
        /// Whether the agent has finished its run.
        end_of_agent: Option<bool>,
        /// A checkpoint of the agent.
        agent_state: Option<JsonMap>,
        /// On a rewind: the invocation that is undone, with everything after it.
        rewind_before_invocation_id: Option<String>,
        /// The workflow edge to follow.
        route: Option<Json>,
        /// Widgets to show.
        render_ui_widgets: Option<Shaped<UiWidgets>>,
        /// The structured response of the model.
        set_model_response: Option<Json>,
    }
}

wire_object! {
    /// A summary that replaces the events of a time span in prompts.
    pub struct EventCompaction: EVENT_COMPACTION {
        /// The time of the first event.
        start_timestamp: f64,
        /// The time of the last event.
        end_timestamp: f64,
        /// The summary.
        compacted_content: Content,
    }
}

wire_object! {
    /// A confirmation request for a tool call, or the user's answer to it.
    pub struct ToolConfirmation: TOOL_CONFIRMATION {
        /// Why confirmation is requested.
        hint: String,
        /// Whether the call is approved.
        confirmed: bool,
        /// Additional data: the tool's request, or the user's answer.
        payload: Option<Json>,
    }
}

wire_text!(EventActions, ToolConfirmation);
