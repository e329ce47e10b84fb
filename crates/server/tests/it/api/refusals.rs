//! Invalid bodies, parameters, methods and paths are always reported as a problem.

use axum::{
    body::Body,
    http::{Method, Request, header},
};

use crate::api::client::{Client, SESSION, SESSIONS, request};

#[tokio::test]
async fn invalid_parameter_is_named_in_the_error() {
    let client = Client::in_memory().with_session().await;
    let cases = [
        (SESSIONS.to_owned(), "limit", "0"),
        (SESSIONS.to_owned(), "limit", "1001"),
        (SESSIONS.to_owned(), "limit", "x"),
        (SESSIONS.to_owned(), "state", "1"),
        (SESSIONS.to_owned(), "after", "x"),
        (SESSIONS.to_owned(), "unknown", "1"),
        (SESSION.to_owned(), "recent", "-1"),
        (SESSION.to_owned(), "afterPosition", "1.5"),
        (SESSION.to_owned(), "upTo", "99999999999999999999"),
        (SESSION.to_owned(), "afterTime", "NaN"),
        (SESSION.to_owned(), "afterTime", "inf"),
        (SESSION.to_owned(), "events", ""),
        (format!("{SESSION}/events"), "limit", "10001"),
        (format!("{SESSION}/state"), "at", "last"),
        (format!("{SESSION}/tail"), "after", "x"),
        (format!("{SESSION}/export"), "format", "csv"),
        (
            "/api/v1/apps/demo/users/ada/memory/entries".to_owned(),
            "kind",
            "other",
        ),
        (
            "/api/v1/apps/demo/users/ada/memory/entries".to_owned(),
            "origin",
            "other",
        ),
        (
            "/api/v1/apps/demo/users/ada/memory/entries".to_owned(),
            "from",
            "today",
        ),
    ];
    for (path, name, value) in cases {
        let answer = client.get(&format!("{path}?{name}={value}")).await;
        let problem = answer.problem(400, "invalid_parameter");
        assert_eq!(problem["parameter"], name, "{path} {value}");
    }
    let twice = client.get(&format!("{SESSIONS}?limit=1&limit=2")).await;
    twice.problem(400, "invalid_parameter");
}

#[tokio::test]
async fn invalid_body_is_rejected() {
    let client = Client::in_memory().with_session().await;
    let path = format!("{SESSION}/events");
    let deep = format!(
        "{{\"events\":[{{\"custom\":{}1{}}}]}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    let invalid = [
        "{",
        "[]",
        "null",
        "{\"events\":{}}",
        "{\"events\":[1]}",
        "{\"events\":[],\"expected\":-1}",
        "{\"events\":[],\"expected\":1e99}",
        "{\"events\":[],\"unknown\":1}",
        "{\"events\":[],\"events\":[]}",
        "{\"events\":[],\"run\":{\"begin\":{\"waitMs\":60001}}}",
        "{\"events\":[],\"run\":{\"start\":{}}}",
        "{\"events\":[{\"timestamp\":NaN}]}",
        "{\"events\":[{\"id\":\"\\ud800\"}]}",
        &deep,
    ];
    for body in invalid {
        client.post(&path, body).await.problem(400, "invalid_body");
    }
    assert_eq!(client.get(SESSION).await.expect(200)["position"], 0);
}

#[tokio::test]
async fn body_with_another_content_type_is_rejected() {
    let client = Client::in_memory();
    let send = async |media_type: Option<&str>| {
        let mut request = Request::post(SESSIONS);
        if let Some(media_type) = media_type {
            request = request.header(header::CONTENT_TYPE, media_type);
        }
        client.send(request.body(Body::from("{}")).unwrap()).await
    };
    for accepted in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/x+json",
    ] {
        assert_eq!(send(Some(accepted)).await.status, 201, "{accepted}");
    }
    for rejected in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some(""),
    ] {
        send(rejected).await.problem(415, "unsupported_media_type");
    }
}

#[tokio::test]
async fn unknown_path_or_method_returns_a_problem() {
    let client = Client::in_memory();
    client
        .get("/api/v1/nothing")
        .await
        .problem(404, "not_found");
    client
        .get("/api/v1/apps/demo/users//sessions")
        .await
        .problem(400, "invalid");
    let answer = client.send(request(Method::PUT, SESSION, "")).await;
    let allowed = answer.headers[header::ALLOW].to_str().unwrap().to_owned();
    assert!(
        allowed.contains("GET") && allowed.contains("DELETE"),
        "{allowed}"
    );
    answer.problem(405, "method_not_allowed");
    let bytes = client.get("/api/v1/apps/demo/users/%FF/sessions").await;
    bytes.problem(400, "invalid");
    // Other APIs have their own error format.
    assert_ne!(
        client.get("/nothing").await.content_type(),
        "application/problem+json"
    );
}
