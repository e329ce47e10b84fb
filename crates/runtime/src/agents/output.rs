//! Agent output: stores the answer under `output_key` and validates it against its schema.

use std::{fmt, sync::Arc};

use retain_core::{BoxError, Content, Event, Json, JsonMap};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::schema::json_schema_of;

type Validator = Arc<dyn Fn(&Json) -> Result<Json, BoxError> + Send + Sync>;

/// The schema that an agent's answer must follow.
///
/// ```
/// use retain_runtime::OutputSchema;
/// #[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
/// struct Position {
///     latitude: f64,
///     longitude: f64,
/// }
/// let schema = OutputSchema::from_type::<Position>();
/// let parsed = schema.parse(r#"{"latitude": 59.9, "longitude": 10.7}"#).unwrap();
/// assert_eq!(parsed["latitude"].as_f64(), Some(59.9));
/// assert!(schema.parse(r#"{"latitude": "north"}"#).is_err());
/// ```
#[derive(Clone)]
pub struct OutputSchema {
    name: String,
    schema: Json,
    validator: Option<Validator>,
}

impl OutputSchema {
    /// Derives the schema from a Rust type. Parsing into that type validates an answer.
    pub fn from_type<T: JsonSchema + Serialize + DeserializeOwned>() -> OutputSchema {
        let validator = |value: &Json| {
            let value: T = serde_json::from_value(serde_json::to_value(value)?)?;
            Ok(without_nulls(Json::from(serde_json::to_value(&value)?)))
        };
        OutputSchema {
            name: T::schema_name().into_owned(),
            schema: json_schema_of::<T>(),
            validator: Some(Arc::new(validator)),
        }
    }

    /// Uses a JSON Schema that is sent to the model. As in ADK, answers are parsed as JSON but not
    /// validated against the schema.
    pub fn json(schema: impl Into<Json>) -> OutputSchema {
        OutputSchema {
            name: "schema".to_owned(),
            schema: schema.into(),
            validator: None,
        }
    }

    /// Returns the JSON Schema.
    pub fn schema(&self) -> &Json {
        &self.schema
    }

    /// Whether the schema was derived from a Rust type.
    pub(crate) fn is_typed(&self) -> bool {
        self.validator.is_some()
    }

    /// Parses an answer, which may be in a Markdown code fence. If the schema comes from a Rust
    /// type, also validates the answer.
    pub fn parse(&self, text: &str) -> Result<Json, BoxError> {
        self.validate(&Json::parse(without_fence(text))?)
    }

    /// Validates a value by parsing it into the Rust type, and returns what that type serializes
    /// to, without nulls. Returns the value unchanged if the schema has no Rust type.
    pub(crate) fn validate(&self, value: &Json) -> Result<Json, BoxError> {
        match &self.validator {
            Some(validator) => validator(value),
            None => Ok(value.clone()),
        }
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.name).finish()
    }
}

/// Returns the content of a Markdown code fence if the whole text is one, else the trimmed text.
fn without_fence(text: &str) -> &str {
    let trimmed = text.trim();
    let inside = trimmed
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    match inside {
        Some(inside) => {
            let rest = inside.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
            rest.trim()
        }
        None => trimmed,
    }
}

fn without_nulls(value: Json) -> Json {
    match value {
        Json::Object(map) => {
            let set = map.iter().filter(|(_, value)| !value.is_null());
            let set = set.map(|(key, value)| (key, without_nulls(value.clone())));
            set.collect::<JsonMap>().into()
        }
        Json::Array(items) => {
            let items: Vec<Json> = items.iter().cloned().map(without_nulls).collect();
            items.into()
        }
        value => value,
    }
}

/// Adds the agent's output to the state delta of its events, under the output key.
#[derive(Debug, Default)]
pub(crate) struct OutputRecorder {
    /// The agent's text in this run so far, including text next to function calls.
    text: String,
}

impl OutputRecorder {
    /// Adds the output to an event. With a schema, the output is the parsed answer in a final
    /// response; without one, it is the agent's text so far.
    pub(crate) fn stamp(
        &mut self,
        key: &str,
        schema: Option<&OutputSchema>,
        event: &mut Event,
    ) -> Result<(), BoxError> {
        stamp_final(key, schema, event)?;
        if schema.is_some() || event.is_partial() {
            return Ok(());
        }
        let text = event
            .content()
            .map(Content::text_concat)
            .unwrap_or_default();
        if !text.is_empty() {
            self.text.push_str(&text);
            event.actions.state_delta.insert(key, self.text.as_str());
        }
        Ok(())
    }
}

/// Adds the answer in an event to the event's state delta, if it is a final response.
pub(crate) fn stamp_final(
    key: &str,
    schema: Option<&OutputSchema>,
    event: &mut Event,
) -> Result<(), BoxError> {
    if !event.is_final_response() {
        return Ok(());
    }
    let Some(content) = event.content() else {
        return Ok(());
    };
    let is_answer = |part: &retain_core::Part| part.text.is_some() && part.thought != Some(true);
    if !content.parts().iter().any(is_answer) {
        return Ok(());
    }
    let text = content.text_concat();
    let value = match schema {
        // The empty last chunk of a stream carries no answer.
        Some(_) if text.trim().is_empty() => return Ok(()),
        Some(schema) => schema.parse(&text)?,
        None => text.into(),
    };
    event.actions.state_delta.insert(key, value);
    Ok(())
}
