//! Export and import: sessions are copied from one server to another without loss.

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use futures_util::stream;
use retain_core::Json;

use crate::api::client::{Answer, Client, SESSION, SESSIONS, request};

async fn import(client: &Client, body: impl Into<Body>) -> Answer {
    let request =
        Request::post("/api/v1/import").header(header::CONTENT_TYPE, "application/x-ndjson");
    client.send(request.body(body.into()).unwrap()).await
}

/// Creates a client of a server with three sessions of two users.
async fn with_sessions() -> Client {
    let client = Client::in_memory();
    for (user, id) in [("ada", "s1"), ("ada", "s2"), ("bob", "s1")] {
        let sessions = format!("/api/v1/apps/demo/users/{user}/sessions");
        let body = format!(r#"{{"sessionId":"{id}","state":{{"user:of":"{user}","n":1.50}}}}"#);
        client.post(&sessions, &body).await.expect(201);
        for n in 1..=300 {
            client
                .say(&format!("{sessions}/{id}"), &format!("e{n}"), "text")
                .await;
        }
    }
    client
}

#[tokio::test]
async fn export_of_any_scope_imports_unchanged() {
    let from = with_sessions().await;
    let scopes = [
        (format!("{SESSION}/export"), 1),
        ("/api/v1/apps/demo/users/ada/export".to_owned(), 2),
        ("/api/v1/apps/demo/export".to_owned(), 3),
    ];
    for (path, sessions) in scopes {
        let export = from.get(&path).await;
        assert_eq!(export.status, 200);
        assert_eq!(export.content_type(), "application/x-ndjson");
        let to = Client::sqlite().await;
        let receipt = import(&to, export.body).await.expect(200);
        assert_eq!(receipt["sessions"].as_u64(), Some(sessions), "{path}");
        assert_eq!(receipt["events"].as_u64(), Some(sessions * 300));
        let (there, here) = (from.get(SESSION).await, to.get(SESSION).await);
        assert_eq!(there.json(), here.json(), "{path}");
        let again = import(&to, from.get(&path).await.body).await;
        again.problem(409, "session_exists");
    }
}

#[tokio::test]
async fn import_accepts_a_body_in_small_chunks() {
    let from = with_sessions().await;
    let export = from.get(&format!("{SESSION}/export")).await.body;
    let pieces: Vec<_> = export
        .chunks(7)
        .map(|it| Ok::<_, std::io::Error>(it.to_vec()))
        .collect();
    let to = Client::in_memory();
    let receipt = import(&to, Body::from_stream(stream::iter(pieces)))
        .await
        .expect(200);
    assert_eq!(
        receipt.to_string(),
        r#"{"sessions":1,"events":300,"memories":0,"tombstones":0,"artifacts":0}"#
    );
}

#[tokio::test]
async fn export_carries_memories_and_artifacts_and_only_narrows_it() {
    let from = with_sessions().await;
    let user = "/api/v1/apps/demo/users/ada";
    let artifact = r#"{"filename":"a.txt","artifact":{"text":"x"}}"#;
    let path = format!("{user}/sessions/s1/artifacts");
    from.post(&path, artifact).await.expect(200);
    let ingest = r#"{"sessionId":"s1"}"#;
    let path = format!("{user}/memory/sessions");
    from.post(&path, ingest).await.expect(200);
    let export = async |query: &str| from.get(&format!("{user}/export{query}")).await;
    let to = Client::sqlite().await;
    let receipt = import(&to, export("").await.body).await.expect(200);
    assert_eq!(receipt["memories"].as_u64(), Some(300), "{receipt}");
    assert_eq!(receipt["artifacts"].as_u64(), Some(1), "{receipt}");
    let to = Client::in_memory();
    let narrowed = export("?only=artifacts").await.body;
    let receipt = import(&to, narrowed).await.expect(200);
    let expected = r#"{"sessions":0,"events":0,"memories":0,"tombstones":0,"artifacts":1}"#;
    assert_eq!(receipt.to_string(), expected);
    let unknown = export("?only=keys").await;
    unknown.problem(400, "invalid_parameter");
    let without_store = Client::with_adk_memory();
    let path = format!("{user}/export?only=memories");
    without_store.get(&path).await.problem(501, "unsupported");
}

#[tokio::test]
async fn interrupted_or_invalid_import_stores_nothing() {
    let from = with_sessions().await;
    let export = from.get(&format!("{SESSION}/export")).await.body;
    let to = Client::in_memory();
    let half = export.slice(..export.len() / 2);
    let problem = import(&to, half.clone())
        .await
        .problem(400, "import_invalid");
    assert!(problem["line"].as_u64().is_some_and(|line| line > 2));
    let broken: Vec<Result<Vec<u8>, std::io::Error>> =
        vec![Ok(half.to_vec()), Err(std::io::Error::other("gone"))];
    let broken = import(&to, Body::from_stream(stream::iter(broken))).await;
    broken.problem(400, "import_invalid");
    for (body, line) in [("[]\n", 1), ("\n{}\n", 2), ("{\"retain\":\"session\"}", 1)] {
        let problem = import(&to, body).await.problem(400, "import_invalid");
        assert_eq!(problem["line"].as_u64(), Some(line), "{problem}");
    }
    let list = to.get(SESSIONS).await.expect(200);
    assert_eq!(list["sessions"], Json::from(Vec::new()));
    assert_eq!(
        import(&to, "").await.expect(200).to_string(),
        r#"{"sessions":0,"events":0,"memories":0,"tombstones":0,"artifacts":0}"#
    );
}

#[tokio::test]
async fn import_with_another_content_type_is_rejected() {
    let client = Client::in_memory();
    let answer = client
        .send(request(Method::POST, "/api/v1/import", "{}"))
        .await;
    answer.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn export_without_sessions_is_empty() {
    let client = Client::in_memory();
    let none = client.get(&format!("{SESSION}/export")).await;
    none.problem(404, "session_not_found");
    for path in [
        "/api/v1/apps/demo/users/ada/export",
        "/api/v1/apps/demo/export",
    ] {
        let empty = client.get(path).await;
        assert_eq!(
            (empty.status.as_u16(), empty.body.len()),
            (200, 0),
            "{path}"
        );
    }
}
