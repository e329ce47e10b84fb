//! Fences: text of others, or of the state, that stands in a prompt between marks it cannot forge.

/// Stands in the place of a mark that was found in the text.
const ELIDED: &str = "<<<ELIDED_MARKER>>>";

/// A pair of marks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fence {
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

/// Around what other agents did.
pub(crate) const QUOTED_AGENT: Fence = Fence {
    begin: "<<<BEGIN_QUOTED_AGENT_CONTENT>>>",
    end: "<<<END_QUOTED_AGENT_CONTENT>>>",
};

/// Around the agent's own instruction, where it travels as a content of the user.
pub(crate) const OWN_INSTRUCTION: Fence = Fence {
    begin: "<<<BEGIN_SYSTEM_INSTRUCTION>>>",
    end: "<<<END_SYSTEM_INSTRUCTION>>>",
};

impl Fence {
    /// The text between the marks.
    pub(crate) fn around(self, text: &str) -> String {
        format!("{}\n{}\n{}", self.begin, self.without_marks(text), self.end)
    }

    /// The text with nothing in it that could end the fence.
    pub(crate) fn without_marks(self, text: &str) -> String {
        text.replace(self.begin, ELIDED).replace(self.end, ELIDED)
    }
}

/// The agent's own instruction as a content of the user, marked as what it is.
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
