//! Reads the JSON body of a request, validates it against ADK's table, and gives access to its
//! fields.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest as _, Request},
    http::{StatusCode, header},
};
use retain_core::{
    Content, Event, Json, JsonError, JsonMap, Part,
    adk::ValueType,
    budget::{Meter, parsed_body_cost},
};

use super::{
    errors::AdkError,
    json_error,
    validate::{Checker, Problem, shorten},
};
use crate::guard::Guards;

/// The body that a route expects.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedBody {
    pub(super) value: &'static ValueType,
    /// Whether the body may be missing or null.
    pub(super) is_optional: bool,
    /// Whether to keep unknown fields in objects where ADK rejects them.
    pub(super) keeps_unknown: bool,
}

/// A validated body, with field names in camelCase.
#[derive(Debug, Clone, Default)]
pub(super) struct Body(JsonMap);

impl ExpectedBody {
    fn required(value: &'static ValueType) -> ExpectedBody {
        ExpectedBody {
            value,
            is_optional: false,
            keeps_unknown: false,
        }
    }
}

/// Reads a required body.
pub(super) async fn read(request: Request, value: &'static ValueType) -> Result<Body, AdkError> {
    let expected = ExpectedBody::required(value);
    Ok(read_as(request, expected).await?.unwrap_or_default())
}

/// Reads a required body that names its app and user. `check_owner` gets both, if they are texts,
/// and rejects those of others before the rest of the body is validated.
pub(super) async fn read_of_owner(
    request: Request,
    value: &'static ValueType,
    check_owner: impl FnOnce(Option<&str>, Option<&str>) -> Result<(), AdkError>,
) -> Result<Body, AdkError> {
    let expected = ExpectedBody::required(value);
    let check = |value: &Json| {
        let Some(map) = value.as_object() else {
            return Ok(());
        };
        let text = |camel, snake| map.get(camel).or_else(|| map.get(snake))?.as_str();
        check_owner(text("appName", "app_name"), text("userId", "user_id"))
    };
    Ok(read_checked(request, expected, check)
        .await?
        .unwrap_or_default())
}

/// Reads a body; `None` if an optional one is missing or null.
pub(super) async fn read_as(
    request: Request,
    expected: ExpectedBody,
) -> Result<Option<Body>, AdkError> {
    read_checked(request, expected, |_| Ok(())).await
}

/// Reads a body, checks its value and then validates it.
async fn read_checked(
    request: Request,
    expected: ExpectedBody,
    check: impl FnOnce(&Json) -> Result<(), AdkError>,
) -> Result<Option<Body>, AdkError> {
    let is_json = is_json(&request);
    let guards = request.extensions().get::<Arc<Guards>>().cloned();
    let bytes = Bytes::from_request(request, &()).await;
    let bytes = bytes.map_err(|error| AdkError::new(error.status(), error.body_text()))?;
    if let Some(meter) = Meter::current() {
        meter.reserve(parsed_body_cost(&bytes)).await?;
    }
    let read = || {
        let value = parse_value(&bytes, is_json)?;
        value.as_ref().map_or(Ok(()), check)?;
        validate(value, expected)
    };
    match guards {
        Some(guards) => guards.large_work.run(bytes.len(), read).await,
        None => read(),
    }
}

/// Parses a body; `None` if it is empty.
fn parse_value(bytes: &[u8], is_json: bool) -> Result<Option<Json>, AdkError> {
    Ok(match (bytes.is_empty(), is_json) {
        (true, _) => None,
        (false, true) => Some(parse(bytes)?),
        // FastAPI takes a body without a JSON content type as text, so that a page of another
        // origin cannot send JSON without a CORS preflight.
        (false, false) => Some(Json::from(String::from_utf8_lossy(bytes).into_owned())),
    })
}

