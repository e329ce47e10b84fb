//! Confirmation: a call that a person has to approve before its tool runs.

use retain_core::{Json, JsonError, JsonMap};

/// What a person said, or is asked, about a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolConfirmation {
    /// Why the person is asked.
    pub hint: String,
    /// Whether the call is approved.
    pub confirmed: bool,
    /// What else is asked for, or was answered.
    pub payload: Option<Json>,
}

impl ToolConfirmation {
    /// Reads what a client answered: the fields themselves, or a text of them under `response`.
    pub(crate) fn from_response(response: &JsonMap) -> Result<ToolConfirmation, JsonError> {
        let wrapped = response.get("response").and_then(Json::as_str);
        let answer = match wrapped.filter(|_| response.len() == 1) {
            Some(text) => Json::parse(text)?,
            None => Json::from(response.clone()),
        };
        Ok(ToolConfirmation {
            hint: answer["hint"].as_str().unwrap_or_default().to_owned(),
            // Only a plain yes is one.
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
