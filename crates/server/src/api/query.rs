//! Query parameters: declared once, for parsing and for the API description.

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde_json::{Value, json};

use super::problem::Problem;

/// The largest integer that JSON readers with 64-bit floats represent exactly.
pub(super) const INTEGER_MAX: u64 = (1 << 53) - 1;

/// The latest accepted time, the end of the year 9999. Its negative is the earliest accepted time.
pub(super) const TIME_MAX: f64 = 253_402_300_799.0;

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) required: bool,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// An integer in a range (inclusive).
    Integer(u64, u64),
    /// A time in seconds since 1970.
    Time,
    /// A string.
    Text,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Param {
    pub(super) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Param {
        Param {
            name,
            kind,
            about,
            required: false,
        }
    }

    pub(super) const fn required(mut self) -> Param {
        self.required = true;
        self
    }

    /// Describes the parameter as OpenAPI does.
    pub(super) fn describe(&self) -> Value {
        let schema = match self.kind {
            Kind::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
            Kind::Time => json!({"type": "number", "minimum": -TIME_MAX, "maximum": TIME_MAX}),
            Kind::Text => json!({"type": "string"}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Choice(words) => json!({"type": "string", "enum": words}),
        };
        json!({
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.about,
            "schema": schema,
        })
    }
}

/// The query parameters of a request.
pub(super) struct Params(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params, Problem> {
        let read = Query::from_request_parts(parts, &()).await;
        let Query(pairs) = read.map_err(|error| Problem::invalid_body(error.body_text()))?;
        Ok(Params(pairs))
    }
}

impl Params {
    /// Rejects unknown, repeated and missing required parameters.
    pub(super) fn only(self, known: &[Param]) -> Result<Params, Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.iter().any(|param| param.name == name) {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                let reason = match names.is_empty() {
                    true => "is unknown: this route has no parameters".to_owned(),
                    false => format!("is unknown; expected one of: {}", names.join(", ")),
                };
                return Err(Problem::invalid_parameter(name, reason));
            }
            if self.0[..at].iter().any(|(other, _)| other == name) {
                return Err(Problem::invalid_parameter(
                    name,
                    "is repeated; send it once",
                ));
            }
        }
        match known
            .iter()
            .find(|it| it.required && self.text(it).is_none())
        {
            Some(missing) => Err(Problem::invalid_parameter(missing.name, "is required")),
            None => Ok(self),
        }
    }

    pub(super) fn text(&self, param: &Param) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == param.name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn integer(&self, param: &Param) -> Result<Option<u64>, Problem> {
        let Kind::Integer(min, max) = param.kind else {
            return Ok(None);
        };
        let Some(text) = self.text(param) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|it| (min..=max).contains(it));
        let invalid = || {
            let reason = format!("must be an integer from {min} to {max}, not {text:?}");
            Problem::invalid_parameter(param.name, reason)
        };
        number.ok_or_else(invalid).map(Some)
    }

    /// Like [`integer`](Self::integer), as a `usize`.
    pub(super) fn count(&self, param: &Param) -> Result<Option<usize>, Problem> {
        let number = self.integer(param)?;
        Ok(number.map(|it| usize::try_from(it).unwrap_or(usize::MAX)))
    }

    pub(super) fn time(&self, param: &Param) -> Result<Option<f64>, Problem> {
        let Some(text) = self.text(param) else {
            return Ok(None);
        };
        let number: Option<f64> = text.parse().ok();
        let number = number.filter(|it| (-TIME_MAX..=TIME_MAX).contains(it));
        let invalid = || {
            let reason =
                format!("must be a time in seconds since 1970, up to the year 9999, not {text:?}");
            Problem::invalid_parameter(param.name, reason)
        };
        number.ok_or_else(invalid).map(Some)
    }

    pub(super) fn flag(&self, param: &Param) -> Result<Option<bool>, Problem> {
        match self.text(param) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => {
                let reason = format!("must be true or false, not {text:?}");
                Err(Problem::invalid_parameter(param.name, reason))
            }
        }
    }

    /// Returns the value after checking that it is one of the allowed words.
    pub(super) fn choice(&self, param: &Param) -> Result<Option<&str>, Problem> {
        match (self.text(param), param.kind) {
            (Some(word), Kind::Choice(words)) if !words.contains(&word) => {
                let reason = format!("must be one of {}, not {word:?}", words.join(", "));
                Err(Problem::invalid_parameter(param.name, reason))
            }
            (word, _) => Ok(word),
        }
    }
}
