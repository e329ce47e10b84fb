//! The description of a route, added together with the route.

use axum::http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::query::Param;

/// A function that generates the schema of a type.
pub(super) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// A request or response body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
    /// Its media type.
    pub(super) media_type: &'static str,
    /// Its schema; `None` for a stream, which is not a single JSON value.
    pub(super) schema: Option<MakeSchema>,
}

impl Body {
    /// Describes a JSON body by the schema of a type.
    pub(super) fn json<T: JsonSchema>() -> Body {
        Body {
            media_type: "application/json",
            schema: Some(|generator| generator.subschema_for::<T>()),
        }
    }

    /// Describes a body that is a stream of text.
    pub(super) const fn stream(media_type: &'static str) -> Body {
        Body {
            media_type,
            schema: None,
        }
    }
}

/// The purpose, input and output of a route.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// The operation id, used by code generators.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Param],
    /// Header parameters: name and description.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: Option<Body>,
    /// Whether the body may be missing.
    pub(super) body_is_optional: bool,
    pub(super) status: u16,
    pub(super) answer: Option<Body>,
    /// Statuses of problems that this route may return besides the common ones.
    pub(super) failures: &'static [u16],
}

impl Operation {
    pub(super) fn new(
        method: Method,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Operation {
        Operation {
            method,
            path,
            id,
            summary,
            query: &[],
            headers: &[],
            body: None,
            body_is_optional: false,
            status: 204,
            answer: None,
            failures: &[],
        }
    }

    pub(super) fn query(mut self, query: &'static [Param]) -> Operation {
        self.query = query;
        self
    }

    pub(super) fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Operation {
        self.headers = headers;
        self
    }

    /// Sets the JSON body.
    pub(super) fn takes<T: JsonSchema>(self) -> Operation {
        self.takes_body(Body::json::<T>())
    }

    /// Sets an optional JSON body.
    pub(super) fn may_take<T: JsonSchema>(mut self) -> Operation {
        self.body_is_optional = true;
        self.takes::<T>()
    }

    pub(super) fn takes_body(mut self, body: Body) -> Operation {
        self.body = Some(body);
        self
    }

    /// Sets the JSON response.
    pub(super) fn answers<T: JsonSchema>(self, status: u16) -> Operation {
        self.answers_body(status, Body::json::<T>())
    }

    pub(super) fn answers_body(mut self, status: u16, body: Body) -> Operation {
        self.status = status;
        self.answer = Some(body);
        self
    }

    pub(super) fn fails(mut self, failures: &'static [u16]) -> Operation {
        self.failures = failures;
        self
    }
}
