//! Hostile ids on every route.

use axum::http::Method;
use retain_core::Json;
use retain_server::Server;

use crate::api::client::{Client, request};

/// Returns percent-encoded ids, and whether they can be stored.
fn ids() -> Vec<(String, bool)> {
    let valid = [
        "%2F",
        "..%2F..%2Fetc%2Fpasswd",
        "..",
        ".",
        "%2e%2e",
        "%25",
        "%2500",
        "a%20b",
        "%F0%9F%92%A9",
        "%E2%80%AE",
        "a%0A%0D",
        "'%3B--",
        "%22%7D",
        "%5C",
        "*",
        "+",
        "null",
        "%7Bapp%7D",
        "%E0%B8%80%CC%81",
    ];
    let mut ids: Vec<(String, bool)> = valid.map(|id| (id.to_owned(), true)).into();
    ids.push(("x".repeat(512), true));
    ids.push(("x".repeat(513), false));
    ids.push(("%F0%9F%92%A9".repeat(129), false));
    ids.push(("x".repeat(60_000), false));
    ids.push(("%00".to_owned(), false));
    ids.push(("a%00b".to_owned(), false));
    ids.push(("%FF".to_owned(), false));
    ids
}

/// Returns the parameters of a path.
fn parameters(path: &str) -> Vec<&str> {
    let segments = path.split('/').filter(|segment| segment.starts_with('{'));
    segments.collect()
}

/// Returns a body and a query that are valid for the route.
fn valid_input(method: &Method, path: &str) -> (&'static str, &'static str) {
    let last = path.rsplit('/').next().unwrap_or_default();
    match (method.as_str(), last) {
        (_, "search") => (r#"{"query":"x"}"#, ""),
        (_, "forget") => (r#"{"session":"x"}"#, ""),
        (_, "rewind") => (r#"{"beforeInvocationId":"x"}"#, ""),
        ("POST", "events") => (
            r#"{"events":[{"author":"user","content":{"parts":[{"text":"x"}]}}]}"#,
            "",
        ),
        ("POST", "entries") => (r#"{"memories":[{"content":{"parts":[{"text":"x"}]}}]}"#, ""),
        ("POST", "artifacts") => (r#"{"filename":"user:x","artifact":{"text":"x"}}"#, ""),
        ("DELETE", "artifacts") | (_, "load" | "version" | "versions") => ("", "?name=user:x"),
        ("POST", "sessions") if path.contains("/memory/") => {
            (r#"{"session":{"id":"x","events":[]}}"#, "")
        }
        ("POST" | "PATCH", _) => ("{}", ""),
        _ => ("", ""),
    }
}

/// Checks that no route returns an internal error for any of the ids in any parameter of its path.
async fn assert_routes_handle_hostile_ids(client: &Client) {
    let mut count = 0;
    for route in Server::routes() {
        let is_ours = route.path.starts_with("/api/");
        for place in parameters(route.path) {
            for (id, can_be_stored) in ids() {
                let (body, query) = valid_input(&route.method, route.path);
                let path = route.path.replace(place, &id).replace(['{', '}'], "");
                let path = format!("{path}{query}");
                // Do not read the body, because a tail does not end by itself.
                let request = request(route.method.clone(), &path, body);
                let status = client.open(request).await.status();
                let shown = format!("{} {path}: {status}", route.method);
                assert!(status.as_u16() < 500 || status.as_u16() == 501, "{shown}");
                // ADK's API does not reject all of them: it returns an empty result or uses another
                // name.
                assert!(
                    can_be_stored || !is_ours || status.is_client_error(),
                    "{shown}"
                );
                count += 1;
            }
        }
    }
    assert!(count > 2000, "only {count} requests");
}

#[tokio::test]
async fn hostile_ids_are_handled_on_in_memory_services() {
    assert_routes_handle_hostile_ids(&Client::in_memory()).await;
    assert_routes_handle_hostile_ids(&Client::with_adk_memory()).await;
}

#[tokio::test]
async fn hostile_ids_are_handled_on_sqlite() {
    assert_routes_handle_hostile_ids(&Client::sqlite().await).await;
}

#[tokio::test]
async fn unusual_ids_are_distinct_and_round_trip() {
    let client = Client::sqlite().await;
    // Skip the second spelling of one id, which would not be distinct.
    let can_be_stored = |(id, can_be_stored): &&(String, bool)| *can_be_stored && id != "%2e%2e";
    for (id, _) in ids().iter().filter(can_be_stored) {
        let sessions = format!("/api/v1/apps/{id}/users/{id}/sessions");
        let decoded = client.post(&sessions, "").await.expect(201)["userId"].clone();
        let body = Json::from(retain_core::JsonMap::from([("sessionId", decoded.clone())]));
        client.post(&sessions, &body.to_string()).await.expect(201);
        let one = format!("{sessions}/{id}");
        let read = client.get(&one).await.expect(200);
        assert_eq!(
            (&read["id"], &read["appName"]),
            (&decoded, &decoded),
            "{id}"
        );
        let list = client.get(&sessions).await.expect(200);
        assert_eq!(list["sessions"].as_array().unwrap().len(), 2, "{id}");
        assert_eq!(client.delete(&one).await.status, 204);
        let list = client.get(&sessions).await.expect(200);
        assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{id}");
    }
}
