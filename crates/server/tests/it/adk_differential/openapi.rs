//! The API description lists the same enum values for the same fields as that of Google's server.

use retain_core::{Json, JsonMap};
use retain_server::openapi_json;

use super::start_google;

/// Returns the values that a field's schema lists. `components` has the schemas that it refers to.
fn known_values<'a>(schema: &'a Json, components: &'a Json) -> Option<&'a Json> {
    if !schema["enum"].is_null() {
        return Some(&schema["enum"]);
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next()?;
        return known_values(&components[name], components);
    }
    let mut alternatives = schema["anyOf"].as_array()?.iter();
    alternatives.find_map(|schema| known_values(schema, components))
}

#[test]
fn openapi_lists_the_same_enum_values_as_adk() {
    let Some(mut google) = start_google(None) else {
        return;
    };
    let request = JsonMap::from([
        ("method", "GET"),
        ("path", "/openapi.json"),
        ("kind", ""),
        ("body", ""),
    ]);
    let answer = google.ask(&request.into());
    google.stop();
    let theirs = Json::parse(answer["text"].as_str().unwrap()).unwrap();
    let ours = Json::parse(openapi_json()).unwrap();
    let (theirs, ours) = (
        &theirs["components"]["schemas"],
        &ours["components"]["schemas"],
    );
    let mut compared = 0;
    for (name, schema) in ours.as_object().unwrap() {
        // Pydantic describes an event that it reads and one that it writes separately.
        let output = format!("{name}-Output");
        let same = [name, output.as_str()]
            .into_iter()
            .find(|name| !theirs[*name].is_null());
        let (Some(same), Some(fields)) = (same, schema["properties"].as_object()) else {
            continue;
        };
        for (field, schema) in fields {
            let expected = known_values(&theirs[same]["properties"][field], theirs);
            assert_eq!(known_values(schema, ours), expected, "{name}.{field}");
            compared += usize::from(expected.is_some());
        }
    }
    assert!(compared >= 5, "only {compared} fields were compared");
}
