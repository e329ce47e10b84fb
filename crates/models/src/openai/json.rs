//! Small helpers for building and reading JSON in the providers' forms.

use retain_core::{Json, JsonMap};

/// An object with these fields, in their order.
pub(crate) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    JsonMap::from(fields).into()
}

/// A list of these.
pub(crate) fn list(items: impl IntoIterator<Item = Json>) -> Json {
    items.into_iter().collect::<Vec<_>>().into()
}

/// The value of a field in either spelling; `None` for `null`.
pub(crate) fn either<'a>(value: &'a Json, camel: &str, snake: &str) -> Option<&'a Json> {
    let found = value.get(camel).or_else(|| value.get(snake));
    found.filter(|value| !value.is_null())
}

/// The text of a field, if it is one with something in it.
pub(crate) fn text<'a>(value: &'a Json, field: &str) -> Option<&'a str> {
    let text = value.get(field).and_then(Json::as_str);
    text.filter(|text| !text.is_empty())
}
