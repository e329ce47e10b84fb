//! Helpers for building and reading JSON.

use retain_core::{Json, JsonMap};

/// Creates an object with these fields, in order.
pub(crate) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    JsonMap::from(fields).into()
}

/// Creates a list of these items.
pub(crate) fn list(items: impl IntoIterator<Item = Json>) -> Json {
    items.into_iter().collect::<Vec<_>>().into()
}

/// Returns a field by its camel-case or snake-case name; `None` for `null`.
pub(crate) fn either<'a>(value: &'a Json, camel: &str, snake: &str) -> Option<&'a Json> {
    let found = value.get(camel).or_else(|| value.get(snake));
    found.filter(|value| !value.is_null())
}

/// Returns the value of a field if it is a non-empty string.
pub(crate) fn text<'a>(value: &'a Json, field: &str) -> Option<&'a str> {
    let text = value.get(field).and_then(Json::as_str);
    text.filter(|text| !text.is_empty())
}
