//! The API description lists exactly the existing routes and equals the committed file.

use std::{collections::BTreeSet, path::Path};

use retain_core::Json;
use retain_server::{Access, Server, openapi_json};

use crate::api::client::Client;

/// Returns the methods and paths in the API description.
fn described_routes() -> BTreeSet<(String, String)> {
    let document = Json::parse(openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| (method.to_ascii_uppercase(), path.to_owned()))
    });
    all.collect()
}

#[test]
fn openapi_describes_exactly_the_routes_of_the_server() {
    let routes = Server::routes().into_iter();
    let routes = routes.map(|route| (route.method.to_string(), route.path.replace("{*", "{")));
    let routes: BTreeSet<(String, String)> = routes.collect();
    let described = described_routes();
    let missing: Vec<_> = routes.difference(&described).collect();
    let stale: Vec<_> = described.difference(&routes).collect();
    assert!(
        missing.is_empty(),
        "not described in api/openapi/other_routes.rs: {missing:?}"
    );
    assert!(stale.is_empty(), "described, but not a route: {stale:?}");
}

#[test]
fn openapi_describes_the_error_responses_of_the_guards() {
    let document = Json::parse(openapi_json()).unwrap();
    for route in Server::routes() {
        let method = route.method.as_str().to_ascii_lowercase();
        let path = route.path.replace("{*", "{");
        let operation = &document["paths"][path.as_str()][method.as_str()];
        let described = |status: &str| !operation["responses"][status].is_null();
        let needs_key = route.access != Access::Public;
        for status in ["401", "403", "429", "503"] {
            let shown = format!("{method} {path}: {status}");
            assert!(!needs_key || described(status), "{shown}");
        }
        let takes_a_body = !operation["requestBody"].is_null();
        for status in ["413", "415"] {
            let shown = format!("{method} {path}: {status}");
            assert!(!takes_a_body || described(status), "{shown}");
        }
    }
}

#[test]
fn committed_openapi_document_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("RETAIN_WRITE_OPENAPI").is_some() {
        std::fs::write(&path, openapi_json()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == openapi_json(),
        "docs/openapi.json is outdated; write it with\n  \
         RETAIN_WRITE_OPENAPI=1 cargo test -p retain-server --test it api::openapi"
    );
}

#[tokio::test]
async fn openapi_document_is_served() {
    let answer = Client::in_memory().get("/openapi.json").await;
    assert_eq!(
        (answer.status.as_u16(), answer.content_type()),
        (200, "application/json")
    );
    assert_eq!(answer.text(), openapi_json());
}

#[test]
fn openapi_references_resolve_and_operation_ids_are_unique() {
    let document = Json::parse(openapi_json()).unwrap();
    let text = openapi_json();
    for reference in text.split("\"$ref\": \"#").skip(1) {
        let place = reference.split('"').next().unwrap();
        let found = place
            .split('/')
            .skip(1)
            .fold(&document, |at, name| &at[name]);
        assert!(!found.is_null(), "{place}");
    }
    let mut ids = BTreeSet::new();
    for id in text.split("\"operationId\": \"").skip(1) {
        let id = id.split('"').next().unwrap();
        assert!(ids.insert(id), "two operations have the id {id}");
    }
    assert!(ids.len() > 40);
}
