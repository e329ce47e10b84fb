//! `Call`: one HTTP call, before it is sent.

/// A call that is ready to be sent: a POST with a JSON body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The whole address. Holds no key.
    pub(crate) url: String,
    /// Headers beside those for JSON and the key.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The JSON text.
    pub(crate) body: String,
}
