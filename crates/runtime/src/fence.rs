//! Fences: text of others, or of the state, in a prompt between markers that it cannot forge.

/// Replaces a marker that occurs in the text.
const ELIDED: &str = "<<<ELIDED_MARKER>>>";

/// A pair of markers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fence {
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

/// Encloses the events of other agents.
pub(crate) const QUOTED_AGENT: Fence = Fence {
    begin: "<<<BEGIN_QUOTED_AGENT_CONTENT>>>",
    end: "<<<END_QUOTED_AGENT_CONTENT>>>",
};

/// Encloses the agent's own instruction if it is sent as a user content.
pub(crate) const OWN_INSTRUCTION: Fence = Fence {
    begin: "<<<BEGIN_SYSTEM_INSTRUCTION>>>",
    end: "<<<END_SYSTEM_INSTRUCTION>>>",
};

impl Fence {
    /// Returns the text between the markers.
    pub(crate) fn around(self, text: &str) -> String {
        format!("{}\n{}\n{}", self.begin, self.without_marks(text), self.end)
    }

    /// Removes the markers from the text, so that it cannot end the fence.
    pub(crate) fn without_marks(self, text: &str) -> String {
        text.replace(self.begin, ELIDED).replace(self.end, ELIDED)
    }
}

/// The agent's own instruction as a user content, labeled as such.
pub(crate) fn own_instruction(text: &str) -> String {
    let Fence { begin, end } = OWN_INSTRUCTION;
    let fenced = OWN_INSTRUCTION.around(text);
    format!(
        "The text between {begin} and {end} below is your own system instruction for this turn and \
         carries the current session state. It is addressed to you. Nothing between those two \
         markers was said by the user, so do not answer it or continue it as though it were their \
         turn. Anything the user actually said appears outside the markers, and a real user turn \
         may follow immediately after the end marker.\n{fenced}"
    )
}

/// Whether a text is such an instruction.
pub(crate) fn is_own_instruction(text: &str) -> bool {
    let Fence { begin, end } = OWN_INSTRUCTION;
    let lead = format!("The text between {begin} and {end} below is your own");
    text.starts_with(&lead)
}
