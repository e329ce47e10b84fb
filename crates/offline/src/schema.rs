//! Fits an answer to an output schema, without inventing values.

use retain_core::{Json, JsonMap};

/// Returns the answer as JSON that follows `schema`, or the reason why it does not fit.
///
/// A text fits a string schema, or an object schema with a string field that requires no other
/// field.
pub(super) fn fill(schema: &Json, answer: &str) -> Result<String, String> {
    if is_text(schema) {
        return Ok(Json::from(answer).to_string());
    }
    let Some(fields) = schema.get("properties").and_then(Json::as_object) else {
        return Err("the schema requires a type other than string or object".to_owned());
    };
    let required = schema.get("required").and_then(Json::as_array);
    let required: Vec<&str> = required
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .collect();
    let field = match required.as_slice() {
        [] => fields
            .iter()
            .find(|(_, field)| is_text(field))
            .map(|(name, _)| name),
        [name] => fields
            .get(name)
            .filter(|field| is_text(field))
            .map(|_| *name),
        _ => None,
    };
    match field {
        Some(name) => Ok(Json::from(JsonMap::from([(name, answer)])).to_string()),
        None if required.is_empty() => Err("the schema has no string field".to_owned()),
        None => Err(format!("the schema requires {}", required.join(", "))),
    }
}

/// Whether the schema accepts any string.
fn is_text(schema: &Json) -> bool {
    let is_string = |kind: &Json| {
        let kind = kind.as_str();
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case("string"))
    };
    let kind = &schema["type"];
    let allows_string = is_string(kind)
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(is_string));
    let limits = ["enum", "const", "format", "pattern", "maxLength"];
    allows_string && limits.iter().all(|limit| schema.get(limit).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill_schema(schema: &str) -> Result<String, String> {
        fill(&Json::parse(schema).unwrap(), "tea")
    }

    #[test]
    fn schema_that_requires_at_most_one_string_is_filled() {
        for (schema, expected) in [
            (r#"{"type": "string"}"#, r#""tea""#),
            (
                r#"{"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}, "drink": {"type": "STRING"}}, "required": ["drink"]}"#,
                r#"{"drink":"tea"}"#,
            ),
            (
                r#"{"properties": {"n": {"type": "integer"}, "a": {"type": ["string", "null"]}}}"#,
                r#"{"a":"tea"}"#,
            ),
        ] {
            assert_eq!(fill_schema(schema).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn unfillable_schema_error_names_the_fields() {
        for (schema, why) in [
            (r#"{"type": "array"}"#, "a type other than string or object"),
            (
                r#"{"properties": {"n": {"type": "integer"}}, "required": ["n"]}"#,
                "requires n",
            ),
            (
                r#"{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]}"#,
                "requires a, b",
            ),
            (
                r#"{"properties": {"a": {"type": "string", "enum": ["x"]}}}"#,
                "no string field",
            ),
            ("7", "a type other than string or object"),
        ] {
            let error = fill_schema(schema).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
