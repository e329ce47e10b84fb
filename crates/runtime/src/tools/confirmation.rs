//! Tool confirmation: a person must approve a call before its tool runs.

use retain_core::{Json, JsonError, JsonMap};

/// A confirmation request for a tool call, or the person's answer to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolConfirmation {
    /// Why confirmation is requested.
    pub hint: String,
    /// Whether the call is approved.
    pub confirmed: bool,
    /// Additional data that is requested or was answered.
    pub payload: Option<Json>,
}

impl ToolConfirmation {
    /// Parses a client's answer: the fields themselves, or their JSON text under `response`.
    pub(crate) fn from_response(response: &JsonMap) -> Result<ToolConfirmation, JsonError> {
        let wrapped = response.get("response").and_then(Json::as_str);
        let answer = match wrapped.filter(|_| response.len() == 1) {
            Some(text) => Json::parse(text)?,
            None => Json::from(response.clone()),
        };
        Ok(ToolConfirmation {
            hint: answer["hint"].as_str().unwrap_or_default().to_owned(),
            // Only a literal `true` confirms the call.
            confirmed: answer["confirmed"].as_bool() == Some(true),
            payload: answer
                .get("payload")
                .filter(|value| !value.is_null())
                .cloned(),
        })
    }

    pub(crate) fn to_json(&self) -> Json {
        let mut fields = JsonMap::from([
            ("hint", Json::from(self.hint.as_str())),
            ("confirmed", Json::from(self.confirmed)),
        ]);
        if let Some(payload) = &self.payload {
            fields.insert("payload", payload.clone());
        }
        fields.into()
    }
}
