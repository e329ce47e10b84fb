//! Converts tool results to the form that ADK stores: protocol keys in the field order of the
//! Python SDK, `_meta` as `meta`, no null values, and always `isError`.
//!
//! Values whose format the server chooses (`structuredContent`, `_meta`, schemas) are unchanged.

use retain_core::{Json, JsonMap};

/// The keys of an object in ADK's order, and the kinds of their values. Other keys are dropped.
struct Shape(&'static [(&'static str, Value)]);

/// The kind of a value.
enum Value {
    /// Any value, copied unchanged.
    Whole,
    /// An object with this shape.
    One(&'static Shape),
    /// A list of objects with this shape.
    Many(&'static Shape),
    /// A list of content items.
    Contents,
    /// The contents of a resource.
    Resource,
}

use Value::{Contents, Many, One, Resource, Whole};

const META: &str = "_meta";

static ANNOTATIONS: Shape = Shape(&[
    ("audience", Whole),
    ("priority", Whole),
    ("lastModified", Whole),
]);
static ICON: Shape = Shape(&[
    ("src", Whole),
    ("mimeType", Whole),
    ("sizes", Whole),
    ("theme", Whole),
]);
static TEXT: Shape = Shape(&[
    ("type", Whole),
    ("text", Whole),
    ("annotations", One(&ANNOTATIONS)),
    (META, Whole),
]);
/// Images and audio.
static MEDIA: Shape = Shape(&[
    ("type", Whole),
    ("data", Whole),
    ("mimeType", Whole),
    ("annotations", One(&ANNOTATIONS)),
    (META, Whole),
]);
static EMBEDDED: Shape = Shape(&[
    ("type", Whole),
    ("resource", Resource),
    ("annotations", One(&ANNOTATIONS)),
    (META, Whole),
]);
static LINK: Shape = Shape(&[
    ("name", Whole),
    ("title", Whole),
    ("uri", Whole),
    ("description", Whole),
    ("mimeType", Whole),
    ("size", Whole),
    ("icons", Many(&ICON)),
    ("annotations", One(&ANNOTATIONS)),
    (META, Whole),
    ("type", Whole),
]);
static TEXT_RESOURCE: Shape = Shape(&[
    ("uri", Whole),
    ("mimeType", Whole),
    (META, Whole),
    ("text", Whole),
]);
static BLOB_RESOURCE: Shape = Shape(&[
    ("uri", Whole),
    ("mimeType", Whole),
    (META, Whole),
    ("blob", Whole),
]);
static RESULT: Shape = Shape(&[
    (META, Whole),
    ("content", Contents),
    ("structuredContent", Whole),
    ("isError", Whole),
]);
static TOOL_ANNOTATIONS: Shape = Shape(&[
    ("title", Whole),
    ("readOnlyHint", Whole),
    ("destructiveHint", Whole),
    ("idempotentHint", Whole),
    ("openWorldHint", Whole),
]);
static TOOL: Shape = Shape(&[
    ("name", Whole),
    ("title", Whole),
    ("description", Whole),
    ("inputSchema", Whole),
    ("outputSchema", Whole),
    ("icons", Many(&ICON)),
    ("annotations", One(&TOOL_ANNOTATIONS)),
    (META, Whole),
]);

/// Converts the result of a tool.
pub(crate) fn stored_result(wire: &Json) -> JsonMap {
    let mut wire = wire.as_object().cloned().unwrap_or_default();
    if wire.get("isError").is_none_or(Json::is_null) {
        wire.insert("isError", false);
    }
    apply_shape(&wire, &RESULT)
}

/// Converts the description of a tool.
pub(crate) fn stored_tool(wire: &Json) -> JsonMap {
    wire.as_object()
        .map(|wire| apply_shape(wire, &TOOL))
        .unwrap_or_default()
}

fn apply_shape(wire: &JsonMap, shape: &Shape) -> JsonMap {
    let mut stored = JsonMap::new();
    for (key, kind) in shape.0 {
        let Some(value) = wire.get(key).filter(|value| !value.is_null()) else {
            continue;
        };
        let name = if *key == META { "meta" } else { key };
        stored.insert(name, convert_value(value, kind));
    }
    stored
}

fn convert_value(value: &Json, kind: &Value) -> Json {
    match kind {
        Whole => value.clone(),
        One(shape) => object(value, shape),
        Many(shape) => convert_items(value, |item| object(item, shape)),
        Contents => convert_items(value, content),
        Resource => match value.get("text").is_some() {
            true => object(value, &TEXT_RESOURCE),
            false => object(value, &BLOB_RESOURCE),
        },
    }
}

fn object(value: &Json, shape: &Shape) -> Json {
    match value.as_object() {
        Some(map) => apply_shape(map, shape).into(),
        None => value.clone(),
    }
}

fn convert_items(value: &Json, change: impl Fn(&Json) -> Json) -> Json {
    match value.as_array() {
        Some(items) => items.iter().map(change).collect::<Vec<Json>>().into(),
        None => value.clone(),
    }
}

fn content(value: &Json) -> Json {
    let shape = match value.get("type").and_then(Json::as_str) {
        Some("text") => &TEXT,
        Some("image" | "audio") => &MEDIA,
        Some("resource") => &EMBEDDED,
        Some("resource_link") => &LINK,
        _ => return value.clone(),
    };
    object(value, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(wire: &str) -> String {
        let stored = stored_result(&Json::parse(wire).unwrap());
        Json::from(stored).to_json().unwrap()
    }

    #[test]
    fn tool_result_content_has_adks_keys_in_adks_order() {
        for (wire, expected) in [
            (
                r#"{"content":[{"text":"hi","type":"text"}]}"#,
                r#"{"content":[{"type":"text","text":"hi"}],"isError":false}"#,
            ),
            (
                r#"{"isError":true,"content":[{"mimeType":"image/png","data":"aGk=","type":"image"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"}]}"#,
                r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"}],"isError":true}"#,
            ),
            (
                r#"{"content":[{"type":"resource","resource":{"blob":"aGk=","_meta":{"_meta":1},"uri":"x:1"},"annotations":{"priority":0.7,"audience":["user"]}}]}"#,
                r#"{"content":[{"type":"resource","resource":{"uri":"x:1","meta":{"_meta":1},"blob":"aGk="},"annotations":{"audience":["user"],"priority":0.7}}],"isError":false}"#,
            ),
            (
                r#"{"content":[{"type":"resource","resource":{"text":"t","mimeType":"text/plain","uri":"x:1"}}]}"#,
                r#"{"content":[{"type":"resource","resource":{"uri":"x:1","mimeType":"text/plain","text":"t"}}],"isError":false}"#,
            ),
            (
                r#"{"content":[{"type":"resource_link","uri":"x:2","name":"n","icons":[{"sizes":["1x1"],"src":"s"}],"size":3}]}"#,
                r#"{"content":[{"name":"n","uri":"x:2","size":3,"icons":[{"src":"s","sizes":["1x1"]}],"type":"resource_link"}],"isError":false}"#,
            ),
            (
                r#"{"content":[],"structuredContent":{"b":null,"a":[1.0,{"_meta":2}]},"isError":null,"_meta":{"k":null}}"#,
                r#"{"meta":{"k":null},"content":[],"structuredContent":{"b":null,"a":[1.0,{"_meta":2}]},"isError":false}"#,
            ),
        ] {
            assert_eq!(stored(wire), expected);
        }
    }

    #[test]
    fn null_fields_of_a_tool_result_are_omitted() {
        let stored = stored(
            r#"{"content":[{"type":"text","text":"a","annotations":null}],"structuredContent":null}"#,
        );
        assert_eq!(
            stored,
            r#"{"content":[{"type":"text","text":"a"}],"isError":false}"#
        );
    }
}
