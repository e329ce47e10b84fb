//! Converts settings to Google's spelling: camelCase, without nulls.

use retain_core::{Json, JsonMap};

/// Converts all keys to camelCase and removes nulls. Call it only for objects without user-defined
/// keys.
pub(super) fn camel(value: &Json) -> Json {
    match value {
        Json::Object(map) => camel_map(map).into(),
        Json::Array(items) => items.iter().map(camel).collect::<Vec<_>>().into(),
        _ => value.clone(),
    }
}

/// Converts a map as `camel` does.
pub(super) fn camel_map(map: &JsonMap) -> JsonMap {
    let kept = map.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (camel_key(key), camel(value)))
        .collect()
}

/// Converts `snake_case` to `snakeCase`.
pub(super) fn camel_key(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let mut raise = false;
    for c in key.chars() {
        match c {
            '_' if !out.is_empty() => raise = true,
            c if raise => {
                out.extend(c.to_uppercase());
                raise = false;
            }
            c => out.push(c),
        }
    }
    out
}
