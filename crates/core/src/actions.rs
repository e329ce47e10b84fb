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
    pub struct EventActions {
        /// The function response is the answer; the model is not asked to put it into words.
        skip_summarization: Option<bool> = "skipSummarization",
        /// Changes of state, with their scope prefixes.
        state_delta: StateDelta = "stateDelta",
        /// New artifact versions by file name.
        artifact_delta: JsonMap = "artifactDelta",
        /// The agent that goes on.
        transfer_to_agent: Option<String> = "transferToAgent",
        /// Why it does.
        transfer_reason: Option<String> = "transferReason",
        /// Ends the surrounding loop.
        escalate: Option<bool> = "escalate",
        /// Credentials that tools ask for, by call id.
        requested_auth_configs: Shaped<AuthConfigs> = "requestedAuthConfigs",
        /// Confirmations that tools ask for, by call id.
        requested_tool_confirmations: Shaped<ToolConfirmations> = "requestedToolConfirmations",
        /// This event sums up a stretch of history.
        compaction: Option<EventCompaction> = "compaction",
        /// The agent has finished its run.
        end_of_agent: Option<bool> = "endOfAgent",
        /// A checkpoint of the agent.
        agent_state: Option<JsonMap> = "agentState",
        /// History from this invocation on is taken back.
        rewind_before_invocation_id: Option<String> = "rewindBeforeInvocationId",
        /// Which edge of a workflow is taken.
        route: Option<Json> = "route",
        /// Widgets to show.
        render_ui_widgets: Option<Shaped<UiWidgets>> = "renderUiWidgets",
        /// The structured answer of the model.
        set_model_response: Option<Json> = "setModelResponse",
    }
}

wire_object! {
    /// A summary that stands for the events of a span of time.
    pub struct EventCompaction {
        /// The first event's time.
        start_timestamp: f64 = "startTimestamp",
        /// The last event's time.
        end_timestamp: f64 = "endTimestamp",
        /// The summary.
        compacted_content: Content = "compactedContent",
    }
}

wire_text!(EventActions);
