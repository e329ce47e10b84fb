//! Response schemas and function schemas.

use super::*;
use crate::gemini::schema::{convert_function_schema, convert_response_schema};

#[test]
fn response_schema_is_sent_in_geminis_format() {
    let cases = [
        // A schema that `schemars` derives.
        (
            r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Trip","type":"object",
                "properties":{"to":{"$ref":"#/$defs/City","description":"where to"},"days":{"type":["integer","null"],"format":"uint32","minimum":0},
                    "kind":{"oneOf":[{"const":"Work","type":"string"},{"const":"Fun","type":"string"}]}},
                "required":["to","kind"],"$defs":{"City":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}"##,
            r#"{"title":"Trip","type":"OBJECT","properties":{"to":{"type":"OBJECT","properties":{"name":{"type":"STRING"}},"required":["name"],"description":"where to"},
                "days":{"type":"INTEGER","nullable":true,"minimum":0},"kind":{"anyOf":[{"type":"STRING","enum":["Work"]},{"type":"STRING","enum":["Fun"]}]}},
                "required":["to","kind"],"propertyOrdering":["to","days","kind"]}"#,
        ),
        // A schema that Pydantic derives.
        (
            r##"{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null,"title":"A"}}}"##,
            r#"{"type":"OBJECT","properties":{"a":{"type":"INTEGER","nullable":true,"title":"A"}}}"#,
        ),
        // A schema in Google's own format, with keywords in snake case.
        (
            r#"{"type":"ARRAY","items":{"any_of":[{"type":"STRING"},{"type":"NUMBER"}]},"min_items":1,"max_items":3}"#,
            r#"{"type":"ARRAY","items":{"anyOf":[{"type":"STRING"},{"type":"NUMBER"}]},"minItems":1,"maxItems":3}"#,
        ),
        // A property may have any name.
        (
            r#"{"type":"object","properties":{"any_of":{"type":"string"},"$ref":{"type":"boolean"}},"propertyOrdering":["$ref","any_of"]}"#,
            r#"{"type":"OBJECT","properties":{"any_of":{"type":"STRING"},"$ref":{"type":"BOOLEAN"}},"propertyOrdering":["$ref","any_of"]}"#,
        ),
        // A recursive schema accepts any value where it refers to itself.
        (
            r##"{"$ref":"#/$defs/Node","$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}}}}"##,
            r#"{"type":"OBJECT","properties":{"next":{}}}"#,
        ),
        (
            r#"{"type":"string","exclusiveMinimum":3,"x":1}"#,
            r#"{"type":"STRING"}"#,
        ),
        (
            r#"{"type":"integer","enum":[1,2]}"#,
            r#"{"type":"INTEGER","enum":["1","2"]}"#,
        ),
    ];
    for (schema, expected) in cases {
        let sent = convert_response_schema(&json(schema), false).expect("a schema");
        assert_eq!(sent, json(expected), "{schema}");
    }
}

#[test]
fn schemas_without_an_equivalent_are_rejected() {
    let open = json(r#"{"type":"object","additionalProperties":{"type":"string"}}"#);
    assert!(convert_response_schema(&open, false).is_err());
    let sent = convert_response_schema(&open, true).expect("a schema");
    assert_eq!(
        sent,
        json(r#"{"type":"OBJECT","additionalProperties":{"type":"STRING"}}"#)
    );
    let closed = json(r#"{"type":"object","additionalProperties":false}"#);
    assert!(convert_response_schema(&closed, false).is_ok());
    let missing = json(r##"{"$ref":"#/$defs/Missing"}"##);
    assert!(convert_response_schema(&missing, true).is_err());
}

#[test]
fn function_schema_is_converted_to_camel_case() {
    let schema = r#"{"type":"object","properties":{"a_b":{"type":"array","items":{"type":"string","max_length":3}}},"property_ordering":["a_b"],"title":null}"#;
    let expected = r#"{"type":"OBJECT","properties":{"a_b":{"type":"ARRAY","items":{"type":"STRING","maxLength":3}}},"propertyOrdering":["a_b"]}"#;
    assert_eq!(convert_function_schema(&json(schema)), json(expected));
}
