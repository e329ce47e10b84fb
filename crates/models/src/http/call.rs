//! `Call`: an HTTP call before it is sent.

/// A POST call with a JSON body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The complete URL, without API key.
    pub(crate) url: String,
    /// Headers besides those for JSON and the API key.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The JSON text.
    pub(crate) body: String,
}