/// Validates a body; `None` if an optional one is missing or null.
fn validate(value: Option<Json>, expected: ExpectedBody) -> Result<Option<Body>, AdkError> {
    let value = match value {
        None | Some(Json::Null) if expected.is_optional => return Ok(None),
        None | Some(Json::Null) => return Err(missing()),
        Some(value) => value,
    };
    let mut checker = Checker::new("body");
    checker.keeps_unknown = expected.keeps_unknown;
    match checker.check(expected.value, &value) {
        Ok(Json::Object(map)) => Ok(Some(Body((*map).clone()))),
        Ok(_) => Ok(None),
        Err(problems) => Err(AdkError::Invalid(problems)),
    }
}

fn is_json(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let subtype = kind.strip_prefix("application/");
    subtype.is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

fn parse(bytes: &[u8]) -> Result<Json, AdkError> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(AdkError::bad_request("There was an error parsing the body"));
    };
    // Python skips a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Json::parse(text).map_err(|error| {
        let (position, reason) = json_error::python_error(text)
            .unwrap_or_else(|| (chars_before(text, error.offset()), error.message().into()));
        AdkError::Invalid(vec![Problem {
            kind: "json_invalid",
            loc: vec!["body".into(), position.into()],
            message: "JSON decode error".to_owned(),
            input: JsonMap::new().into(),
            context: Some([("error", reason)].into()),
        }])
    })
}

fn chars_before(text: &str, offset: usize) -> usize {
    let before = text.char_indices();
    before.take_while(|(at, _)| *at < offset).count()
}

fn missing() -> AdkError {
    AdkError::Invalid(vec![Problem {
        kind: "missing",
        loc: vec!["body".into()],
        message: "Field required".to_owned(),
        input: Json::Null,
        context: None,
    }])
}

/// Returns the error for a value that passed validation but that `retain_core` cannot parse.
fn unreadable(place: &[Json], value: &Json, error: &JsonError) -> AdkError {
    AdkError::Invalid(vec![Problem {
        kind: "value_error",
        loc: [&["body".into()], place].concat(),
        message: format!("Value error, {error}"),
        input: shorten(value),
        context: None,
    }])
}

impl Body {
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_str().map(str::to_owned)
    }

    /// Reads a string field that ADK's table requires, so that a validated body has it.
    pub(super) fn required_text(&self, name: &str) -> Result<String, AdkError> {
        let missing =
            || AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{name} required"));
        self.text(name).ok_or_else(missing)
    }

    pub(super) fn bool(&self, name: &str) -> bool {
        self.0.get(name).and_then(Json::as_bool).unwrap_or(false)
    }

    pub(super) fn map(&self, name: &str) -> Option<JsonMap> {
        self.0.get(name)?.as_object().cloned()
    }

    /// Returns the keys of a map in the body.
    pub(super) fn keys(&self, name: &str) -> impl Iterator<Item = &str> {
        let map = self.0.get(name).and_then(Json::as_object);
        map.into_iter().flat_map(JsonMap::keys)
    }

    /// Returns the whole object of a body with arbitrary fields.
    pub(super) fn into_map(self) -> JsonMap {
        self.0
    }

    pub(super) fn content(&self, name: &str) -> Result<Option<Content>, AdkError> {
        self.read(name, Content::from_json)
    }

    pub(super) fn part(&self, name: &str) -> Result<Option<Part>, AdkError> {
        self.read(name, Part::from_json)
    }

    pub(super) fn events(&self, name: &str) -> Result<Vec<Event>, AdkError> {
        let events = self.0.get(name).and_then(Json::as_array);
        let events = events.unwrap_or_default().iter().enumerate();
        let read = |(at, value): (usize, &Json)| {
            let event = Event::from_json(&value.to_string());
            event.map_err(|error| unreadable(&[name.into(), at.into()], value, &error))
        };
        events.map(read).collect()
    }

    fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, JsonError>,
    ) -> Result<Option<T>, AdkError> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let read = read(&value.to_string());
        read.map(Some)
            .map_err(|error| unreadable(&[name.into()], value, &error))
    }
}
